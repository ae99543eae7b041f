/* plant: bugs that are put in on purpose, to see that the simulator finds them (test/sim/README.md lists them), or the
 * tests of the promises (test/promises/README.md).
 *
 * PLANT(name) is constant false in every build but that of the simulator's and the soak's planted twins and
 * build-planted/ (WEIR_PLANTED), so that nothing of it is left in the server: the condition folds away. One bug at a
 * time: the simulator or the soak says which, or WEIR_PLANT. */
#ifndef WEIR_BASE_PLANT_H
#define WEIR_BASE_PLANT_H

#include <stdbool.h>

/* name, what is wrong then */
#define PLANTS(X) \
    X(fence_unchecked, "a finish by an older grant is accepted") \
    X(newest_grant, "a finish is booked on the newest grant, whichever it names") \
    X(renew_by_task, "a lease is renewed by the task's id alone") \
    X(slots_kept, "an ended task keeps its slots") \
    X(retry_no_recount, "a retry doesn't recount what its dependents wait for") \
    X(cancels_early, "the newer of a cancels edge starts before the older is dead") \
    X(ending_ignored, "a finish forgets that the task was to end") \
    X(wall_leases, "leases run by the wall clock") \
    X(no_new_watch, "leases aren't watched anew after the server stood still") \
    X(grant_not_returned, "a grant that did not arrive isn't taken back by the next poll") \
    X(idempotency_dropped, "idempotency keys aren't kept") \
    X(answer_early, "a commit of unknown outcome is answered as done") \
    X(unique_kept, "a unique key isn't given up at the end") \
    X(resume_once, "a resumed lane's second batch is forgotten") \
    X(hold_rows_left, "rows of lifted time holds are left") \
    X(clock_back, "back-offs aren't looked at when the wall clock was set back") \
    X(poll_overtaken, "a poll that was overtaken counts like the newest") \
    X(lapse_uncounted, "a lease that lapses before the job was named isn't counted") \
    X(forgetful_trusted, "an executor that has lost its memory is believed not to have begun a job") \
    X(late_poll_believed, "a poll that was sent before a grant was made takes it back") \
    X(no_replay, "the same poll again takes its grants back") \
    X(late_refused, "a late result is refused though nobody else has the task") \
    X(attempts_unlimited, "attempts aren't counted against the limit") \
    X(labels_ignored, "an executor gets what it doesn't fit") \
    X(prio_ignored, "priorities are ignored") \
    X(pause_ignored, "a paused lane's pending tasks are granted") \
    X(slot_overtake, "a newcomer takes a slot past those who wait") \
    X(depends_any_end, "any end of a dependency will do") \
    X(cancel_untold, "an executor isn't told of a cancel when it renews") \
    X(stale_untold, "an executor isn't told that its grant is stale") \
    X(unfair_lanes, "a lane's backlog isn't spread over virtual time") \
    X(wake_forgotten, "the next time hold isn't looked up after a turn") \
    X(slot_first_only, "of a slot's waiters with room only the first is looked at") \
    X(why_slots_late, "why names a slot only once the task waits in its queue") \
    X(why_supersedes_late, "why names what will be superseded only once that is being ended") \
    X(slots_unserved, "a task that no executor fits takes slots") \
    X(unserved_kept, "pending tasks keep their slots when the last executor that fits is lost") \
    X(wake_once, "of those who waited for an executor the second batch is forgotten") \
    X(slot_unwaited, "a freed slot's waiters aren't looked at") \
    X(class_early, "a class goes though a task of it is pending, or waits for an executor") \
    X(class_lost, "a class that has gone isn't made again for a task that needs it") \
    X(gap_ignored, "a revision is initialised before an earlier one is known") \
    X(prev_newest, "PREV is the newest revision's task, not the one before") \
    X(prev_forgotten, "a revision that waited behind a gap forgets what PREV means") \
    X(skip_unopened, "a gap that is given up opens nothing") \
    X(revision_twice, "a revision that waits isn't known when it is told again") \
    X(order_unlooked, "a retry goes before later revisions that have started") \
    X(lock_past_shared, "who takes the archive's lock alone doesn't wait for those who share it") \
    X(lock_not_handed_on, "a task that is stopped while it waits for the lock lets all behind it go") \
    X(slot_kept, "a slot of a schedule that comes late isn't moved on") \
    X(schedule_ahead, "a schedule's minute stays in the wrong future when the clock is put right") \
    X(schedule_unheard, "schedules of a newer workflow count after a restart only") \
    X(depth_ignored, "revisions made by jobs start jobs without an end") \
    X(why_lock_late, "why names the archive's lock only while its holder executes") \
    X(limit_overrun, "a semaphore that was lowered below its holders lets one more in") \
    X(limit_unheard, "a semaphore that is raised wakes nobody") \
    X(admits_forgotten, "waiters for whom a turn had no time are forgotten") \
    X(tells_forgotten, "those whom a turn had no time to tell of an end are forgotten") \
    X(returns_once, "of the dependents of what is retried the second batch is forgotten") \
    X(cancels_once, "of what a task supersedes the second batch is forgotten") \
    X(heirs_first_only, "what a stopped task leaves is handed on to those who are told at once, not to the others") \
    X(silence_once, "an executor that was heard when its silence was due isn't looked at again") \
    X(tells_unread, "whom a turn before has left to be told of an end is taken for told") \
    X(incarnation_unchecked, "a finish of another incarnation is accepted") \
    X(incarnation_each_poll, \
        "an executor that has seen more than the store knows makes all grants stale at each poll") \
    X(copies_forget, "a store that was restored believes that nothing granted had begun") \
    X(running_waits, "who runs and is lost waits for who queues for the lock behind it") \
    X(cancels_behind_lock, "a task that waits for the archive's lock doesn't cancel what it supersedes") \
    X(cancels_not_handed_on, "what a task was to cancel is forgotten when it ends before it was ready") \
    X(lock_shared_waits, "behind a stopped task shared locks wait for shared ones") \
    X(lock_replaced, "a task that isn't made because of its unique key takes the archive's lock") \
    X(prev_not_handed_on, "a task that is stopped while it waits for PREV lets the next revision go") \
    X(promotion_parked, "a pause forgets that a task was promoted") \
    X(unique_early, "a revision behind a gap takes its unique keys when it is told") \
    X(commit_unwaited, "who depends on another revision's task by its unique key doesn't wait for COMMIT") \
    X(touched_forgotten, "what a revision behind a gap touched is forgotten")

