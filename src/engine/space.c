/* space: room on the disk. Below the reserve, or when the store says that the disk is full, no new work is taken; a
 * ballast file is given up so that running work can still be recorded. When there is room again the ballast is put back
 * and intake opens by itself. It stays when the server ends. The disk of a database elsewhere can't be looked at:
 * intake is closed for AWAY_MS after each time that it was full, so that the room that comes is for running work first.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/health.h"

enum { BALLAST_BYTES = 4 << 20, RESERVE_BYTES = 4 << 20, AWAY_MS = 10000 };

static void ballast_path(const struct space *space, char *out, size_t size)
{
    snprintf(out, size, "%s/ballast", space->dir);
}

static bool ballast_put(const struct space *space)
{
    char path[4096];
    ballast_path(space, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    bool ok = posix_fallocate(fd, 0, BALLAST_BYTES) == 0;
    if (!ok && ftruncate(fd, 0) != 0)
        ok = false;
    close(fd);
    return ok;
}

static int64_t free_bytes(const struct space *space)
{
    struct statvfs fs;
    if (statvfs(space->dir, &fs) != 0)
        return INT64_MAX;
    return (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

void space_open(struct space *space, const char *dir)
{
    *space = (struct space){ .dir = dir };
    if (!dir)
        return;
    space->ballast = ballast_put(space);
    space->full = !space->ballast || free_bytes(space) < RESERVE_BYTES;
}

void space_look(struct space *space, int64_t boot)
{
    int64_t pause = SPACE_LOOK_MS;
    if (PLANT(full_long))
        pause = space->full ? 12 * SPACE_LOOK_MS : SPACE_LOOK_MS;
    if (space->looked && boot - space->looked < pause)
        return;
    space->looked = boot;
    if (boot < space->away_until)
        return;
    if (space->away_until) { /* as far as it is known */
        space->away_until = 0;
        space->full = false;
    }
    if (!space->dir) { /* no disk to look at: what failed is tried again */
        space->full = false;
        return;
    }
    int64_t room = free_bytes(space);
    if (!space->full) {
        space->full = room < RESERVE_BYTES;
        return;
    }
    if (!space->ballast && room >= BALLAST_BYTES + 2 * (int64_t)RESERVE_BYTES)
        space->ballast = ballast_put(space);
    if (space->ballast && free_bytes(space) >= 2 * (int64_t)RESERVE_BYTES)
        space->full = false;
}

void space_ran_out(struct space *space)
{
    char path[4096];
    space->full = true;
    if (!space->dir || !space->ballast)
        return;
    ballast_path(space, path, sizeof path);
    space->ballast = false;
    if (PLANT(ballast_kept))
        return;
    if (truncate(path, 0) != 0)
        return; /* then there is none to give */
}

void space_ran_out_away(struct space *space, int64_t boot)
{
    space->full = true;
    if (space->dir)
        space->away_until = boot + AWAY_MS;
}

const char *space_place(const struct space *space)
{
    return space->away_until ? "PostgreSQL's disk" : space->dir ? space->dir : "the store";
}
