/* Configuration files: what conf_show prints of an accepted file is accepted again and means the same; what is refused says where. */
#include "fuzz.h"
#include "text/conf.h"

#define SHAPES(X) X(accepted) X(refused) X(from_file) X(list) X(labels)
FUZZ_SHAPES(SHAPES)

static bool parse(struct arena *arena, const struct diag_file *file, struct diags *diags, struct conf *out)
{
    struct conf_input input = { .file = file, .cwd = STR("/work"), .default_name = STR("node"), .default_slots = 4 };
    *out = (struct conf){ .data = { 0 } };
    *diags = (struct diags){ .arena = arena };
    return conf_parse(&input, arena, diags, out);
}

static unsigned lines_of(struct str text)
{
    unsigned n = 1;
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n' || text.ptr[i] == '\r' || (unsigned char)text.ptr[i] >= 0x80; /* also the breaks of Unicode */
    return n;
}

static void faults_check(const struct diags *diags, struct str text)
{
    HOLDS(diags->n_errors > 0 && diags->n > 0);
    for (size_t i = 0; i < diags->n; i++) {
        HOLDS(diags->items[i].message.len > 0 && str_is_utf8(diags->items[i].message));
        HOLDS(diags->items[i].place.line <= lines_of(text) + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct arena arena = { 0 };
    struct diag_file file = { STR("weir.yaml"), { (const char *)bytes, len } }, shown_file = { STR("shown.yaml"), { 0 } };
    struct diags diags, none;
    struct conf conf, back;
    struct buf shown, text;
    buf_init(&shown, 1 << 24);
    buf_init(&text, 1 << 24);
    if (parse(&arena, &file, &diags, &conf)) {
        conf_show(&shown, &conf);
        HOLDS(!shown.full && str_is_utf8(buf_str(&shown)));
        shown_file.text = buf_str(&shown);
        if (shown.len <= NODE_FILE_BYTES_MAX) {
            bool again = parse(&arena, &shown_file, &none, &back);
            if (!again) {
                diags_text(&text, &none);
                fprintf(stderr, "%.*s\n%.*s\n", STR_ARG(buf_str(&shown)), STR_ARG(buf_str(&text)));
            }
            HOLDS(again);
            for (size_t i = 0; conf_setting_key(i); i++) {
                HOLDS(str_eq(conf.values[i].text, back.values[i].text));
                SEEN_IF(from_file, conf.values[i].origin == CONF_FILE);
            }
            HOLDS(conf.lease_ms == back.lease_ms && conf.slots == back.slots && conf.log.limit_bytes == back.log.limit_bytes);
            HOLDS(conf.history_ms == back.history_ms && str_eq(conf.data, back.data) && str_eq(conf.socket, back.socket));
        }
        SEEN(accepted);
        SEEN_IF(list, conf.containers.options.n > 0);
        SEEN_IF(labels, conf.labels.n > 0);
    } else {
        faults_check(&diags, file.text);
        SEEN(refused);
    }
    buf_release(&shown);
    buf_release(&text);
    arena_release(&arena);
    return 0;
}
