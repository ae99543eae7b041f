/* plant: bugs that are planted on purpose, to prove that the simulator (test/sim/README.md lists them) or the tests of
 * the promises (test/promises/README.md) find them.
 *
 * PLANT(name) is constant false, so the compiler removes the bug from the server, except in the planted twins of the
 * simulator and the soak and in build-planted/ (WEIR_PLANTED). One bug at a time: the simulator or the soak selects it,
 * or WEIR_PLANT. */
#ifndef WEIR_BASE_PLANT_H
#define WEIR_BASE_PLANT_H

#include <stdbool.h>

/* name, what goes wrong with it */
#define PLANTS(X) \
    X(fence_unchecked, "a finish by an older grant is accepted") \
    X(newest_grant, "a finish ends the newest grant, whichever grant it names") \
    X(renew_by_task, "a lease is renewed by the task's id alone") \
    X(slots_kept, "an ended task keeps its slots") \
    X(retry_no_recount, "a retry doesn't recount what the task's dependents wait for") \
    X(cancels_early, "the newer task of a cancels edge starts before the older one has ended") \
    X(ending_ignored, "a finish forgets that the task was being cancelled") \
    X(wall_leases, "leases run by the wall clock") \
    X(no_new_watch, "leases aren't restarted after the server stood still") \
    X(grant_not_returned, "a grant that never arrived isn't returned by the next poll") \
    X(idempotency_dropped, "idempotency keys aren't kept") \
    X(answer_early, "a commit of unknown outcome is answered as done") \
    X(unique_kept, "a task that ends keeps its unique key") \
    X(resume_once, "a resumed lane's second batch is forgotten") \
    X(hold_rows_left, "rows of lifted time holds aren't removed") \
    X(clock_back, "back-offs aren't checked after the wall clock was set back") \
    X(poll_overtaken, "a poll that a newer one has overtaken counts like the newest") \
    X(lapse_uncounted, "a lease that expires before the executor named the job doesn't count as an attempt") \
    X(forgetful_trusted, "of an executor that lost its records, jobs are assumed not to have begun") \
    X(late_poll_believed, "a poll that was sent before a grant was made returns the grant") \
    X(no_replay, "a repeated poll returns its grants instead of getting them again") \
    X(late_refused, "a late result is refused though nobody was granted the task since") \
    X(attempts_unlimited, "attempts aren't counted against the limit") \
    X(labels_ignored, "an executor is granted tasks that it doesn't fit") \
    X(prio_ignored, "priorities are ignored") \
    X(pause_ignored, "a paused lane's pending tasks are granted") \
    X(slot_overtake, "a new task takes a slot before those that wait for it") \
    X(depends_any_end, "any end of a dependency satisfies it") \
    X(cancel_untold, "a renewal's answer doesn't report a cancel") \
    X(stale_untold, "a renewal's answer doesn't report a stale grant") \
    X(unfair_lanes, "a lane's backlog isn't spread over virtual time") \
    X(wake_forgotten, "the time of the next time hold isn't read after a turn") \
    X(slot_first_only, "a slot with room for several waiters admits only the first") \
    X(why_slots_late, "why names a slot only once the task waits in its queue") \
    X(why_supersedes_late, "why names a task to be superseded only once that task is being ended") \
    X(slots_unserved, "a task that no executor fits takes slots") \
    X(unserved_kept, "pending tasks keep their slots when the last executor that fits is lost") \
    X(wake_once, "of the tasks that waited for an executor the second batch is forgotten") \
    X(slot_unwaited, "a freed slot admits no waiter") \
    X(class_early, "a class is removed though a task of it is pending, or waits for an executor") \
    X(class_lost, "a removed class isn't made again for a task that needs it") \
    X(gap_ignored, "a revision is initialised before an earlier one is known") \
    X(prev_newest, "PREV is the newest revision's task, not the one before") \
    X(prev_forgotten, "a revision that waited behind a gap forgets what PREV means") \
    X(skip_unopened, "skipping a missing revision opens none of those behind it") \
    X(revision_twice, "a waiting revision that is posted again is stored twice") \
    X(order_unlooked, "a retry is accepted though later revisions have started") \
    X(lock_past_shared, "an exclusive task doesn't wait for those that share the archive's lock") \
    X(lock_not_handed_on, "a task that is stopped while it waits for the lock releases all behind it") \
    X(slot_kept, "a schedule that fires late doesn't move to its next minute") \
    X(schedule_ahead, "a schedule's minute stays in the future after the clock was corrected") \
    X(schedule_unheard, "schedules of a newer workflow take effect only after a restart") \
    X(depth_ignored, "revisions made by jobs start jobs without a limit of depth") \
    X(why_lock_late, "why names the archive's lock only while its holder executes") \
    X(limit_overrun, "a semaphore that was lowered below its holders lets one more in") \
    X(limit_unheard, "a raised limit of a semaphore admits no waiter") \
    X(admits_forgotten, "waiters for a slot that a turn left to the next one are forgotten") \
    X(tells_forgotten, "waiters that a turn left to be informed of an end are forgotten") \
    X(returns_once, "of the dependents of a retried task the second batch is forgotten") \
    X(cancels_once, "of the tasks that a task supersedes the second batch is forgotten") \
    X(heirs_first_only, "a stopped task hands on its edges to the first batch of its waiters only") \
    X(silence_once, "an executor that polled when its silence was due is never checked again") \
    X(tells_unread, "waiters that an earlier turn left to be informed count as informed") \
    X(incarnation_unchecked, "a finish of another incarnation is accepted") \
    X(incarnation_each_poll, \
        "an executor that has seen more than the store knows makes all grants stale at each poll") \
    X(copies_forget, "a restored store assumes that no granted job had begun") \
    X(running_waits, "a running task that is lost waits for a task that queues for the lock behind it") \
    X(cancels_behind_lock, "a task that waits for the archive's lock doesn't cancel what it supersedes") \
    X(cancels_not_handed_on, "what a task was to cancel is forgotten when it ends before it was ready") \
    X(lock_shared_waits, "behind a stopped task shared locks wait for shared ones") \
    X(lock_replaced, "a task that isn't made because of its unique key takes the archive's lock") \
    X(prev_not_handed_on, "a task that is stopped while it waits for PREV releases the next revision's task") \
    X(promotion_parked, "a pause forgets that a task was promoted") \
    X(unique_early, "a revision behind a gap takes its unique keys when it is posted") \
    X(commit_unwaited, "a task that depends on another revision's task by its unique key doesn't wait for COMMIT") \
    X(touched_forgotten, "the touched paths of a revision behind a gap are forgotten")

