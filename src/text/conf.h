/* conf: the configuration of a server: weir.yaml, the environment and the options made into one set of values, each
 * with its origin.
 *
 * Precedence: option, then WEIR_X, then the file, then the default. Nothing is read here: the caller passes the content
 * of the file, the environment and the options. All faults, of all sources, are in diags; a fault of an option or a
 * variable has its name as file and no line. Everything lives in the arena given. An empty variable counts as not set.
 */
#ifndef WEIR_TEXT_CONF_H
#define WEIR_TEXT_CONF_H

#include "core/model.h"
#include "text/conf_changesets.h"
#include "text/conf_tenants.h"
#include "text/node.h"

struct conf_option {
    struct str name; /* without dashes: lease, tls-certificate, label; others than known ones are a fault */
    struct str value;
};

struct conf_input {
    const struct diag_file *file;   /* NULL: there is none */
    const char *const *environment; /* NAME=value ..., NULL; or NULL */
    const struct conf_option *options;
    size_t n_options;
    struct str cwd;          /* what relative paths are relative to */
    struct str default_name; /* of this node */
    int64_t default_slots;   /* the number of cores */
};

enum conf_origin { CONF_DEFAULT, CONF_FILE, CONF_ENVIRONMENT, CONF_OPTION };

#define CONF_SETTINGS_MAX 48
#define CONF_GRACE_DEFAULT "10s"                /* of every executor, however it was started */
#define CONF_FILE_DEFAULT "/etc/weir/weir.yaml" /* where `weir serve` looks for its configuration */

struct conf_value { /* one setting as it is shown */
    enum conf_origin origin;
    struct str source; /* file:line, WEIR_X or --option; empty for defaults */
    struct str text;   /* as YAML on one line, passwords in addresses hidden; empty: not set */
};

struct conf_list {
    struct str *items;
    size_t n;
};

struct conf_labels {
    struct label *items; /* ascending by name */
    size_t n;
};

struct conf {
    /* this node */
    struct str data;              /* absolute */
    struct str store;             /* sqlite:///DIR or postgresql://... */
    struct str store_dir;         /* of sqlite; empty for PostgreSQL */
    struct str coordination;      /* empty: the store */
    struct str coordination_auth; /* a file with USER:PASSWORD; empty: none */
    struct str name, listen;
    struct str socket; /* absolute; default DATA/weir.sock */
    struct {
        struct str certificate, key, client_ca;
    } tls; /* all empty: no TLS */
    int64_t lease_ms, grace_ms, slots;
    struct str zone;
    struct conf_labels labels;
    struct {
        struct str command;
        struct conf_list options;
    } containers;
    struct {
        uint64_t limit_bytes;
    } log; /* of one attempt */
    struct {
        int64_t local_ms, remote_ms;
    } look; /* how often repositories are scanned; hints and inotify come in between */
    struct {
        struct str base; /* `changesets.base`; default DATA/spool; `none`: there is no spool here */
    } spool;

    /* the site */
    struct conf_semaphores semaphores;
    struct conf_tenants tenants;
    struct {
        int64_t timeout_ms;
        struct conf_list before_enqueue, after_enqueue, before_perform, after_perform;
    } hooks;
    struct conf_changesets changesets;
    struct conf_targets targets;
    const struct doc_node *resque, *screwdriver; /* checked for shape; NULL: none */
    int64_t history_ms;                          /* retention; -1: for ever */

    struct conf_value values[CONF_SETTINGS_MAX]; /* by setting, see conf_setting_key */
};

/* conf_parse: false when there is any error (they are sorted by place); then *out holds what was good, for no use but
 * tests. */
bool conf_parse(const struct conf_input *input, struct arena *arena, struct diags *diags, struct conf *out);

/* conf_show: every setting as a line `key: value  # origin`, nested as the file is: what it prints can be read as a
 * weir.yaml again. */
void conf_show(struct buf *out, const struct conf *conf);

/* The settings by number, for help, completions and --show-config --json: "lease", "tls.certificate"; NULL past the
 * last. */
const char *conf_setting_key(size_t i);
bool conf_setting_is_scalar(size_t i); /* also as option and variable */
bool conf_setting_is_own(size_t i);    /* one server's, though its section is the site's: changesets.base */
void conf_setting_option(struct buf *out, size_t i);   /* --tls-certificate */
void conf_setting_variable(struct buf *out, size_t i); /* WEIR_TLS_CERTIFICATE */

#endif
