/* coord: the port's door: which backend, and calls through its table.
 *
 * Owns the rows and copies of the texts of the configuration. Fails with `usage` on a URL that isn't one. */
#include "coord/coord.h"

#include <string.h>

#define SCHEME "zookeeper://"

static bool address_check(struct str address, struct err *err)
{
    ptrdiff_t colon = str_rindex(address, ':');
    int64_t port = 0;
    if (colon <= 0 || !str_to_i64(str_sub(address, (size_t)colon + 1, address.len), &port) || port < 1 || port > 65535)
        return err_set(err, ERR_usage,
            "coordination: '%.*s' isn't HOST:PORT; an ensemble is zookeeper://HOST:PORT,HOST:PORT/PATH",
            STR_ARG(address));
    return true;
}

static bool path_check(struct str path, struct err *err)
{
    struct str rest = str_sub(path, 1, path.len), part;
    bool good = path.len < 200;
    while (good && str_cut(&rest, '/', &part)) {
        good = part.len > 0 && !str_eqz(part, ".") && !str_eqz(part, "..");
        for (size_t i = 0; good && i < part.len; i++)
            good = part.ptr[i] > ' ' && part.ptr[i] < 0x7f;
    }
    if (!good || (path.len > 1 && str_ends(path, STR("/"))))
        return err_set(
            err, ERR_usage, "coordination: '%.*s' is no path in ZooKeeper; take one like /weir", STR_ARG(path));
    return true;
}

bool coord_url_check(struct str url, bool alone, struct err *err)
{
    if (alone && url.len > 0)
        return err_set(err, ERR_usage,
            "coordination: a SQLite store has one server, there is nobody to agree with; leave it out, or share a "
            "PostgreSQL store "
            "(--store postgresql://...)");
    if (!str_starts(url, STR(SCHEME)))
        return err_set(err, ERR_usage,
            "coordination: '%.*s' isn't known; it is zookeeper://HOST:PORT,HOST:PORT/PATH, or left out: the store",
            STR_ARG(url));
    struct str rest = str_sub(url, sizeof SCHEME - 1, url.len), address;
    ptrdiff_t slash = str_index(rest, '/');
    struct str hosts = slash < 0 ? rest : str_sub(rest, 0, (size_t)slash);
    if (str_index(hosts, '@') >= 0)
        return err_set(err, ERR_usage,
            "coordination: users and passwords don't stand in the address, where everybody sees them: put "
            "USER:PASSWORD into a file and "
            "name it as coordination_auth");
    if (hosts.len == 0 || str_ends(hosts, STR(",")))
        return address_check((struct str){ 0 }, err);
    while (str_cut(&hosts, ',', &address))
        if (!address_check(address, err))
            return false;
    return slash < 0 || path_check(str_sub(rest, (size_t)slash, rest.len), err);
}

struct coord *coord_open(const struct coord_config *config, struct err *err)
{
    if (config->url.len > 0 && !coord_url_check(config->url, config->alone, err))
        return NULL;
    struct coord *coord = config->alone          ? coord_alone_new()
                          : config->url.len == 0 ? coord_store_new()
                                                 : coord_zookeeper_new(config, err);
    if (coord == NULL)
        return NULL;
    coord->config = *config;
    coord->config.member = str_dup(&coord->arena, config->member);
    coord->config.url = str_dup(&coord->arena, config->url);
    coord->rows = ARENA_ARRAY(&coord->arena, struct coord_row, config->n_names + 1);
    for (size_t i = 0; i < config->n_names; i++)
        coord->rows[i].duty.name = str_of(config->names[i]);
    return coord;
}

bool coord_start(struct coord *coord, void (*changed)(void *owner), void *owner, struct err *err)
{
    return coord->ops->start == NULL || coord->ops->start(coord, changed, owner, err);
}

void coord_close(struct coord *coord)
{
    if (coord != NULL)
        coord->ops->close(coord);
}

void coord_publish(struct coord *coord, struct str content)
{
    if (coord->ops->publish != NULL && content.len <= COORD_CONTENT_MAX)
        coord->ops->publish(coord, content);
}

bool coord_members(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n)
{
    return coord->ops->members != NULL && coord->ops->members(coord, arena, out, out_n);
}

void coord_publish_executors(struct coord *coord, const struct coord_member *list, size_t n)
{
    if (coord->ops->publish_executors != NULL)
        coord->ops->publish_executors(coord, list, n);
}

bool coord_executors(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n)
{
    return coord->ops->executors != NULL && coord->ops->executors(coord, arena, out, out_n);
}

int64_t coord_executor_left(struct coord *coord, struct str executor)
{
    return coord->ops->executor_left != NULL ? coord->ops->executor_left(coord, executor) : 0;
}

bool coord_absent(struct coord *coord, struct str member)
{
    return coord->ops->absent != NULL && coord->ops->absent(coord, member);
}

void coord_status(struct coord *coord, struct coord_status *out)
{
    *out = (struct coord_status){ .kind = coord->ops->kind };
    if (coord->ops->status != NULL)
        coord->ops->status(coord, out);
}
