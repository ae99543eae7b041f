/* conf_site: the keys of the configuration that hold for all servers of a site (`semaphores`, `tenants`, `retention`,
 * `changesets`, `targets`): as a document for `weir config apply`, as the store keeps them, and the differences between
 * two sets.
 *
 * Node keys (`listen`, `slots`, ...) belong to one server and are refused here, as are keys of later versions, each at
 * its place. */
#ifndef WEIR_TEXT_CONF_SITE_H
#define WEIR_TEXT_CONF_SITE_H

#include "text/conf_changesets.h"
#include "text/conf_tenants.h"

struct conf;  /* text/conf.h */
struct diags; /* text/diag.h */
struct diag_file;

/* their numbers are stored (server.differs): new ones come last */
enum { SITE_SEMAPHORES, SITE_TENANTS, SITE_RETENTION, SITE_CHANGESETS, SITE_TARGETS, SITE_KEYS };

struct site_conf {                     /* holds for all servers of a site; stored, with a version */
    struct conf_semaphores semaphores; /* global ones */
    /* none listed: a tenant exists from its first token on; else only these and `default` exist */
    struct conf_tenants tenants;
    int64_t history_ms; /* results of tasks that ended longer ago are removed; below 1: never */
    struct conf_changesets changesets;
    struct conf_targets targets;
    unsigned silent; /* bits of the keys that aren't given: they stay as they are */
};

const char *site_key_name(size_t key);

/* site_key_write: the same text for the same values; `{}` says nothing. site_key_parse takes what it gave; false: it
 * didn't. */
void site_key_write(struct buf *out, const struct site_conf *conf, size_t key);
bool site_key_parse(struct str body, size_t key, struct arena *arena, struct site_conf *out);

/* conf_tenants_parse: likewise, of the tenants alone. */
bool conf_tenants_parse(struct str text, struct arena *arena, struct conf_tenants *out);

/* site_of: of a server's whole configuration; what it doesn't name is silent. */
void site_of(const struct conf *conf, struct site_conf *out);
/* site_parse: a document with site keys and nothing else; false: the faults, all of them, are in diags. A key that is
 * null is emptied. */
bool site_parse(const struct diag_file *file, struct arena *arena, struct diags *diags, struct site_conf *out);
/* site_fits: whether the key, with its aliases written out, is small enough to be stored and read again. */
bool site_fits(const struct site_conf *conf, size_t key);
/* site_copy: into another arena; as text and back. */
void site_copy(struct arena *arena, const struct site_conf *from, struct site_conf *out);

struct site_change {
    struct str path;          /* tenants.red.quotas.tasks */
    struct str before, after; /* as YAML on one line; empty: it wasn't, or isn't, there */
};
/* site_changes: what is different between two bodies of a key that site_key_write gave, in the order of the paths'
 * keys. */
size_t site_changes(struct arena *arena, size_t key, struct str before, struct str after, struct site_change **out);
/* site_yaml: the key as a line of a document that site_parse takes. */
void site_yaml(struct buf *out, struct arena *arena, size_t key, struct str body);

#endif