/* of several servers on one store: the simulator's worlds with --servers */
#define PLANTS_SEVERAL(X) \
    X(mark_unlooked, "a commit whose answer was lost counts as failed without reading the server's mark") \
    X(grants_unfollowed, "grants of other servers aren't taken over") \
    X(epoch_unchecked, "a command of an older epoch is accepted") \
    X(epoch_kept, "a duty is taken over without a new epoch") \
    X(duty_unlooked, "every server fires schedules, whichever holds the duty") \
    X(stale_kept, "a server that lost the store goes on with its old caches") \
    X(beats_unheard, "an executor that polls another server isn't kept alive by that server's beats") \
    X(served_unfollowed, "executors that poll other servers don't count for slots") \
    X(slots_unfollowed, "slots that other servers took or released aren't taken over") \
    X(recent_kept, "cached rows of tasks stay although another server has committed") \
    X(takeover_late, "a duty whose holder is dead is taken over only after 10 s") \
    X(numbers_kept, "numbers of turns are reused after a commit of unknown outcome") \
    X(lanes_uncounted, "moves of a narrow turn aren't counted in the lane") \
    X(archive_unlocked, "two servers open revisions of one archive concurrently") \
    X(slot_unlocked, "two servers take and release one slot concurrently") \
    X(specs_kept, "specs of a narrow turn that failed count as stored")

/* of a tenant with quotas, and of pruning: the simulator's worlds with --quotas */
#define PLANTS_QUOTAS(X) \
    X(quota_by_call, "a call counts as one task, however many it brings") \
    X(quota_uncounted, "tasks that a tenant had when the server started aren't counted") \
    X(why_quota_late, "why names the quota of running tasks only once the task waits for it") \
    X(prune_wanted, "a task's outputs are pruned though a dependent hasn't ended") \
    X(prune_recent, "tasks that have just ended are pruned as if they were old") \
    X(prune_bytes_kept, "bytes of pruned logs are still counted")

