/* What agent and shim say and leave to each other: base64 agrees with libsodium's; a job record reads back as it was
 * written, and what is read from any bytes packs and reads the same; a datagram of any length is a whole message with
 * zeros behind it; outputs are one JSON object. */
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/base64.h"
#include "exec/output.h"
#include "exec/shim/shim_message.h"
#include "fuzz.h"
#include "text/json_value.h"

#define SHAPES(X) \
    X(job_read) X(job_refused) X(job_argv) X(message_short) X(message_whole) X(outputs) X(outputs_left) X(status_fits)
FUZZ_SHAPES(SHAPES)

static void as_base64(struct str bytes)
{
    struct buf text;
    buf_init(&text, bytes.len * 2 + 8);
    base64_add(&text, bytes);
    unsigned char *back = mem_alloc(bytes.len + 1);
    size_t n = 0;
    HOLDS(sodium_base642bin(back, bytes.len + 1, text.ptr, text.len, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) ==
          0);
    HOLDS(n == bytes.len && (n == 0 || memcmp(back, bytes.ptr, n) == 0));
    mem_free(back);
    buf_release(&text);
}

static void strings_same(char *const *a, char *const *b)
{
    size_t i = 0;
    for (; a[i] && b[i]; i++)
        HOLDS(strcmp(a[i], b[i]) == 0);
    HOLDS(!a[i] && !b[i]);
    SEEN_IF(job_argv, i > 0);
}

/* The input as the body of a record, with the head that it should have: else nothing would get past the hash. */
static void as_job(struct arena *arena, struct str body)
{
    struct job_head head = { .magic = { 'W', 'J', 'B', '3' }, .body_bytes = body.len, .hash = str_hash(body) };
    struct buf record, packed, again;
    struct job job, back;
    struct err err = { 0 };
    buf_init(&record, JOB_BYTES_MAX);
    buf_init(&packed, JOB_BYTES_MAX);
    buf_init(&again, JOB_BYTES_MAX);
    buf_add(&record, &head, sizeof head);
    buf_add_str(&record, body);
    if (job_unpack(buf_str(&record), arena, &job, &err)) {
        job_pack(&job, &packed);
        HOLDS(job_unpack(buf_str(&packed), arena, &back, &err));
        HOLDS(job.task == back.task && str_eq(job.fence, back.fence) && job.holds == back.holds &&
              job.timeout_ms == back.timeout_ms);
        HOLDS(job.grace_ms == back.grace_ms && memcmp(&job.limits, &back.limits, sizeof job.limits) == 0);
        HOLDS(job.log_bytes_max == back.log_bytes_max && str_eq(job.script, back.script) &&
              str_eq(job.needs, back.needs));
        HOLDS(str_eq(job.input, back.input) && str_eq(job.refusal, back.refusal) &&
              job.refusal_exit == back.refusal_exit);
        HOLDS(job.strict == back.strict && job.checkout.kind == back.checkout.kind &&
              job.checkout.rev == back.checkout.rev);
        HOLDS(str_eq(job.note, back.note));
        HOLDS(str_eq(job.checkout.url, back.checkout.url) && str_eq(job.checkout.token, back.checkout.token));
        strings_same(job.argv, back.argv);
        strings_same(job.envp, back.envp);
        job_pack(&back, &again);
        HOLDS(str_eq(buf_str(&packed), buf_str(&again)));
        SEEN(job_read);
        record.ptr[record.len - 1] ^= 1; /* torn */
        HOLDS(!job_unpack(buf_str(&record), arena, &back, &err));
    } else {
        HOLDS(err.code == ERR_corrupt);
        SEEN(job_refused);
    }
    HOLDS(!job_unpack(body, arena, &job, &err) || body.len >= sizeof head); /* the bytes as they are */
    buf_release(&record);
    buf_release(&packed);
    buf_release(&again);
}

static void as_datagram(struct str bytes)
{
    static int ends[2] = { -1, -1 };
    struct shim_message message, back;
    if (ends[0] < 0)
        HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    if (bytes.len == 0 || bytes.len > 60000)
        return;
    HOLDS(send(ends[0], bytes.ptr, bytes.len, 0) == (ssize_t)bytes.len);
    HOLDS(shim_message_read(ends[1], &message) == 1 && shim_message_read(ends[1], &back) == -1);
    size_t n = bytes.len < sizeof message ? bytes.len : sizeof message;
    HOLDS(memcmp(&message, bytes.ptr, n) == 0);
    for (size_t i = n; i < sizeof message; i++)
        HOLDS(((const char *)&message)[i] == 0);
    struct str fence = { message.status.fence, strnlen(message.status.fence, FENCE_MAX + 1) };
    if (status_fits(&message.status, fence)) { /* what is believed ends in its field */
        HOLDS(fence.len <= FENCE_MAX && message.status.magic == STATUS_MAGIC);
        SEEN(status_fits);
    }
    HOLDS(shim_message_send(ends[1], &message) && shim_message_read(ends[0], &back) == 1);
    bool whole = message.kind == MESSAGE_HELLO || message.kind == MESSAGE_ENDED;
    HOLDS(memcmp(&message, &back, whole ? sizeof message : MESSAGE_SHORT_BYTES) == 0);
    SEEN_IF(message_whole, whole);
    SEEN_IF(message_short, !whole);
}

static void as_outputs(struct arena *arena, struct str text)
{
    struct buf out;
    size_t left = 0;
    struct err err = { .arena = arena };
    buf_init(&out, 1 << 20);
    struct json json = json_to(&out);
    output_put(text, &json, &left);
    HOLDS(!out.full && str_is_utf8(buf_str(&out)));
    json_t *value = json_parse(buf_str(&out), 4, &err);
    HOLDS(json_is_object(value) && json_object_size(value) <= OUTPUT_NAMES_MAX); /* whatever the bytes are */
    SEEN_IF(outputs, json_object_size(value) > 0);
    SEEN_IF(outputs_left, left > 0);
    json_decref(value);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len };
    struct arena arena = { 0 };
    as_base64(text);
    as_job(&arena, text);
    as_datagram(text);
    as_outputs(&arena, text);
    arena_release(&arena);
    return 0;
}
