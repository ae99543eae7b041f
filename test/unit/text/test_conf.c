/* The configuration: every key, precedence, origins, faults of all sources in one go. */
#include "document.h"

#include "text/conf.h"
#include "text/conf_site.h"

struct fixture {
    struct arena arena;
    struct diags diags;
    struct diag_file file;
    struct conf_input input;
    struct conf conf;
    struct buf out;
};

static void fixture_init(struct fixture *f, const char *text)
{
    *f = (struct fixture){ 0 };
    f->diags.arena = &f->arena;
    f->file = (struct diag_file){ STR("weir.yaml"), exact(str_of(text)) };
    f->input =
        (struct conf_input){ .file = &f->file, .cwd = STR("/here"), .default_name = STR("host-1"), .default_slots = 2 };
    buf_init(&f->out, 1 << 20);
}

static void fixture_release(struct fixture *f)
{
    exact_free(f->file.text);
    buf_release(&f->out);
    arena_release(&f->arena);
}

static bool parse(struct fixture *f)
{
    return conf_parse(&f->input, &f->arena, &f->diags, &f->conf);
}

static void parse_good(struct fixture *f)
{
    if (!parse(f))
        fail_msg("%.*s", STR_ARG(fault_text(&f->arena, &f->diags, 0)));
}

static const char whole_file[] =
    "data: /var/lib/weir\n"
    "store: postgresql://weir:secret@h1,h2/weir?x=1\n"
    "coordination: zookeeper://h:1,h:2/weir\n"
    "coordination_auth: /run/zk\n"
    "name: node-a\n"
    "listen: 127.0.0.1:8420\n"
    "socket: run/weir.sock\n"
    "tls: {certificate: /c, key: /k, client_ca: /ca}\n"
    "lease: 20s\n"
    "grace: 5s\n"
    "slots: 4\n"
    "zone: eu\n"
    "labels: {os: linux, cc: \"gcc 12\"}\n"
    "semaphores: {licence: 3, pdf: 1}\n"
    "containers: {command: podman, options: [--rm, \"a b\"]}\n"
    "log: {limit: 10MiB}\n"
    "look: {local: 500ms, remote: 2m}\n"
    "hooks:\n"
    "  timeout: 5s\n"
    "  before_enqueue: [/path/prog, /path/x.so]\n"
    "  after_enqueue: []\n"
    "  before_perform: /one\n"
    "  after_perform: []\n"
    "changesets:\n"
    "  base: /var/spool/weir\n"
    "  approval: [EM]\n"
    "  self_approval: false\n"
    "  rollback_limit: 60\n"
    "  stop: 45s\n"
    "  limits: {unpacked: 2GiB, files: 20000, meta: 2MiB, path: 2048, depth: 32}\n"
    "targets:\n"
    "  legacy: {archive: old, path: branches/1.x, apply: [/path/prog], independent: true, timeout: 10m}\n"
    "resque:\n"
    "  - url: redis://:hush@127.0.0.1:6379/0\n"
    "    namespace: resque\n"
    "    queues: [builds, lo]\n"
    "    scheduler: true\n"
    "    classes: {add: {command: [sh, add.sh]}}\n"
    "screwdriver:\n"
    "  start: {command: [sh, build.sh]}\n"
    "retention: {history: 90d}\n";

