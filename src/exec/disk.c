/* disk: see disk.h. By descriptors, without following links, on one file system; what vanishes meanwhile counts for
 * nothing. It ends as soon as the limit is passed. */
#include "exec/disk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "io/fsx.h"

enum { DEPTH_MAX = 200, ENTRY_BYTES = 4096, BLOCK_BYTES = 512 };

static void folder_count(int parent_fd, const char *name, dev_t device, int depth, int64_t *left)
{
    DIR *dir = fsx_folder(parent_fd, name);
    for (struct dirent *entry; dir && *left >= 0 && (entry = fsx_entry(dir));) {
        struct stat st;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        int64_t bytes = (int64_t)st.st_blocks * BLOCK_BYTES;
        *left -= bytes > ENTRY_BYTES ? bytes : ENTRY_BYTES;
        if (!S_ISDIR(st.st_mode) || st.st_dev != device)
            continue;
        if (depth >= DEPTH_MAX)
            *left = -1;
        else
            folder_count(dirfd(dir), entry->d_name, device, depth + 1, left);
    }
    if (dir)
        closedir(dir);
}

bool disk_over(int dir_fd, const char *const *names, int64_t limit)
{
    int64_t left = limit;
    struct stat st;
    for (const char *const *name = names; *name && left >= 0; name++)
        if (fstatat(dir_fd, *name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            folder_count(dir_fd, *name, st.st_dev, 0, &left);
    return left < 0;
}
