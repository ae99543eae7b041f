/* job: unpacking beside a loop. One thread for each job, because it waits for a disk and a process and hashes; the
 * thread is gone when `done` is called. */
#include "unpack/job.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/loop.h"

static void *job_thread(void *owner)
{
    struct unpack_job *job = owner;
    struct loop *loop = job->loop;
    job->is_good = unpack_job_run(job);
    atomic_store(&job->has_ended, true);
    loop_wake(loop); /* of the job nothing is touched after has_ended */
    return NULL;
}

static void job_end(struct unpack_job *job)
{
    loop_forget(job->loop, job);
    pthread_join(job->thread, NULL);
    close(job->stop_fd);
    job->loop = NULL;
}

static void job_woken(void *owner)
{
    struct unpack_job *job = owner;
    if (!atomic_load(&job->has_ended))
        return;
    job_end(job);
    job->done(job);
}

bool unpack_start(struct unpack_job *job, struct loop *loop, struct err *err)
{
    job->loop = loop;
    job->err.arena = &job->arena;
    atomic_store(&job->has_ended, false);
    job->stop_fd = eventfd(0, EFD_CLOEXEC);
    loop_on_wake(loop, job_woken, job);
    int fault = job->stop_fd < 0 ? errno : pthread_create(&job->thread, NULL, job_thread, job);
    if (fault == 0)
        return true;
    loop_forget(loop, job);
    if (job->stop_fd >= 0)
        close(job->stop_fd);
    job->loop = NULL;
    return err_set(err, ERR_unavailable, "no thread to unpack a tarball: %s", strerrordesc_np(fault));
}

void unpack_stop(struct unpack_job *job)
{
    if (job->loop == NULL)
        return;
    uint64_t one = 1;
    ssize_t written = write(job->stop_fd, &one, sizeof one);
    ASSERT(written == (ssize_t)sizeof one); /* the first and only one */
    job_end(job);
}

void unpack_release(struct unpack_job *job)
{
    arena_release(&job->arena);
}
