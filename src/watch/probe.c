/* probe: reads a repository before it becomes an archive: does it exist, what is its youngest revision, and with which
 * revision would the archive begin?
 *
 * Owns a copy of the request and the answer. Promises one call of `done` unless the probe is cancelled. In git the
 * number of a revision is its position along first parents, so an archive that begins `from` N has the commit of N - 1
 * as its tip.
 *
 * Fails as source.h says, and with invalid when `from` is greater than the number of the branch's next commit. */
#include "watch/follow.h"

struct probe_job {
    struct watch_probe probe;
    struct pool_job job;
    struct list_node node;
    struct watch *watch;
    struct arena arena;
    enum pool_group group;
    bool cancelled;
};

static void probe_free(struct probe_job *probe)
{
    list_remove(&probe->watch->probes, &probe->node);
    arena_release(&probe->arena);
    mem_free(probe);
}

/* --- on a thread of the pool --- */

struct passed { /* commits that earlier calls returned: they count as known */
    const struct str *ids;
    size_t n, at;
};

static bool passed_is_known(void *context, struct str id)
{
    struct passed *passed = context;
    if (passed->at >= passed->n || !str_eq(passed->ids[passed->at], id))
        return false;
    passed->at++;
    return true;
}

/* git_position: the commit at this position (from 1) along first parents; *out_total: how many there are. position 0:
 * the last. */
static bool git_position(struct source *source, struct arena *arena, int64_t position, struct str *out_id,
    int64_t *out_total, struct err *err)
{
    struct passed passed = { 0 };
    int64_t before = 0;
    for (;;) {
        struct source_known known = { .is_known = passed_is_known, .context = &passed };
        struct source_commits commits = { 0 };
        if (!source_new_commits(source, arena, &known, &commits, err))
            return false;
        *out_total = before + (int64_t)commits.n + (int64_t)commits.left;
        if (position == 0 || position > *out_total) {
            *out_id = commits.tip;
            return true;
        }
        if (position <= before + (int64_t)commits.n) {
            *out_id = commits.ids[position - before - 1];
            return true;
        }
        before += (int64_t)commits.n;
        passed = (struct passed){ .ids = commits.ids, .n = commits.n };
    }
}

static bool git_start(struct probe_job *job, struct source *source, struct err *err)
{
    struct watch_probe *probe = &job->probe;
    struct str id = { 0 };
    if (!git_position(source, &job->arena, probe->from > 1 ? probe->from - 1 : 0, &id, &probe->youngest, err))
        return false;
    probe->from_beyond = probe->from > probe->youngest + 1;
    if (probe->from_beyond)
        return err_set(err, ERR_invalid, "the branch %.*s has %lld commits: `from` is at most %lld",
            STR_ARG(probe->branch_found), (long long)probe->youngest, (long long)probe->youngest + 1);
    probe->first = probe->from > 0 ? probe->from : probe->youngest + 1;
    if (probe->from != 1)
        probe->tip = id;
    return true;
}

static bool svn_start(struct probe_job *job, struct source *source, struct err *err)
{
    struct watch_probe *probe = &job->probe;
    struct source_ident youngest = { 0 };
    if (!source_youngest(source, &job->arena, &youngest, err))
        return false;
    probe->youngest = youngest.rev;
    probe->first = probe->from > 0 ? probe->from : youngest.rev + 1;
    return true;
}

static void probe_work(struct pool_job *self, struct pool_worker *worker)
{
    struct probe_job *job = CONTAINER_OF(self, struct probe_job, job);
    struct watch_probe *probe = &job->probe;
    (void)worker;
    struct source *source = source_open(probe->kind, probe->url, probe->branch, &probe->err);
    if (source == NULL)
        return;
    probe->local = source_is_local(source);
    probe->branch_found = str_dup(&job->arena, source_branch(source));
    probe->place = str_dup(&job->arena, source_place(source));
    if (probe->kind == ARCHIVE_GIT ? git_start(job, source, &probe->err) : svn_start(job, source, &probe->err))
        probe->err = (struct err){ 0 };
    source_close(source);
}

/* --- on the loop's thread --- */

static void probe_done(struct pool_job *self)
{
    struct probe_job *job = CONTAINER_OF(self, struct probe_job, job);
    if (!job->cancelled && !job->watch->closing)
        job->probe.done(&job->probe);
    probe_free(job);
}

struct watch_probe *watch_probe(struct watch *watch, const struct watch_probe *in, struct err *err)
{
    if (watch->closing || watch->probes.n >= WATCH_PROBES_MAX) {
        err_set(err, ERR_unavailable,
            watch->closing ? "the server is stopping" : "%d repositories are being looked at already",
            WATCH_PROBES_MAX);
        return NULL;
    }
    struct probe_job *job = mem_alloc_zero(sizeof *job);
    job->watch = watch;
    job->probe = (struct watch_probe){ .kind = in->kind,
        .url = str_dup(&job->arena, in->url),
        .branch = str_dup(&job->arena, in->branch),
        .from = in->from,
        .done = in->done,
        .owner = in->owner };
    job->job = (struct pool_job){ .work = probe_work, .done = probe_done };
    /* a probe that hangs delays no scan */
    job->group = place_is_served(in->kind, in->url) ? POOL_SERVED : POOL_PROBE;
    list_append(&watch->probes, &job->node);
    thread_pool_add(watch->pool, job->group, &job->job);
    return &job->probe;
}

void watch_probe_cancel(struct watch_probe *probe)
{
    struct probe_job *job = CONTAINER_OF(probe, struct probe_job, probe);
    job->cancelled = true;
    if (thread_pool_withdraw(job->watch->pool, job->group, &job->job))
        probe_free(job);
}

void probes_release(struct watch *watch, bool all_joined)
{
    while (all_joined && watch->probes.first != NULL)
        probe_free(CONTAINER_OF(watch->probes.first, struct probe_job, node));
}