static void reads_every_key(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, whole_file);
    parse_good(&f);
    const struct conf *c = &f.conf;
    check_str(c->data, "/var/lib/weir");
    check_str(c->store, "postgresql://weir:secret@h1,h2/weir?x=1");
    check_str(c->store_dir, "");
    check_str(c->coordination, "zookeeper://h:1,h:2/weir");
    check_str(c->coordination_auth, "/run/zk");
    check_str(c->name, "node-a");
    check_str(c->socket, "/here/run/weir.sock");
    check_str(c->tls.client_ca, "/ca");
    assert_int_equal(c->lease_ms, 20000);
    assert_int_equal(c->grace_ms, 5000);
    assert_int_equal(c->slots, 4);
    check_str(c->zone, "eu");
    assert_int_equal(c->labels.n, 2);
    check_str(c->labels.items[0].name, "cc"); /* sorted */
    check_str(c->labels.items[0].value, "gcc 12");
    assert_int_equal(c->semaphores.n, 2);
    check_str(c->semaphores.items[1].name, "pdf");
    assert_int_equal(c->semaphores.items[0].limit, 3);
    check_str(c->containers.options.items[1], "a b");
    assert_int_equal(c->log.limit_bytes, 10 << 20);
    assert_int_equal(c->look.local_ms, 500);
    assert_int_equal(c->look.remote_ms, 120000);
    assert_int_equal(c->hooks.timeout_ms, 5000);
    assert_int_equal(c->hooks.before_enqueue.n, 2);
    assert_int_equal(c->hooks.after_enqueue.n, 0);
    check_str(c->hooks.before_perform.items[0], "/one");
    check_str(c->spool.base, "/var/spool/weir");
    assert_int_equal(c->changesets.approval, 1U << MOVE_EM);
    assert_false(c->changesets.self_approval);
    assert_int_equal(c->changesets.stop_ms, 45000);
    assert_int_equal(c->changesets.rollback_limit, 60);
    assert_int_equal(c->changesets.limits.unpacked_bytes, (int64_t)2 << 30);
    assert_int_equal(c->changesets.limits.files, 20000);
    assert_int_equal(c->changesets.limits.meta_bytes, 2 << 20);
    assert_int_equal(c->changesets.limits.path_bytes, 2048);
    assert_int_equal(c->changesets.limits.depth, 32);
    assert_int_equal(c->targets.n, 1);
    const struct conf_target *target = conf_target_find(&c->targets, STR("legacy"));
    assert_non_null(target);
    check_str(target->archive, "old");
    check_str(target->path, "branches/1.x");
    assert_int_equal(target->n_apply, 1);
    check_str(target->apply[0], "/path/prog");
    assert_true(target->independent);
    assert_int_equal(target->timeout_ms, 600000);
    assert_int_equal(c->resque->n, 1);
    assert_non_null(node_find(c->screwdriver, STR("start")));
    assert_int_equal(c->history_ms, (int64_t)90 * 24 * 3600 * 1000);
    fixture_release(&f);
}

static const char shown_defaults[] = "data: /home/me/.local/state/weir  # default\n"
                                     "store: sqlite:///home/me/.local/state/weir  # default\n"
                                     "coordination: null  # default\n"
                                     "coordination_auth: null  # default\n"
                                     "name: host-1  # default\n"
                                     "listen: 127.0.0.1:8420  # default\n"
                                     "socket: /home/me/.local/state/weir/weir.sock  # default\n"
                                     "tls:\n"
                                     "  certificate: null  # default\n"
                                     "  key: null  # default\n"
                                     "  client_ca: null  # default\n"
                                     "lease: 15s  # default\n"
                                     "grace: 10s  # default\n"
                                     "slots: 2  # default\n"
                                     "zone: null  # default\n"
                                     "labels: null  # default\n"
                                     "containers:\n"
                                     "  command: podman  # default\n"
                                     "  options: null  # default\n"
                                     "log:\n"
                                     "  limit: 1GiB  # default\n"
                                     "look:\n"
                                     "  local: 1s  # default\n"
                                     "  remote: 60s  # default\n"
                                     "semaphores: null  # default\n"
                                     "tenants: null  # default\n"
                                     "hooks:\n"
                                     "  timeout: 3s  # default\n"
                                     "  before_enqueue: null  # default\n"
                                     "  after_enqueue: null  # default\n"
                                     "  before_perform: null  # default\n"
                                     "  after_perform: null  # default\n"
                                     "changesets:\n"
                                     "  base: /home/me/.local/state/weir/spool  # default\n"
                                     "  approval: null  # default\n"
                                     "  self_approval: true  # default\n"
                                     "  rollback_limit: 50  # default\n"
                                     "  stop: 30s  # default\n"
                                     "  limits:\n"
                                     "    unpacked: 1GiB  # default\n"
                                     "    files: 10000  # default\n"
                                     "    meta: 1MiB  # default\n"
                                     "    path: 1024  # default\n"
                                     "    depth: 64  # default\n"
                                     "targets: null  # default\n"
                                     "resque: null  # default\n"
                                     "screwdriver: null  # default\n"
                                     "retention:\n"
                                     "  history: forever  # default\n";

