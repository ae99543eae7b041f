/* key: where on this machine the key of a history is, for a server or a copy that comes without one. See postgres.h.
 *
 * A server tells the store in which directory of which machine it keeps verify.key (meta, `key_place`); never the key
 * itself. Who comes without one on the same machine reads it there, if the file is his own user's and nobody else's to
 * read: so servers of one machine need no copying by hand, and nobody gets a key that he couldn't have read himself.
 * What the store says is believed only as far as the head's seal, which the caller checks before he keeps the key.
 * Anything else than such a file is as none. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/files.h"
#include "store/postgres/postgres.h"

enum { HOST_BYTES = 256, TOLD_BYTES = HOST_BYTES + FILES_PATH_MAX };

static void host_name(char out[HOST_BYTES])
{
    memset(out, 0, HOST_BYTES);
    if (gethostname(out, HOST_BYTES - 1) < 0)
        out[0] = '\0';
}

void pg_key_queue(struct pg *pg, const char *data_dir)
{
    char host[HOST_BYTES], real[PATH_MAX], place[TOLD_BYTES];
    host_name(host);
    snprintf(place, sizeof place, "%s %s", host, realpath(data_dir, real) ? real : data_dir);
    pg_queue(pg, SQL_key_place_put, PG_ARGS(TXT(str_of(place))));
}

bool pg_key_borrow(struct pg *pg, uint8_t out[CHAIN_KEY_BYTES])
{
    char host[HOST_BYTES], place[TOLD_BYTES], path[FILES_PATH_MAX];
    int64_t none;
    struct stat st;
    struct err ignored = { 0 };
    host_name(host);
    size_t n = strlen(host);
    if (n == 0 || !pg_words(pg, SQL_key_place, place, sizeof place, &none) || strncmp(place, host, n) != 0 ||
        place[n] != ' ')
        return false;
    const char *dir = place + n + 1;
    return path_join(path, dir, "verify.key", &ignored) && lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & 077) == 0 && chain_key_load(dir, out, &ignored);
}
