/* conf: all settings in one table; each gets its value from the first source that has one.
 *
 * Owns the names of the settings, their defaults and their precedence. It promises that every fault of every source is
 * reported in one run, and that conf_show prints the values in force. It fails by diagnostics. */
#include "text/conf.h"

#include <string.h>

#include "text/conf_site.h"
#include "text/conf_value.h"

#define MINUTE_MS ((int64_t)60 * 1000)
#define DAY_MS (24 * 60 * MINUTE_MS)
#define TEBIBYTE ((int64_t)1 << 40)

#define SETTING(name, type, field, ...) \
    { \
        .key = name, .kind = type, .offset = offsetof(struct conf, field), __VA_ARGS__ \
    }
static const struct conf_setting settings[] = {
    SETTING("data", CONF_PATH, data, .normal = NULL),
    SETTING("store", CONF_TEXT, store, .check = conf_check_store),
    SETTING("coordination", CONF_TEXT, coordination, .check = conf_check_coordination),
    SETTING("coordination_auth", CONF_PATH, coordination_auth, .normal = NULL),
    SETTING("name", CONF_TEXT, name, .check = conf_check_name),
    SETTING("listen", CONF_TEXT, listen, .check = conf_check_listen, .normal = "127.0.0.1:8420"),
    SETTING("socket", CONF_PATH, socket, .normal = NULL),
    SETTING("tls.certificate", CONF_PATH, tls.certificate, .normal = NULL),
    SETTING("tls.key", CONF_PATH, tls.key, .normal = NULL),
    SETTING("tls.client_ca", CONF_PATH, tls.client_ca, .normal = NULL),
    SETTING("lease", CONF_DURATION, lease_ms, .min = 100, .max = DAY_MS, .normal = "15s"),
    SETTING("grace", CONF_DURATION, grace_ms, .min = 0, .max = DAY_MS, .normal = CONF_GRACE_DEFAULT),
    SETTING("slots", CONF_COUNT, slots, .min = 0, .max = 10000),
    SETTING("zone", CONF_TEXT, zone, .check = conf_check_name),
    SETTING("labels", CONF_LABELS, labels, .normal = NULL),
    SETTING("containers.command", CONF_TEXT, containers.command, .check = conf_check_filled, .normal = "podman"),
    SETTING("containers.options", CONF_LIST, containers.options, .normal = NULL),
    SETTING("log.limit", CONF_SIZE, log.limit_bytes, .min = 1024, .max = TEBIBYTE, .normal = "1GiB"),
    SETTING("look.local", CONF_DURATION, look.local_ms, .min = 100, .max = DAY_MS, .normal = "1s"),
    SETTING("look.remote", CONF_DURATION, look.remote_ms, .min = 100, .max = DAY_MS, .normal = "60s"),
    SETTING("semaphores", CONF_SEMAPHORES, semaphores, .normal = NULL),
    SETTING("tenants", CONF_TENANTS, tenants, .normal = NULL),
    SETTING("hooks.timeout", CONF_DURATION, hooks.timeout_ms, .min = 1, .max = 60 * MINUTE_MS, .normal = "3s"),
    SETTING("hooks.before_enqueue", CONF_LIST, hooks.before_enqueue, .check = conf_check_program),
    SETTING("hooks.after_enqueue", CONF_LIST, hooks.after_enqueue, .check = conf_check_program),
    SETTING("hooks.before_perform", CONF_LIST, hooks.before_perform, .check = conf_check_program),
    SETTING("hooks.after_perform", CONF_LIST, hooks.after_perform, .check = conf_check_program),
    SETTING("changesets.base", CONF_PATH, spool.base, .own = true, .none = true),
    SETTING("changesets.approval", CONF_MOVETYPES, changesets.approval, .normal = NULL),
    SETTING("changesets.self_approval", CONF_TRUTH, changesets.self_approval, .normal = "true"),
    SETTING(
        "changesets.rollback_limit", CONF_COUNT, changesets.rollback_limit, .min = 1, .max = 1000000, .normal = "50"),
    SETTING("changesets.stop", CONF_DURATION, changesets.stop_ms, .min = 1, .max = DAY_MS, .normal = "30s"),
    SETTING("changesets.limits.unpacked", CONF_SIZE, changesets.limits.unpacked_bytes, .min = 1, .max = TEBIBYTE,
        .normal = "1GiB"),
    SETTING(
        "changesets.limits.files", CONF_COUNT, changesets.limits.files, .min = 1, .max = 10000000, .normal = "10000"),
    SETTING(
        "changesets.limits.meta", CONF_SIZE, changesets.limits.meta_bytes, .min = 1, .max = 1 << 30, .normal = "1MiB"),
    /* a path is in the key of an index of PostgreSQL, which takes 2,704 bytes */
    SETTING(
        "changesets.limits.path", CONF_COUNT, changesets.limits.path_bytes, .min = 1, .max = 2048, .normal = "1024"),
    SETTING("changesets.limits.depth", CONF_COUNT, changesets.limits.depth, .min = 1, .max = 1024, .normal = "64"),
    SETTING("targets", CONF_TARGETS, targets, .normal = NULL),
    SETTING("resque", CONF_NODE, resque, .shape = conf_shape_resque),
    SETTING("screwdriver", CONF_NODE, screwdriver, .shape = conf_shape_screwdriver),
    SETTING("retention.history", CONF_HISTORY, history_ms, .min = 60 * MINUTE_MS, .max = 36500 * DAY_MS,
        .normal = "forever"),
};
#undef SETTING
#define N_SETTINGS (sizeof settings / sizeof settings[0])
_Static_assert(N_SETTINGS <= CONF_SETTINGS_MAX, "conf.values has room for every setting");