static void has_defaults(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, "");
    const char *const environment[] = { "HOME=/home/me", "WEIR_LEASE=", NULL };
    f.input.file = NULL;
    f.input.environment = environment;
    parse_good(&f);
    conf_show(&f.out, &f.conf);
    check_str(buf_str(&f.out), shown_defaults);
    check_str(f.conf.store_dir, "/home/me/.local/state/weir");
    assert_int_equal(f.conf.history_ms, -1);
    const char *const state_home[] = { "XDG_STATE_HOME=/state", "HOME=/home/me", NULL };
    f.input.environment = state_home;
    parse_good(&f);
    check_str(f.conf.data, "/state/weir");
    f.input.environment = NULL;
    parse_good(&f);
    check_str(f.conf.data, "/var/lib/weir");
    f.input.file = &f.file; /* an empty file is no file */
    parse_good(&f);
    fixture_release(&f);
}

static void knows_precedence_and_origin(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, "lease: 20s\nslots: 4\nname: a\ntls:\n  key: /k\n  certificate: /c\nlabels: {os: linux}\n");
    const char *const environment[] = { "WEIR_LEASE=30s", "WEIR_SLOTS=5", "WEIR_TLS_KEY=other", "WEIR_LABELS=x=1,y=2",
        "WEIR_LEASES=1", NULL };
    const struct conf_option options[] = { { STR("lease"), STR("1s") }, { STR("lease"), STR("2s") },
        { STR("data"), STR("d/") }, { STR("label"), STR("b=2") }, { STR("label"), STR("a=1") },
        { STR("tls-client-ca"), STR("/ca") } };
    f.input.environment = environment;
    f.input.options = options;
    f.input.n_options = COUNT_OF(options);
    parse_good(&f);
    assert_int_equal(f.conf.lease_ms, 2000);
    assert_int_equal(f.conf.slots, 5);
    check_str(f.conf.name, "a");
    check_str(f.conf.data, "/here/d");
    check_str(f.conf.store_dir, "/here/d");
    check_str(f.conf.tls.key, "/here/other");
    assert_int_equal(f.conf.labels.n, 2);
    check_str(f.conf.labels.items[0].name, "a");
    conf_show(&f.out, &f.conf);
    static const char *const lines[] = {
        "lease: 2s  # option --lease\n",
        "slots: 5  # environment WEIR_SLOTS\n",
        "name: a  # weir.yaml:3\n",
        "data: /here/d  # option --data\n",
        "  key: /here/other  # environment WEIR_TLS_KEY\n",
        "  certificate: /c  # weir.yaml:6\n",
        "  client_ca: /ca  # option --tls-client-ca\n",
        "labels: [b=2, a=1]  # option --labels\n",
        "socket: /here/d/weir.sock  # default\n",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        if (strstr(f.out.ptr, lines[i]) == NULL)
            fail_msg("no line %s in\n%s", lines[i], f.out.ptr);
    fixture_release(&f);
}

static void hides_passwords(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, whole_file);
    parse_good(&f);
    conf_show(&f.out, &f.conf);
    assert_null(strstr(f.out.ptr, "secret"));
    assert_null(strstr(f.out.ptr, "hush"));
    assert_non_null(strstr(f.out.ptr, "store: \"postgresql://weir:***@h1,h2/weir?x=1\"  # weir.yaml:2\n"));
    assert_non_null(strstr(f.out.ptr, "\"redis://:***@127.0.0.1:6379/0\""));
    fixture_release(&f);
}

