/* shim: the process between an agent and a job. It spawns the job, spools its log, ends it when told or when time is
 * up, and writes down how it ended; it outlives the agent and waits for the next one. One job at a time, many one after
 * the other. */
#ifndef WEIR_EXEC_SHIM_H
#define WEIR_EXEC_SHIM_H

/* shim_main: runs on the descriptors of wire.h until it isn't needed any more; dir is its directory, for names only.
 * Returns the exit code.
 */
int shim_main(const char *dir);

#endif
