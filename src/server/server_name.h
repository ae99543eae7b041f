/* server_name: what a server is called that was given no --name: as the host is, or HOST-2 and so on while another live
 * server of the store is called so; and as it was called the last time, which DATA/name tells. */
#ifndef WEIR_SERVER_SERVER_NAME_H
#define WEIR_SERVER_SERVER_NAME_H

#include "store/store.h"
#include "text/conf.h"

bool setting_given(const struct conf *conf, const char *key); /* it isn't the default */
struct str server_name_default(struct arena *arena);          /* the host's */
/* server_name_open: opens the store under conf->name, or under the first free name if it wasn't given; config and conf
 * then have it. */
struct store *server_name_open(
    struct store_config *config, const char *data, struct arena *arena, struct conf *conf, struct err *err);

#endif