/* What conf_show prints is a configuration that means the same. */
static void shows_what_can_be_read_again(void **state)
{
    (void)state;
    struct fixture f, again;
    fixture_init(&f, whole_file);
    const struct conf_option options[] = { { STR("store"), STR("sqlite:///x y/z") }, { STR("name"), STR("0x10") } };
    f.input.options = options;
    f.input.n_options = COUNT_OF(options);
    parse_good(&f);
    conf_show(&f.out, &f.conf);
    fixture_init(&again, f.out.ptr);
    parse_good(&again);
    for (size_t i = 0; conf_setting_key(i) != NULL; i++)
        if (i < CONF_SETTINGS_MAX && strcmp(conf_setting_key(i), "resque") != 0)
            check_str_at(again.conf.values[i].text, f.conf.values[i].text, __FILE__, __LINE__);
    check_str(again.conf.store_dir, "/x y/z");
    assert_int_equal(again.conf.labels.n, 2);
    fixture_release(&again);
    fixture_release(&f);
}

static void check_faults(const char *text, const char *const *wanted, size_t n)
{
    struct fixture f;
    fixture_init(&f, text);
    assert_false(parse(&f));
    for (size_t i = 0; i < n && i < f.diags.n; i++)
        check_str(fault_text(&f.arena, &f.diags, i), wanted[i]);
    assert_int_equal(f.diags.n, n);
    fixture_release(&f);
}

static void tells_all_faults_of_the_file(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "1:7: 'data' must be a string, not a list",
        "2:8: a store is sqlite:///DIRECTORY or postgresql://... (did you mean 'sqlite:///x'?)",
        "3:15: a coordination service is zookeeper://HOST:PORT,HOST:PORT/PATH",
        "4:7: the given name 'a b' has a character that isn't allowed at place 2: only letters, digits, '.', '_' and "
        "'-'",
        "5:9: an address to listen on is HOST:PORT with a port from 0 to 65535, or [IPV6]:PORT (did you mean "
        "'127.0.0.1:8420'?)",
        "6:8: 'lease' must be a duration with a unit, such as 90s, 15m, 2h or 7d, not '15' (did you mean '15s'?)",
        "7:8: 'slots' must be from 0 to 10000, not -1",
        "8:14: 'labels' must be a string, not a list",
        "9:17: 'limit of a semaphore' must be from 1 to 1000000, not 0",
        "9:20: the given name '-x' must begin with a letter or a digit",
        "10:14: 'log.limit' must be from 1KiB to 1TiB",
        "11:15: 'target' must be a mapping, not 'x'",
        "12:9: 'resque' must be a list, not a mapping",
        "13:1: unknown key 'leese' (did you mean 'lease'?)",
        "14:24: 'retention.history' must be from 1h to 36500d",
        "16:3: unknown key 'certificat' (did you mean 'certificate'?)",
        "17:8: 'hooks' must be a mapping, not a list",
        "19:14: a move type is DC, BF, EM or RB, not 'XX'",
        "20:21: 'changesets.limits.files' must be a whole number, not 'many'",
    };
    check_faults("data: [x]\nstore: /x\ncoordination: etcd://h\nname: a b\nlisten: 8420\nlease: 15\nslots: -1\nlabels: "
                 "{os: [a]}\n"
                 "semaphores: {a: 0, -x: 1}\nlog: {limit: 1B}\ntargets: {ok: x}\nresque: {}\nleese: 1\nretention: {  "
                 "history: 1s}\n"
                 "tls:\n  certificat: x\nhooks: []\nchangesets:\n  approval: [XX]\n  limits: {files:   many}\n",
        wanted, COUNT_OF(wanted));
}