struct load {
    const struct conf_input *input;
    struct arena *arena;
    struct diags *diags;
    struct conf *conf;
    const struct doc_node *found[N_SETTINGS]; /* in the file */
};

const char *conf_setting_key(size_t i)
{
    return i < N_SETTINGS ? settings[i].key : NULL;
}

bool conf_setting_is_scalar(size_t i)
{
    enum conf_kind kind = settings[i].kind;
    return kind != CONF_LIST && kind != CONF_MOVETYPES && kind != CONF_SEMAPHORES && kind != CONF_TENANTS &&
           kind != CONF_TARGETS && kind != CONF_NODE;
}

bool conf_setting_is_own(size_t i)
{
    return settings[i].own;
}

void conf_setting_option(struct buf *out, size_t i)
{
    buf_add_z(out, "--");
    for (const char *c = settings[i].key; *c != '\0'; c++)
        buf_add_char(out, *c == '.' || *c == '_' ? '-' : *c);
}

void conf_setting_variable(struct buf *out, size_t i)
{
    buf_add_z(out, "WEIR_");
    for (const char *c = settings[i].key; *c != '\0'; c++)
        buf_add_char(out, *c == '.' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
}

static struct str name_make(struct load *load, void (*make)(struct buf *, size_t), size_t i)
{
    struct buf name;
    buf_init(&name, 100);
    make(&name, i);
    return buf_move(&name, load->arena);
}

/* key_part: part `depth` of a dotted key; false past the last. */
static bool key_part(const char *key, size_t depth, struct str *out)
{
    struct str rest = str_of(key);
    for (size_t i = 0; i <= depth; i++)
        if (!str_cut(&rest, '.', out))
            return false;
    return true;
}

/* same_section: do the first `depth` parts agree? */
static bool same_section(const char *a, const char *b, size_t depth)
{
    for (size_t i = 0; i < depth; i++) {
        struct str x, y;
        if (!key_part(a, i, &x) || !key_part(b, i, &y) || !str_eq(x, y))
            return false;
    }
    return true;
}

/* section_find: the values of one section and, by recursion, of those in it. `first` is any setting of the section. */
static void section_find(struct load *load, const struct doc_node *node, size_t first, size_t depth, const char *what)
{
    struct node_context context = { load->input->file, load->arena, load->diags, NULL };
    struct node_reader reader;
    if (!node_read_begin(&reader, &context, node, what))
        return;
    struct str before = { 0 };
    for (size_t i = 0; i < N_SETTINGS; i++) {
        struct str part, deeper;
        if (!same_section(settings[i].key, settings[first].key, depth) || !key_part(settings[i].key, depth, &part) ||
            str_eq(part, before))
            continue;
        before = part;
        const char *key = str_dupz(load->arena, part);
        const struct doc_node *value = node_read_any(&reader, key);
        if (value != NULL && key_part(settings[i].key, depth + 1, &deeper))
            section_find(load, value, i, depth + 1, key);
        else
            load->found[i] = value;
    }
    node_read_end(&reader);
}

static struct str variable_find(const struct conf_input *input, struct str name)
{
    for (const char *const *at = input->environment; at != NULL && *at != NULL; at++) {
        struct str entry = str_of(*at);
        if (entry.len > name.len && str_starts(entry, name) && entry.ptr[name.len] == '=')
            return str_sub(entry, name.len + 1, entry.len);
    }
    return (struct str){ 0 };
}

static const struct doc_node *text_node(struct load *load, struct str text)
{
    struct doc_node *node = ARENA_NEW(load->arena, struct doc_node);
    *node = (struct doc_node){ .kind = NODE_SCALAR, .plain = true, .text = text, .weight = 1, .height = 1 };
    return node;
}

/* option_matches: the option of the setting, or `label` for one of its labels. */
static bool option_matches(struct str given, struct str name, const struct conf_setting *setting)
{
    return str_eq(given, str_sub(name, 2, name.len)) || (setting->kind == CONF_LABELS && str_eq(given, STR("label")));
}

/* option_find: the last one given; labels are all of them together. */
static const struct doc_node *option_find(struct load *load, size_t i, struct str name)
{
    const struct conf_input *input = load->input;
    const struct doc_node **items = ARENA_ARRAY(load->arena, const struct doc_node *, input->n_options);
    size_t n = 0;
    for (size_t k = 0; k < input->n_options; k++)
        if (option_matches(input->options[k].name, name, &settings[i]))
            items[n++] = text_node(load, input->options[k].value);
    if (n == 0 || settings[i].kind != CONF_LABELS)
        return n == 0 ? NULL : items[n - 1];
    struct doc_node *all = ARENA_NEW(load->arena, struct doc_node);
    *all = (struct doc_node){ .kind = NODE_SEQUENCE, .items = items, .n = n, .weight = 1 + n, .height = 2 };
    return all;
}

/* default_text: the value when no source has one; derived from other values where the table has none. */
static struct str default_text(struct load *load, const struct conf_setting *setting)
{
    const struct conf_input *input = load->input;
    struct str data = load->conf->data;
    if (setting->normal != NULL)
        return str_of(setting->normal);
    if (str_eqz(str_of(setting->key), "data")) {
        struct str state = variable_find(input, STR("XDG_STATE_HOME")), home = variable_find(input, STR("HOME"));
        if (state.len > 0 && state.ptr[0] == '/')
            return str_fmt(load->arena, "%.*s/weir", STR_ARG(state));
        return home.len > 0 ? str_fmt(load->arena, "%.*s/.local/state/weir", STR_ARG(home)) : STR("/var/lib/weir");
    }
    if (str_eqz(str_of(setting->key), "store"))
        return str_fmt(load->arena, "sqlite://%.*s", STR_ARG(data));
    if (str_eqz(str_of(setting->key), "socket"))
        return str_fmt(load->arena, "%.*s/weir.sock", STR_ARG(data));
    if (str_eqz(str_of(setting->key), "changesets.base"))
        return str_fmt(load->arena, "%.*s/spool", STR_ARG(data));
    if (str_eqz(str_of(setting->key), "name"))
        return input->default_name;
    if (str_eqz(str_of(setting->key), "slots"))
        return str_fmt(load->arena, "%lld", (long long)input->default_slots);
    return (struct str){ 0 };
}

/* setting_load: the first source that has a value decides, also when that value is bad. */
static void setting_load(struct load *load, size_t i)
{
    struct conf_value *value = &load->conf->values[i];
    struct str option = name_make(load, conf_setting_option, i), variable = name_make(load, conf_setting_variable, i);
    bool scalar = conf_setting_is_scalar(i);
    const struct doc_node *node = scalar ? option_find(load, i, option) : NULL;
    struct str text = scalar ? variable_find(load->input, variable) : (struct str){ 0 };
    struct diag_file *file = ARENA_NEW(load->arena, struct diag_file);
    if (node != NULL) {
        value->origin = CONF_OPTION;
        value->source = file->name = option;
    } else if (text.len > 0) {
        value->origin = CONF_ENVIRONMENT;
        value->source = file->name = variable;
        node = text_node(load, text);
    } else if (load->found[i] != NULL) {
        node = load->found[i];
        value->origin = CONF_FILE;
        *file = *load->input->file;
        value->source = str_fmt(load->arena, "%.*s:%u", STR_ARG(file->name), node->line);
    } else {
        value->origin = CONF_DEFAULT;
        file->name = STR("default");
        struct str normal = default_text(load, &settings[i]);
        node = normal.len > 0 ? text_node(load, normal) : NULL;
    }
    struct node_context context = { value->origin == CONF_FILE ? load->input->file : file, load->arena, load->diags,
        NULL };
    if (node == NULL || !conf_value_set(&context, &settings[i], node, load->input->cwd, load->conf))
        return;
    struct str *made =
        settings[i].kind == CONF_PATH ? (struct str *)(void *)((char *)load->conf + settings[i].offset) : NULL;
    value->text = conf_value_show(load->arena, made != NULL && made->len > 0 ? text_node(load, *made) : node);
}

static void option_fault(struct load *load, const struct conf_option *option)
{
    struct str names[N_SETTINGS + 1];
    size_t n = 0;
    names[n++] = STR("label");
    for (size_t i = 0; i < N_SETTINGS; i++) {
        struct str name = name_make(load, conf_setting_option, i);
        name = str_sub(name, 2, name.len);
        if (!conf_setting_is_scalar(i))
            continue;
        if (option_matches(option->name, STR("--"), &settings[i]) || str_eq(option->name, name))
            return;
        names[n++] = name;
    }
    struct diag_file *file = ARENA_NEW(load->arena, struct diag_file);
    file->name = str_fmt(load->arena, "--%.*s", STR_ARG(diag_shown(option->name)));
    diag_error(load->diags, (struct diag_place){ file, 0, 0 }, "there is no such option");
    struct str near = str_closest(option->name, names, n);
    if (near.len > 0)
        diag_suggest(load->diags, "did you mean '--%.*s'?", STR_ARG(near));
}

/* tls_check: a certificate without its key, or the other way round, at the place of the one that is there. */
static void tls_check(struct load *load)
{
    bool certificate = load->conf->tls.certificate.len > 0, key = load->conf->tls.key.len > 0,
         ca = load->conf->tls.client_ca.len > 0;
    if (certificate == key && (certificate || !ca))
        return;
    struct diag_file *file = ARENA_NEW(load->arena, struct diag_file);
    file->name = STR("tls");
    struct diag_place place = { file, 0, 0 };
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (load->found[i] == NULL || !str_starts(str_of(settings[i].key), STR("tls.")))
            continue;
        place = (struct diag_place){ load->input->file, load->found[i]->line, load->found[i]->column };
        break;
    }
    diag_error(load->diags, place, "'tls' needs both 'certificate' and 'key'");
}

