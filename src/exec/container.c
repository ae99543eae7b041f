/* container: see container.h. Podman and docker take the same words for this. */
#include "exec/container.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "io/fsx.h"

enum { ID_BYTES = 80 };

static bool id_read(int io_fd, char out[ID_BYTES])
{
    fsx_read_text(io_fd, "cid", O_NOFOLLOW | O_NONBLOCK, out, ID_BYTES);
    out[strspn(out, "0123456789abcdef")] = '\0'; /* the job may have written there: nothing but an id gets through */
    return out[0] != '\0';
}

bool container_made(int io_fd)
{
    char id[ID_BYTES];
    return id_read(io_fd, id);
}

pid_t container_remove(const char *program, int io_fd, int null_fd, char *const *environment)
{
    char id[ID_BYTES], name[4096], rm[] = "rm", force[] = "--force", volumes[] = "--volumes";
    size_t len = strlen(program);
    if (!id_read(io_fd, id) || len >= sizeof name)
        return 0;
    memcpy(name, program, len + 1);
    char *const argv[] = { name, rm, force, volumes, id, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, null_fd, i);
    pid_t pid;
    if (posix_spawnp(&pid, program, &actions, NULL, argv, environment) != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}
