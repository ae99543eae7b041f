/* shim: the process between an agent and a job. It spawns the job, writes the job's output to a log file, ends the job
 * when the agent says so or a deadline passes, and records how it ended. It outlives the agent and waits for the next
 * one. It runs one job at a time, and many one after the other. */
#ifndef WEIR_EXEC_SHIM_H
#define WEIR_EXEC_SHIM_H

/* shim_main: runs on the inherited descriptors that shim_message.h lists, until there is neither an agent nor a job.
 * dir: its directory, absolute; used only where a path is needed, files are opened from the descriptor. Returns the
 * exit code. */
int shim_main(const char *dir);

#endif
