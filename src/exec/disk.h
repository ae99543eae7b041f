/* disk: how much a job has written beneath its folders, so that one with a limit can be stopped. */
#ifndef WEIR_EXEC_DISK_H
#define WEIR_EXEC_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* disk_over: is more than `limit` bytes in use beneath these folders (NULL at the end of the list) of dir_fd? A file
 * counts with its blocks and 4 KiB at least, so that very many empty ones are a lot too; folders nested too deeply to
 * be looked at count as over. */
bool disk_over(int dir_fd, const char *const *names, int64_t limit);

#endif
