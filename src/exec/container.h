/* container: removes a container whose client has died. Its id is in io/cid, where the client wrote it
 * (kind_container.c). */
#ifndef WEIR_EXEC_CONTAINER_H
#define WEIR_EXEC_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

/* container_made: is there an id? Without one the container program failed before anything of the job ran. */
bool container_made(int io_fd);

/* container_remove: has the program kill and remove it. Returns the pid of the program, or 0: there is none to remove.
 */
pid_t container_remove(const char *program, int io_fd, int null_fd, char *const *environment);

#endif
