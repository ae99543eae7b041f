#include "server/server_name.h"

#include <string.h>
#include <unistd.h>

#include "io/fsx.h"
#include "io/log.h"
#include "text/key.h"

enum { NAME_BYTES = 200, NAMES_MAX = 99 };

struct str server_name_default(struct arena *arena)
{
    char host[65] = "";
    if (gethostname(host, sizeof host) < 0)
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '.'))
            *c = '-';
    struct str name = str_dup(arena, str_of(host));
    return name_is_valid(name) ? name : STR("weir");
}

bool setting_given(const struct conf *conf, const char *key)
{
    for (size_t i = 0; conf_setting_key(i); i++)
        if (strcmp(conf_setting_key(i), key) == 0)
            return conf->values[i].origin != CONF_DEFAULT;
    return false;
}

static struct str last_name(const char *path, struct arena *arena)
{
    struct err err = { .code = ERR_none };
    struct str text = { 0 };
    if (!fsx_read(path, NAME_BYTES, arena, &text, &err))
        return (struct str){ 0 };
    text = str_trim(text);
    return name_is_valid(text) ? text : (struct str){ 0 };
}

struct store *server_name_open(
    struct store_config *config, const char *data, struct arena *arena, struct conf *conf, struct err *err)
{
    if (setting_given(conf, "name"))
        return store_open(config, err);
    const char *path = str_dupz(arena, str_fmt(arena, "%s/name", data));
    struct str last = last_name(path, arena), host = conf->name;
    struct store *store = NULL;
    /* the store knows best which names are in use */
    for (int i = last.len > 0 ? 0 : 1; i <= NAMES_MAX && !store; i++) {
        *err = (struct err){ .code = ERR_none };
        conf->name = config->server = i == 0 ? last : i == 1 ? host : str_fmt(arena, "%.*s-%d", STR_ARG(host), i);
        store = store_open(config, err);
        if (!store && err->code != ERR_name_taken)
            return NULL;
    }
    struct err unkept = { .code = ERR_none }; /* the next start may then find another */
    if (store && !str_eq(conf->name, last) &&
        !fsx_replace(path, str_fmt(arena, "%.*s\n", STR_ARG(conf->name)), 0600, &unkept))
        log_warn("server.name", "name=%s error=%s", log_quote(conf->name).z, log_quote(str_of(unkept.text)).z);
    return store;
}