/* of change sets: the simulator's worlds with --changesets */
#define PLANTS_CHANGESETS(X) \
    X(files_kept, "a change set that has ended stays in the lists of its paths") \
    X(chain_cut, "behind a change set that wasn't applied nobody takes its place") \
    X(csid_unlooked, "an executor commits without a look for the CSID") \
    X(rollback_hold_kept, "a rollback that fails leaves its members held") \
    X(member_missed, "a rollback takes only what it names, not what depends on that") \
    X(member_late_missed, "a change set that depends on a member and comes later doesn't join") \
    X(label_ignored, "pending change sets start in the order of their arrival") \
    X(approval_skipped, "a change set starts without its ticket") \
    X(target_unlimited, "a change set is granted whatever of its target runs") \
    X(rollback_beside, "a rollback starts while a member runs") \
    X(undone_unmarked, "a member that a rollback has undone isn't marked") \
    X(retry_unplaced, "a change set that is retried keeps its place") \
    X(why_approval_early, "why names a missing ticket only once nothing else is in the way")

/* what the simulator doesn't have: files, processes, memory */
#define PLANTS_SERVER(X) \
    X(lease_long, "a lease expires after three times its length") \
    X(commit_late, "every second turn is answered before it is committed") \
    X(log_unsynced, "logs aren't synced") \
    X(log_tail_kept, "the unsynced tail of a log that a power cut damaged counts as part of the log") \
    X(log_kept, "the server keeps all received bytes of logs in memory") \
    X(log_unmarked, "a log that was cut has no mark") \
    X(ballast_kept, "the ballast file isn't removed when the disk is full") \
    X(full_long, "a disk that was full is checked every 12 s only") \
    X(log_appended, "a piece of a log is appended whatever its offset") \
    X(memory_unchecked, "an allocation that fails isn't noticed") \
    X(jobs_not_adopted, "a restarted executor reports its running jobs as lost") \
    X(lock_ignored, "a data directory that is in use is opened again") \
    X(chain_unchecked, "verify doesn't compare the hashes of turns") \
    X(incarnation_kept, "a restored store keeps its incarnation") \
    X(standby_unwaited, "a commit that didn't wait for the synchronous standby is believed") \
    X(timeline_ignored, "a primary whose standby was promoted is believed") \
    X(events_unfollowed, "grants and ends by other servers aren't taken over") \
    X(token_unfollowed, "a token that another server has just created is refused") \
    X(revoked_trusted, "a token that was revoked at another server still writes") \
    X(incarnation_anew, "a store takes a new incarnation at every start") \
    X(leader_trusted, "the leader by ZooKeeper acts without an epoch of the store")

/* leaks, found by the soak (test/unit/engine/test_soak.c) */
#define PLANTS_LEAKS(X) \
    X(token_kept, "a token that has expired stays") \
    X(key_kept, "an idempotency key that has expired stays") \
    X(empty_slot_kept, "a slot stays when nobody is in it") \
    X(executor_kept, "an executor that no longer polls stays") \
    X(class_kept, "a class that no task needs stays") \
    X(poll_kept, "a parked poll never ends") \
    X(token_bytes_kept, "a removed token stays in memory") \
    X(caches_kept, "specs and definitions stay in memory until there are too many")

enum plant {
    PLANT_none,
#define X(name, text) PLANT_##name,
    PLANTS(X)
    PLANT_COUNT, /* followed by those of several servers */
    PLANT_several = PLANT_COUNT,
    PLANTS_SEVERAL(X)
    PLANT_several_end,
    PLANT_quotas = PLANT_several_end,
    PLANTS_QUOTAS(X)
    PLANT_quotas_end,
    PLANT_changesets = PLANT_quotas_end,
    PLANTS_CHANGESETS(X)
    PLANT_changesets_end,
    PLANTS_SERVER(X)
    PLANTS_LEAKS(X)
#undef X
};

#ifdef WEIR_PLANTED
extern enum plant plant_selected; /* the simulator's, or test/promises/planted.h's */
#define PLANT(name) (plant_selected == PLANT_##name)
#else
#define PLANT(name) false
#endif

#endif