/* site_check: what is stored must be readable again, also when aliases made it large. */
static void site_check(struct load *load)
{
    struct site_conf site;
    site_of(load->conf, &site);
    for (size_t i = 0; i < N_SETTINGS; i++)
        for (size_t k = 0; k < SITE_KEYS; k++)
            if (load->found[i] != NULL && str_eqz(str_of(settings[i].key), site_key_name(k)) && !site_fits(&site, k))
                diag_error(load->diags,
                    (struct diag_place){ load->input->file, load->found[i]->line, load->found[i]->column },
                    "'%s' is too large: with everything written out it must stay below 1 MiB", settings[i].key);
}

bool conf_parse(const struct conf_input *input, struct arena *arena, struct diags *diags, struct conf *out)
{
    size_t n_errors = diags->n_errors;
    *out = (struct conf){ 0 };
    struct load load = { .input = input, .arena = arena, .diags = diags, .conf = out };
    const struct doc_node *root = input->file != NULL ? node_parse(input->file, arena, diags) : NULL;
    if (root != NULL && !node_is_null(root))
        section_find(&load, root, 0, 0, "the file");
    for (size_t i = 0; i < N_SETTINGS; i++)
        setting_load(&load, i);
    for (size_t i = 0; i < input->n_options; i++)
        option_fault(&load, &input->options[i]);
    if (diags->n_errors == n_errors) {
        tls_check(&load);
        site_check(&load);
    }
    diags_sort(diags);
    if (str_starts(out->store, STR("sqlite://")))
        out->store_dir = str_sub(out->store, sizeof "sqlite://" - 1, out->store.len);
    return diags->n_errors == n_errors;
}

