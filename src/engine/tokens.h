/* tokens: all tokens, for turns and for the api; what other servers have changed of them: tokens.c. */
#ifndef WEIR_ENGINE_TOKENS_H
#define WEIR_ENGINE_TOKENS_H

#include "engine/state.h"

struct known_token {
    struct token row;
    struct str subject; /* as events name it: NAME, TENANT/NAME */
    uint64_t gone;      /* the turn (engine.serial) that revokes it */
    char text[];
};

struct tokens {
    struct map by_id, by_hash;       /* known_token; by_hash: the first eight bytes */
    struct smap by_subject, tenants; /* tenants: those that have some */
    int64_t newest;                  /* id */
};

void tokens_release(struct engine *engine);
bool tokens_load(struct engine *engine, struct err *err); /* reads all tokens from the store */
void tokens_tell(struct engine *engine);                  /* they, or the site's keys, have changed */
void tokens_follow(struct turn *turn);                    /* after the commit */
bool tokens_take(struct turn *turn, struct err *err);     /* those that other servers have made since */
void token_gone_elsewhere(struct turn *turn, struct str subject);
/* NULL: none, or this turn revokes it */
struct known_token *token_named(struct turn *turn, struct str tenant, struct str name);
bool token_is_named(struct turn *turn, struct str tenant, struct str name); /* also by this turn */
void token_make(struct turn *turn, const struct token *token, struct str actor);
void token_revoke(struct turn *turn, struct known_token *known, struct str actor, struct str reason);
int64_t tokens_of(struct turn *turn, struct str tenant);        /* how many it has */
bool token_refused(struct turn *turn, struct command *command); /* the command's token was revoked meanwhile */

#endif