static void tells_faults_of_shapes(void **state)
{
    (void)state;
    static const char *const targets[] = {
        "1:28: 'independent' must be true or false, not 'no' (did you mean 'false'?)",
        "1:32: unknown key 'pth' (did you mean 'path'?)"
    };
    static const char *const resque[] = { "2:4: 'url' is missing, such as redis://127.0.0.1:6379/0",
        "3:10: 'url' must begin with redis://, rediss:// or unix://", "3:35: 'class' must be a mapping, not 'x'" };
    static const char *const screwdriver[] = { "1:15: unknown key 'strt' (did you mean 'start'?)" };
    static const char *const hook[] = {
        "1:26: a hook is a program by its absolute path, such as /usr/local/bin/check"
    };
    static const char *const tls[] = { "1:20: 'tls' needs both 'certificate' and 'key'" };
    static const char *const list[] = { "1:1: 'the file' must be a mapping, not a list" };
    check_faults("targets: {a: {independent: no, pth: x}}", targets, 2);
    check_faults("resque:\n - {queues: [a]}\n - {url: \"http://x\", classes: {a: x}}", resque, 3);
    check_faults("screwdriver: {strt: {}}", screwdriver, 1);
    check_faults("hooks: {before_enqueue: [check]}", hook, 1);
    check_faults("tls: {certificate: /c}", tls, 1);
    check_faults("- data", list, 1);
}

static void tenants_are_written_as_they_are_read(void **state)
{
    struct fixture f;
    struct conf_tenants again;
    struct buf text, twice;
    (void)state;
    fixture_init(&f,
        "tenants: {red: {semaphores: {db: 2}, quotas: {tasks: 5, logs: 1KiB, running: 1}}, blue: null, default: {}}\n");
    parse_good(&f);
    const struct conf_tenants *tenants = &f.conf.tenants;
    assert_int_equal(tenants->n, 3);
    check_str(tenants->items[0].name, "red");
    assert_int_equal(tenants->items[0].quotas[QUOTA_tasks], 5);
    assert_int_equal(tenants->items[0].quotas[QUOTA_logs], 1024);
    assert_int_equal(tenants->items[0].quotas[QUOTA_files], -1);
    assert_int_equal(tenants->items[0].semaphores.items[0].limit, 2);
    buf_init(&text, 4096);
    buf_init(&twice, 4096);
    conf_tenants_write(&text, tenants);
    assert_true(conf_tenants_parse(buf_str(&text), &f.arena, &again));
    conf_tenants_write(&twice, &again);
    assert_string_equal(text.ptr, twice.ptr);
    assert_int_equal(again.items[0].quotas[QUOTA_running], 1);
    assert_int_equal(again.items[1].quotas[QUOTA_running], -1);
    assert_false(conf_tenants_parse(STR("[]"), &f.arena, &again));
    assert_false(conf_tenants_parse(STR("{\"red\": {\"x\": 1}}"), &f.arena, &again));
    buf_release(&text);
    buf_release(&twice);
    fixture_release(&f);
}

static void tells_faults_of_other_sources(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, "slots: x\n");
    const char *const environment[] = { "WEIR_LISTEN=nowhere", NULL };
    const struct conf_option options[] = { { STR("lease"), STR("soon") }, { STR("lable"), STR("a=b") },
        { STR("label"), STR("ab") } };
    f.input.environment = environment;
    f.input.options = options;
    f.input.n_options = COUNT_OF(options);
    assert_false(parse(&f));
    diags_text(&f.out, &f.diags);
    check_str(buf_str(&f.out),
        "--labels: error: the label 'ab' isn't NAME=VALUE\n"
        "--lable: error: there is no such option\n"
        "    did you mean '--label'?\n"
        "--lease: error: 'lease' must be a duration with a unit, such as 90s, 15m, 2h or 7d, not 'soon'\n"
        "WEIR_LISTEN: error: an address to listen on is HOST:PORT with a port from 0 to 65535, or [IPV6]:PORT\n"
        "weir.yaml:1:8: error: 'slots' must be a whole number, not 'x'\n"
        "    slots: x\n"
        "           ^\n");
    fixture_release(&f);
}