bool conf_section_set(
    const struct node_context *context, const struct doc_node *node, const char *section, struct conf *out)
{
    struct conf_input input = { .file = context->file };
    struct load load = { .input = &input, .arena = context->arena, .diags = context->diags, .conf = out };
    size_t before = context->diags->n_errors, first = 0;
    struct str part;
    while (key_part(settings[first].key, 0, &part) && !str_eqz(part, section))
        first++;
    if (node != NULL)
        section_find(&load, node, first, 1, section);
    for (size_t i = first; i < N_SETTINGS && same_section(settings[i].key, settings[first].key, 1); i++) {
        if (settings[i].own && load.found[i] != NULL)
            node_fault(context, load.found[i],
                "'%s' is one server's, not the site's: it stands in that server's weir.yaml", settings[i].key);
        else if (!settings[i].own)
            setting_load(&load, i);
    }
    return context->diags->n_errors == before;
}

void conf_changesets_default(struct conf_changesets *out)
{
    struct arena arena = { 0 };
    struct diag_file file = { STR("default"), { 0 } };
    struct diags diags = { .arena = &arena };
    struct conf conf = { 0 };
    bool good = conf_section_set(&(struct node_context){ &file, &arena, &diags, NULL }, NULL, "changesets", &conf);
    ASSERT(good); /* our own words */
    *out = conf.changesets;
    arena_release(&arena);
}

static void origin_show(struct buf *out, const struct conf_value *value)
{
    static const char *const words[] = {
        [CONF_DEFAULT] = "default", [CONF_FILE] = "", [CONF_ENVIRONMENT] = "environment ", [CONF_OPTION] = "option "
    };
    buf_addf(out, "  # %s%.*s\n", words[value->origin], STR_ARG(value->source));
}

void conf_show(struct buf *out, const struct conf *conf)
{
    const char *before = "";
    for (size_t i = 0; i < N_SETTINGS; i++) {
        size_t depth = 0;
        struct str part, next;
        for (; key_part(settings[i].key, depth, &part); depth++) {
            bool last = !key_part(settings[i].key, depth + 1, &next);
            if (!last && same_section(settings[i].key, before, depth + 1))
                continue;
            for (size_t k = 0; k < depth; k++)
                buf_add_z(out, "  ");
            buf_add_str(out, part);
            buf_add_z(out, last ? ": " : ":\n");
        }
        buf_add_str(out, conf->values[i].text.len > 0 ? conf->values[i].text : STR("null"));
        origin_show(out, &conf->values[i]);
        before = settings[i].key;
    }
}
