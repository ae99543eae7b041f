/* job_files: see job_files.h. */
#include "exec/shim/job_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/workdir.h"
#include "io/fsx.h"

/* files_reset: nothing is known any more of what an earlier job left. */
static void files_reset(struct job_files *files)
{
    fsx_close(files->out_fd);
    files->out_fd = -1;
    files->needs_full = true;
    files->modes = FOR_UNKNOWN;
}

void job_files_open(struct job_files *files, int dir_fd)
{
    *files = (struct job_files){ .dir_fd = dir_fd, .out_fd = -1, .io_fd = workdir_open(dir_fd, "io") };
    files_reset(files);
}

static bool file_put(int dir_fd, const char *name, struct str content, mode_t mode)
{
    unlinkat(dir_fd, name, 0); /* the job before may have made a link or folder of it */
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool ok = fchmod(fd, mode) == 0 && fsx_write_all(fd, content) == 0; /* the mode whatever the umask */
    fsx_close(fd);
    return ok;
}

/* out_renew: io/out must be there, empty, and the file that out_fd has open: one system call when the job before left
 * it alone. */
static bool out_renew(struct job_files *files, bool container)
{
    struct stat st;
    if (files->out_fd >= 0 && fstat(files->out_fd, &st) == 0 && st.st_nlink == 1 && st.st_size == 0)
        return true;
    fsx_close(files->out_fd);
    files->out_fd = -1;
    if (!file_put(files->io_fd, "out", (struct str){ 0 }, container ? 0666 : 0600))
        return false;
    files->out_fd = openat(files->io_fd, "out", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return files->out_fd >= 0;
}

/* modes_set: a container's user may be any user: io/ and work/ are open to all while it has them. Other users of the
 * host still can't reach them: the folder above is ours alone. */
static bool modes_set(struct job_files *files, bool container, int work_fd)
{
    if (files->modes == (container ? FOR_ALL : FOR_US))
        return !container || fchmod(work_fd, 0777) == 0; /* work/ was created again after the job before */
    files_reset(files);
    files->modes = container ? FOR_ALL : FOR_US;
    return fchmod(files->io_fd, container ? 0755 : 0700) == 0 && fchmod(work_fd, container ? 0777 : 0700) == 0;
}

static bool files_put(struct job_files *files, const struct job *job, int work_fd)
{
    bool container = job->container != NULL;
    mode_t mode = container ? 0644 : 0600;
    bool ok = modes_set(files, container, work_fd) && out_renew(files, container);
    if (job->needs.len > 0 || files->needs_full) {
        ok &= file_put(files->io_fd, "needs", job->needs.len > 0 ? job->needs : STR("{}"), mode);
        files->needs_full = job->needs.len > 0;
    }
    if (job->input.len > 0)
        ok &= file_put(files->io_fd, "input", job->input, mode);
    if (job->script.len > 0)
        ok &= file_put(files->io_fd, "script", job->script, mode);
    if (container)
        unlinkat(files->io_fd, "cid", 0);
    if (job->applies)
        unlinkat(files->io_fd, "reason", 0);
    return ok;
}

bool job_files_put(struct job_files *files, const struct job *job, int work_fd)
{
    if (files_put(files, job, work_fd))
        return true;
    files_reset(files);
    return workdir_clean(files->dir_fd, "io", &files->io_fd) && files_put(files, job, work_fd);
}