/* of several servers on one store: the simulator's worlds with --servers */
#define PLANTS_SEVERAL(X) \
    X(mark_unlooked, "a commit whose answer was lost is taken for lost without a look at the server's mark") \
    X(grants_unfollowed, "what another server granted isn't known here") \
    X(epoch_unchecked, "what was sent under an epoch that is over is accepted") \
    X(epoch_kept, "a duty is taken over without a new epoch") \
    X(duty_unlooked, "schedules fire whoever has the duty") \
    X(stale_kept, "a server that was away goes on with what it had in memory") \
    X(beats_unheard, "that another server hears an executor doesn't count") \
    X(served_unfollowed, "what another server heard of executors doesn't count for slots here") \
    X(slots_unfollowed, "who else has taken or given back a slot isn't known here") \
    X(recent_kept, "rows of tasks are remembered though another server has committed") \
    X(takeover_late, "a duty whose holder is gone is taken over after 10 s") \
    X(numbers_kept, "numbers of turns are used again after a commit of unknown outcome") \
    X(lanes_uncounted, "what a narrow turn moves isn't counted in its lane") \
    X(archive_unlocked, "two servers open revisions of one archive at once") \
    X(slot_unlocked, "two servers take and give back one slot at once") \
    X(specs_kept, "what a narrow turn that came to nothing would have written is taken for written")

/* of a tenant with quotas, and of pruning: the simulator's worlds with --quotas */
#define PLANTS_QUOTAS(X) \
    X(quota_by_call, "a call counts as one task, however many it brings") \
    X(quota_uncounted, "what a tenant had when the server started isn't counted") \
    X(why_quota_late, "why names the quota of running tasks only once the task waits for it") \
    X(prune_wanted, "what a task has left behind is pruned though a dependent hasn't ended") \
    X(prune_recent, "what has ended just now is pruned as if it were old") \
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

/* where the simulator doesn't come: files, processes, memory */
#define PLANTS_SERVER(X) \
    X(lease_long, "a lease lapses three times too late") \
    X(commit_late, "every second turn is answered before it is committed") \
    X(log_unsynced, "logs aren't synced") \
    X(log_tail_kept, "what a power cut left of a log's unsynced tail is taken for the log") \
    X(log_kept, "the server keeps in memory what it was sent of logs") \
    X(log_unmarked, "a log that was cut doesn't say so") \
    X(ballast_kept, "the ballast isn't given up when the disk is full") \
    X(full_long, "a disk that was full is looked at every 12 s only") \
    X(log_appended, "a piece of a log is appended whatever its offset") \
    X(memory_unchecked, "an allocation that fails isn't noticed") \
    X(jobs_not_adopted, "an executor that is started again takes its running jobs for lost") \
    X(lock_ignored, "a data directory that is in use is opened all the same") \
    X(chain_unchecked, "verify doesn't compare the hashes of turns") \
    X(incarnation_kept, "a restored store keeps its incarnation") \
    X(standby_unwaited, "a commit that didn't wait for the synchronous standby is believed") \
    X(timeline_ignored, "a primary whose standby was promoted is believed") \
    X(events_unfollowed, "who was granted or ended what elsewhere isn't taken over") \
    X(token_unfollowed, "a token that isn't known is refused without a look at what other servers made") \
    X(revoked_trusted, "a token that was revoked elsewhere still writes") \
    X(incarnation_anew, "a store takes a new incarnation at every start") \
    X(leader_trusted, "who leads by ZooKeeper acts without an epoch of the store")

/* what stays: the soak's (test/unit/engine/test_soak.c) */
#define PLANTS_LEAKS(X) \
    X(token_kept, "a token that has expired stays") \
    X(key_kept, "an idempotency key that has expired stays") \
    X(empty_slot_kept, "a slot stays when nobody is in it") \
    X(executor_kept, "an executor that nobody hears stays") \
    X(class_kept, "a class that nobody needs stays") \
    X(poll_kept, "a poll that waits for something to do has no end") \
    X(token_bytes_kept, "a token that has gone is still in memory") \
    X(caches_kept, "specs and definitions stay in memory until there are too many")

enum plant {
    PLANT_none,
#define X(name, text) PLANT_##name,
    PLANTS(X)
    PLANT_COUNT, /* behind it those of several servers */
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