static void checks_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *listen;
        bool good;
    } cases[] = {
        { "127.0.0.1:0", true },
        { "localhost:8420", true },
        { "[::1]:80", true },
        { "0.0.0.0:65535", true },
        { "::1:80", false },
        { ":80", false },
        { "h:65536", false },
        { "h:-1", false },
        { "h:", false },
        { "h", false },
        { "h:8x", false },
        { "[]:1", false },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fixture f;
        fixture_init(&f, "");
        const struct conf_option option = { STR("listen"), str_of(cases[i].listen) };
        f.input.options = &option;
        f.input.n_options = 1;
        if (parse(&f) != cases[i].good)
            fail_msg("%s", cases[i].listen);
        fixture_release(&f);
    }
}

static void names_settings(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 4000);
    for (size_t i = 0; conf_setting_key(i) != NULL; i++) {
        if (strcmp(conf_setting_key(i), "changesets.rollback_limit") != 0)
            continue;
        assert_true(conf_setting_is_scalar(i));
        conf_setting_option(&out, i);
        buf_add_char(&out, ' ');
        conf_setting_variable(&out, i);
    }
    check_str(buf_str(&out), "--changesets-rollback-limit WEIR_CHANGESETS_ROLLBACK_LIMIT");
    buf_release(&out);
}

static void survives_truncation(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof whole_file; len++) {
        struct fixture f;
        char *text = strndup(whole_file, len);
        assert_non_null(text);
        fixture_init(&f, text);
        if (parse(&f))
            conf_show(&f.out, &f.conf);
        else
            diags_text(&f.out, &f.diags);
        assert_true(f.out.len > 0);
        fixture_release(&f);
        free(text);
    }
}

static struct str site_body(struct fixture *f, const struct site_conf *conf, size_t key)
{
    struct buf text;
    buf_init(&text, 10000);
    site_key_write(&text, conf, key);
    struct str body = str_dup(&f->arena, buf_str(&text));
    buf_release(&text);
    return body;
}

static void the_site_takes_its_keys_only(void **state)
{
    (void)state;
    struct fixture f;
    struct site_conf site, again;
    struct site_change *changes;
    fixture_init(&f, "semaphores: {licence: 3}\nretention: {history: 90d}\n");
    assert_true(site_parse(&f.file, &f.arena, &f.diags, &site));
    assert_int_equal(site.silent, 1U << SITE_TENANTS | 1U << SITE_CHANGESETS | 1U << SITE_TARGETS);
    assert_int_equal(site.history_ms, (int64_t)90 * 24 * 3600 * 1000);
    check_str(site_body(&f, &site, SITE_RETENTION), "{\"history\":\"90d\"}");
    site_copy(&f.arena, &site, &again);
    for (size_t k = 0; k < SITE_KEYS; k++)
        assert_true(str_eq(site_body(&f, &site, k), site_body(&f, &again, k)));
    again.semaphores.items[0].limit = 4;
    assert_int_equal(site_changes(&f.arena, SITE_SEMAPHORES, site_body(&f, &site, SITE_SEMAPHORES),
                         site_body(&f, &again, SITE_SEMAPHORES), &changes),
        1);
    check_str(changes[0].path, "semaphores.licence");
    check_str(changes[0].before, "3");
    check_str(changes[0].after, "4");
    fixture_release(&f);

    fixture_init(&f, "tenants:\nretention: {history: forever}\n"); /* an empty one is emptied */
    assert_true(site_parse(&f.file, &f.arena, &f.diags, &site));
    assert_int_equal(site.silent, 1U << SITE_SEMAPHORES | 1U << SITE_CHANGESETS | 1U << SITE_TARGETS);
    check_str(site_body(&f, &site, SITE_TENANTS), "{}");
    check_str(site_body(&f, &site, SITE_RETENTION), "{}");
    fixture_release(&f);

    fixture_init(&f, "data: /x\ntls: {key: /k}\nresque: []\nsemaphors: {a: 1}\nretention: {histry: 1d}\n");
    assert_false(site_parse(&f.file, &f.arena, &f.diags, &site));
    assert_int_equal(f.diags.n_errors, 5);
    fixture_release(&f);

    struct buf large; /* aliases that make it larger than what can be stored: told, by both readers */
    buf_init(&large, 1 << 20);
    buf_add_z(&large, "tenants:\n  t: &x\n    semaphores:\n");
    for (int i = 0; i < 5000; i++)
        buf_addf(&large, "      semaphore-with-a-name-%d: 1\n", i);
    for (int i = 0; i < 9; i++)
        buf_addf(&large, "  t%d: *x\n", i);
    buf_add_char(&large, '\0');
    fixture_init(&f, large.ptr);
    assert_false(site_parse(&f.file, &f.arena, &f.diags, &site));
    assert_int_equal(f.diags.n_errors, 1);
    assert_false(parse(&f));
    fixture_release(&f);
    buf_release(&large);

    fixture_init(&f, "slots: 3\nretention: {history: 2d}\n"); /* of a whole configuration: what it names */
    parse_good(&f);
    site_of(&f.conf, &site);
    assert_int_equal(
        site.silent, 1U << SITE_SEMAPHORES | 1U << SITE_TENANTS | 1U << SITE_CHANGESETS | 1U << SITE_TARGETS);
    fixture_release(&f);
}

