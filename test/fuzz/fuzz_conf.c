/* Configuration files: what conf_show prints of an accepted file is accepted again and means the same; what is refused
 * says where. */
#include "fuzz.h"
#include "text/conf.h"
#include "text/conf_site.h"

#define SHAPES(X) X(accepted) X(refused) X(from_file) X(list) X(labels) X(site)
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
        /* also the breaks of Unicode */
        n += text.ptr[i] == '\n' || text.ptr[i] == '\r' || (unsigned char)text.ptr[i] >= 0x80;
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

/* The same bytes as a document of the site's keys: what is accepted can be stored, copied and shown, and means the same
 * again. */
static void site_check(struct arena *arena, const struct diag_file *file)
{
    struct diags diags = { .arena = arena }, none = { .arena = arena };
    struct site_conf conf, copy, back;
    struct buf shown, body, again;
    if (!site_parse(file, arena, &diags, &conf)) {
        faults_check(&diags, file->text);
        return;
    }
    buf_init(&shown, 1 << 24);
    buf_init(&body, 1 << 24);
    buf_init(&again, 1 << 24);
    site_copy(arena, &conf, &copy);
    for (size_t k = 0; k < SITE_KEYS; k++) {
        struct site_change *changes;
        buf_reset(&body);
        buf_reset(&again);
        site_key_write(&body, &conf, k);
        site_key_write(&again, &copy, k);
        HOLDS(str_eq(buf_str(&body), buf_str(&again)));
        HOLDS(site_changes(arena, k, buf_str(&body), buf_str(&again), &changes) == 0);
        site_yaml(&shown, arena, k, buf_str(&body));
    }
    struct diag_file shown_file = { STR("shown.yaml"), buf_str(&shown) };
    HOLDS(shown.len > NODE_FILE_BYTES_MAX || site_parse(&shown_file, arena, &none, &back));
    SEEN_IF(site, conf.silent == 0);
    buf_release(&shown);
    buf_release(&body);
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct arena arena = { 0 };
    struct diag_file file = { STR("weir.yaml"), { (const char *)bytes, len } },
                     shown_file = { STR("shown.yaml"), { 0 } };
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
            HOLDS(conf.lease_ms == back.lease_ms && conf.slots == back.slots &&
                  conf.log.limit_bytes == back.log.limit_bytes);
            HOLDS(
                conf.history_ms == back.history_ms && str_eq(conf.data, back.data) && str_eq(conf.socket, back.socket));
        }
        SEEN(accepted);
        SEEN_IF(list, conf.containers.options.n > 0);
        SEEN_IF(labels, conf.labels.n > 0);
    } else {
        faults_check(&diags, file.text);
        SEEN(refused);
    }
    site_check(&arena, &file);
    buf_release(&shown);
    buf_release(&text);
    arena_release(&arena);
    return 0;
}
