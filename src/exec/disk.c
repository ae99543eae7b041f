/* disk: see disk.h. By descriptors, without following links, on one file system; what vanishes meanwhile counts for
 * nothing. It ends as soon as the limit is passed. */
#include "exec/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 200, ENTRY_BYTES = 4096, BLOCK_BYTES = 512 };

static void folder_count(int fd /* closed */, dev_t device, int depth, int64_t *left)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    for (struct dirent *entry; *left >= 0 && (entry = readdir(dir));) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        int64_t bytes = (int64_t)st.st_blocks * BLOCK_BYTES;
        *left -= bytes > ENTRY_BYTES ? bytes : ENTRY_BYTES;
        if (!S_ISDIR(st.st_mode) || st.st_dev != device)
            continue;
        int child = depth < DEPTH_MAX ? openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (child >= 0)
            folder_count(child, device, depth + 1, left);
        else if (depth >= DEPTH_MAX)
            *left = -1;
    }
    closedir(dir);
}

bool disk_over(int dir_fd, const char *const *names, int64_t limit)
{
    int64_t left = limit;
    struct stat st;
    for (const char *const *name = names; *name && left >= 0; name++) {
        int fd = openat(dir_fd, *name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &st) == 0)
            folder_count(fd, st.st_dev, 0, &left);
        else
            close(fd);
    }
    return left < 0;
}