/* What is written says what isn't the default, and is read back as the same; a configuration that has only this
 * server's own key of the section says nothing of the site's. */
static void changesets_are_written_as_they_are_read(void **state)
{
    (void)state;
    struct fixture f;
    struct site_conf site, again;
    const struct site_conf unread = { 0 };
    fixture_init(&f,
        "changesets:\n  approval: [RB, EM, EM]\n  rollback_limit: 7\n  limits: {files: 9, meta: 2KiB, depth: 64}\n"
        "targets:\n  old: {archive: one, path: a/b, apply: [deploy, -x], independent: true, timeout: 90s}\n"
        "  two:\n  three: {archive: three, apply: []}\n");
    assert_true(site_parse(&f.file, &f.arena, &f.diags, &site));
    assert_int_equal(site.silent, 1U << SITE_SEMAPHORES | 1U << SITE_TENANTS | 1U << SITE_RETENTION);
    check_str(site_body(&f, &site, SITE_CHANGESETS),
        "{\"approval\":[\"EM\",\"RB\"],\"rollback_limit\":7,\"limits\":{\"files\":9,\"meta\":\"2KiB\"}}");
    check_str(site_body(&f, &site, SITE_TARGETS),
        "{\"old\":{\"archive\":\"one\",\"path\":\"a/"
        "b\",\"apply\":[\"deploy\",\"-x\"],\"independent\":true,\"timeout\":\"90s\"},"
        "\"two\":{},\"three\":{}}");
    site_copy(&f.arena, &site, &again);
    assert_int_equal(again.changesets.approval, 1U << MOVE_EM | 1U << MOVE_RB);
    assert_int_equal(again.changesets.limits.unpacked_bytes, (int64_t)1 << 30);
    assert_int_equal(again.changesets.limits.files, 9);
    assert_int_equal(again.changesets.stop_ms, 30000);
    assert_true(again.changesets.self_approval);
    assert_int_equal(again.targets.n, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(conf_target_same(&site.targets.items[i], &again.targets.items[i]));
    assert_false(conf_target_same(&site.targets.items[0], &site.targets.items[1]));
    assert_int_equal(site.targets.items[0].line, 6); /* of `archive`, whose name may be wrong */
    assert_int_equal(site.targets.items[0].column, 18);
    assert_int_equal(site.targets.items[1].line, 7);
    check_str(again.targets.items[1].archive, "two");
    check_str(site_body(&f, &unread, SITE_CHANGESETS), "{}");
    fixture_release(&f);

    fixture_init(&f, "changesets: {base: none}\n");
    parse_good(&f);
    check_str(f.conf.spool.base, "");
    site_of(&f.conf, &site);
    assert_true(site.silent & 1U << SITE_CHANGESETS);
    conf_show(&f.out, &f.conf);
    assert_non_null(strstr(f.out.ptr, "  base: none  # weir.yaml:1\n"));
    fixture_release(&f);

    static const char *const own[] = { "1:21: 'changesets.base' is one server's, not the site's: it stands in that "
                                       "server's weir.yaml" };
    fixture_init(&f, "changesets: {base:  /x}\n");
    assert_false(site_parse(&f.file, &f.arena, &f.diags, &site));
    check_str(fault_text(&f.arena, &f.diags, 0), own[0]);
    fixture_release(&f);
}

static void tells_faults_of_change_sets(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "2:18: 'changesets.self_approval' must be true or false, not 'no' (did you mean 'false'?)",
        "3:14: a move type is DC, BF, EM or RB, not 'em' (did you mean 'EM'?)",
        "4:19: 'changesets.rollback_limit' must be from 1 to 1000000, not 0",
        ("5:9: 'changesets.stop' must be a duration with a unit, such as 90s, 15m, 2h or 7d, not '30' (did you mean "
         "'30s'?)"),
        "6:19: 'changesets.limits.depth' must be from 1 to 1024, not 2000",
        "6:25: unknown key 'file' (did you mean 'files'?)",
        "7:3: unknown key 'aproval' (did you mean 'approval'?)",
    };
    check_faults("changesets:\n  self_approval: no\n  approval: [em]\n  rollback_limit: 0\n  stop: 30\n"
                 "  limits: {depth: 2000, file: 1}\n  aproval: [EM]\n",
        settings, COUNT_OF(settings));
    static const char *const targets[] = {
        "2:3: the target name 'all' is a reserved word",
        "3:13: the path '/trunk/' begins with '/': paths are relative (did you mean 'trunk'?)",
        "4:13: the path 'a/../b' has a part '..'",
        "5:13: the path '.svn' has a part '.git' or '.svn', which belongs to the repository",
        "6:14: 'apply' begins with a program: its absolute path, such as /usr/local/bin/deploy, or a name that is in "
        "PATH",
        "7:15: 'apply' begins with a program: its absolute path, such as /usr/local/bin/deploy, or a name that is in "
        "PATH",
        "8:16: 'timeout' must be from 1ms to 365d; without one a change set may take any time",
        "9:16: the given name 'a b' has a character that isn't allowed at place 2: only letters, digits, '.', '_' and "
        "'-'",
        "10:7: unknown key 'archiv' (did you mean 'archive'?)",
    };
    check_faults(
        "targets:\n  all: {}\n  b: {path: /trunk/}\n  c: {path: a/../b}\n  d: {path: .svn}\n"
        "  e: {apply: ./prog}\n  f: {apply: ['']}\n  g: {timeout: 0s}\n  h: {archive: a b}\n  i: {archiv: x}\n",
        targets, COUNT_OF(targets));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_key),
        cmocka_unit_test(has_defaults),
        cmocka_unit_test(knows_precedence_and_origin),
        cmocka_unit_test(hides_passwords),
        cmocka_unit_test(shows_what_can_be_read_again),
        cmocka_unit_test(tells_all_faults_of_the_file),
        cmocka_unit_test(tells_faults_of_shapes),
        cmocka_unit_test(tells_faults_of_other_sources),
        cmocka_unit_test(checks_addresses),
        cmocka_unit_test(tenants_are_written_as_they_are_read),
        cmocka_unit_test(the_site_takes_its_keys_only),
        cmocka_unit_test(changesets_are_written_as_they_are_read),
        cmocka_unit_test(tells_faults_of_change_sets),
        cmocka_unit_test(names_settings),
        cmocka_unit_test(survives_truncation),
    };
    return cmocka_run_group_tests_name("text-conf", tests, NULL, NULL);
}
