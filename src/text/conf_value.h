/* conf_value: one value of the configuration made from a node, whatever its source. Private to text. */
#ifndef WEIR_TEXT_CONF_VALUE_H
#define WEIR_TEXT_CONF_VALUE_H

#include "text/conf.h"

enum conf_kind {
    CONF_KIND_NONE,
    CONF_TEXT,       /* struct str; check says what is wrong with it */
    CONF_PATH,       /* struct str, made absolute */
    CONF_COUNT,      /* int64_t in min..max */
    CONF_DURATION,   /* int64_t in ms, min..max */
    CONF_HISTORY,    /* int64_t in ms or -1 for `forever` */
    CONF_SIZE,       /* uint64_t in bytes, min..max */
    CONF_TRUTH,      /* bool */
    CONF_LIST,       /* struct conf_list; check for each item */
    CONF_MOVETYPES,  /* unsigned: 1u << MOVE_X of those listed */
    CONF_LABELS,     /* struct conf_labels */
    CONF_SEMAPHORES, /* struct conf_semaphores */
    CONF_TENANTS,    /* struct conf_tenants */
    CONF_TARGETS,    /* struct conf_targets */
    CONF_NODE,       /* const struct doc_node *; shape checks it */
    CONF_KIND_COUNT
};

struct conf_setting {
    const char *key; /* with its sections: tls.certificate */
    enum conf_kind kind;
    size_t offset; /* in struct conf */
    int64_t min, max;
    const char *normal; /* default as text; NULL: none, or made from others */
    bool own;           /* one server's, though its section is the site's */
    bool none;          /* of a path: `none` is taken, too: empty */
    bool (*check)(const struct node_context *context, const struct doc_node *node, struct str text);
    void (*shape)(const struct node_context *context, const struct doc_node *node);
};

/* conf_value_set: false and a fault when the node isn't a value of the setting. */
bool conf_value_set(const struct node_context *context, const struct conf_setting *setting, const struct doc_node *node,
    struct str cwd, struct conf *conf);

/* conf_value_show: the node as YAML on one line; user:password@ in addresses becomes user:***@. */
struct str conf_value_show(struct arena *arena, const struct doc_node *node);

/* conf_section_set: the site's settings of one section (`changesets`, `retention`), as a document of the site's keys
 * has them; those that it doesn't name, and all if node is NULL, get their defaults. */
bool conf_section_set(
    const struct node_context *context, const struct doc_node *node, const char *section, struct conf *out);
void conf_changesets_default(struct conf_changesets *out);

/* conf_semaphores_set, conf_tenants_set, conf_targets_set: likewise, of a mapping. */
bool conf_semaphores_set(
    const struct node_context *context, const char *key, const struct doc_node *node, struct conf_semaphores *out);
bool conf_tenants_set(const struct node_context *context, const struct doc_node *node, struct conf_tenants *out);
bool conf_targets_set(const struct node_context *context, const struct doc_node *node, struct conf_targets *out);
bool conf_movetypes_set(
    const struct node_context *context, const char *key, const struct doc_node *node, unsigned *out);

/* Checks of texts and shapes, for the table of settings. */
bool conf_check_store(const struct node_context *context, const struct doc_node *node, struct str text);
bool conf_check_coordination(const struct node_context *context, const struct doc_node *node, struct str text);
bool conf_check_name(const struct node_context *context, const struct doc_node *node, struct str text);
bool conf_check_listen(const struct node_context *context, const struct doc_node *node, struct str text);
bool conf_check_filled(const struct node_context *context, const struct doc_node *node, struct str text);
bool conf_check_program(const struct node_context *context, const struct doc_node *node, struct str text);
void conf_shape_resque(const struct node_context *context, const struct doc_node *node);
void conf_shape_screwdriver(const struct node_context *context, const struct doc_node *node);

#endif
