/* The engine's rules, each as a short story on virtual time. States are read from the store: what is checked is what
 * was committed. */
#include <stdio.h>
#include <string.h>

#include "rig.h"

#define RIG(rig) \
    __attribute__((cleanup(rig_close))) struct rig rig = { 0 }; \
    rig_open(&rig)

static struct fence granted(struct command *poll, size_t i)
{
    assert_true(poll->out.poll.n_grants > i);
    return poll->out.poll.grants[i].fence;
}

static void test_a_task_runs(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "one"), e = rig_executor(&rig, "e", NULL);
    assert_int_equal(rig_state(&rig, id), 'P');
    struct command *poll = rig_poll(&rig, e, 4);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(rig_state(&rig, id), 'X');
    assert_int_equal(rig_finish(&rig, granted(poll, 0), 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, id), 'D');
    assert_int_equal(rig_finish(&rig, granted(poll, 0), 0, -1), ERR_none);
    assert_int_equal(rig_finish(&rig, granted(poll, 0), 1, -1), ERR_already_finished);
    assert_int_equal(rig_state(&rig, id), 'D');
}

static void test_dependencies_pass_ends_on(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b depends=0", "c after=0", "d depends=1", "e after=1");
    int64_t e = rig_executor(&rig, "e", NULL);
    assert_string_equal(rig_states(&rig, id, 5), "PSSSS");
    struct command *poll = rig_poll(&rig, e, 1);
    rig_finish(&rig, granted(poll, 0), 1, -1);
    assert_string_equal(rig_states(&rig, id, 5), "FFPFP");
    assert_int_equal(rig_task(&rig, id + 1).cause, id);
    assert_int_equal(rig_task(&rig, id + 3).cause, id + 1);
}

static void test_a_late_edge_is_judged_by_the_end(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a"), e = rig_executor(&rig, "e", NULL);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 100, -1);
    assert_int_equal(rig_state(&rig, id), 'F');
    char refs[2][32];
    snprintf(refs[0], sizeof refs[0], "b depends=#%d", (int)id);
    snprintf(refs[1], sizeof refs[1], "c after=#%d", (int)id);
    int64_t later = ENQUEUE(&rig, refs[0], refs[1]);
    assert_string_equal(rig_states(&rig, later, 2), "FP");
}

static void test_nothing_to_run_is_done_when_ready(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "join kind=none depends=0", "last depends=1");
    int64_t e = rig_executor(&rig, "e", NULL);
    assert_string_equal(rig_states(&rig, id, 3), "PSS");
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 3), "DDP");
}

static void test_cancels_waits_until_the_older_is_dead(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "old"), e = rig_executor(&rig, "e", NULL);
    struct fence old = granted(rig_poll(&rig, e, 1), 0);
    char word[32];
    snprintf(word, sizeof word, "new cancels=#%d", (int)id);
    int64_t newer = ENQUEUE(&rig, word);
    assert_int_equal(rig_state(&rig, id), 'X');
    assert_int_equal(rig_task(&rig, id).ending, STATE_A);
    assert_int_equal(rig_state(&rig, newer), 'S');
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 0, -1, &old, 1));
    assert_int_equal(poll->out.poll.n_cancels, 1);
    assert_string_equal(poll->out.poll.cancels[0].signal, "HUP");
    assert_int_equal(rig_finish(&rig, old, 0, -1), ERR_none); /* it came to a good end, but nobody wants it */
    assert_int_equal(rig_state(&rig, id), 'A');
    assert_int_equal(rig_state(&rig, newer), 'P');
}

static void test_cancels_are_inherited(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "one"), e = rig_executor(&rig, "e", NULL);
    struct fence one = granted(rig_poll(&rig, e, 1), 0);
    char word[32];
    snprintf(word, sizeof word, "two cancels=#%d", (int)id);
    int64_t two = ENQUEUE(&rig, word);
    snprintf(word, sizeof word, "three cancels=#%d", (int)two);
    int64_t three = ENQUEUE(&rig, word);
    assert_int_equal(rig_state(&rig, two), 'A');
    assert_int_equal(rig_state(&rig, three), 'S'); /* `one` still runs */
    rig_finish(&rig, one, -1, 1);
    assert_int_equal(rig_state(&rig, id), 'A');
    assert_int_equal(rig_state(&rig, three), 'P');
}

static void test_exit_statuses(void **state)
{
    (void)state;
    RIG(rig);
    static const struct {
        int64_t exit, signal;
        char state;
        enum outcome outcome;
    } cases[] = {
        { 0, -1, 'D', OUTCOME_done },
        { 99, -1, 'D', OUTCOME_skipped },
        { 100, -1, 'F', OUTCOME_permanent },
        { 1, -1, 'F', OUTCOME_failed },
        { 111, -1, 'S', OUTCOME_none },
        { -1, 15, 'T', OUTCOME_cancelled },
        { -1, 1, 'A', OUTCOME_cancelled },
        { -1, 9, 'P', OUTCOME_none },
    };
    int64_t e = rig_executor(&rig, "e", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t id = ENQUEUE(&rig, "t prio=1000");
        rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), cases[i].exit, cases[i].signal);
        assert_int_equal(rig_state(&rig, id), cases[i].state);
        assert_int_equal(rig_task(&rig, id).outcome, cases[i].outcome);
        if (cases[i].state == 'P')
            rig_order(&rig, CMD_CANCEL, id);
    }
}

static void test_back_off_doubles_and_ends(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = rig_executor(&rig, "e", NULL);
    static const int64_t waits[] = { 5000, 10000 };
    for (size_t i = 0; i < 2; i++) {
        rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 111, -1);
        assert_int_equal(rig_state(&rig, id), 'S');
        assert_int_equal(rig_task(&rig, id).not_before - rig.wall, waits[i]);
        rig_pass(&rig, waits[i] - 2);
        assert_int_equal(rig_state(&rig, id), 'S');
        rig_pass(&rig, 10);
        assert_int_equal(rig_state(&rig, id), 'P');
    }
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 111, -1);
    assert_int_equal(rig_state(&rig, id), 'F');
    assert_int_equal(rig_task(&rig, id).attempts, 3);
}

static void test_a_silent_executor_loses_its_task(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e1 = rig_executor(&rig, "e1", NULL), e2 = rig_executor(&rig, "e2", NULL);
    struct fence first = granted(rig_poll(&rig, e1, 1), 0);
    rig_pass(&rig, 2990);
    assert_int_equal(rig_state(&rig, id), 'X');
    rig_pass(&rig, 20);
    assert_int_equal(rig_state(&rig, id), 'P');
    struct fence second = granted(rig_poll(&rig, e2, 1), 0);
    assert_int_equal(second.grant, 2);
    assert_int_equal(rig_finish(&rig, first, 0, -1), ERR_stale_fence);
    assert_int_equal(rig_state(&rig, id), 'X');
    assert_int_equal(rig_finish(&rig, second, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, id), 'D');
}

static void test_a_late_result_counts_while_nobody_else_has_it(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t", "u depends=0", "v attempts=1"), e = rig_executor(&rig, "e", NULL);
    struct command *poll = rig_poll(&rig, e, 2);
    struct fence t = granted(poll, 0), v = granted(poll, 1);
    rig_pass(&rig, 3100);
    assert_string_equal(rig_states(&rig, id, 3), "PSF"); /* v has no attempt left */
    assert_int_equal(rig_finish(&rig, t, 0, -1), ERR_none);
    assert_int_equal(rig_finish(&rig, v, 0, -1), ERR_none);
    assert_string_equal(rig_states(&rig, id, 3), "DPD");
}

static void test_renewing_keeps_and_revives(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = rig_executor(&rig, "e", NULL);
    struct fence t = granted(rig_poll(&rig, e, 1), 0);
    for (int i = 0; i < 5; i++) {
        rig_pass(&rig, 2000);
        rig_one(&rig, rig_poll_command(&rig, e, 0, -1, &t, 1));
        assert_int_equal(rig_state(&rig, id), 'X');
    }
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, id), 'P');
    /* it comes back, nobody else was given the task */
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 1, -1, &t, 1));
    assert_int_equal(poll->out.poll.n_cancels, 0);
    assert_int_equal(poll->out.poll.n_grants, 0);
    assert_int_equal(rig_state(&rig, id), 'X');
    assert_int_equal(rig_task(&rig, id).grant, 1);
}

static void test_a_lost_answer_burns_no_attempt(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = rig_executor(&rig, "e", NULL);
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0));
    struct fence t = granted(poll, 0);
    poll = rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0)); /* the same number: the same grants */
    assert_int_equal(granted(poll, 0).grant, t.grant);
    poll = rig_one(&rig, rig_poll_command(&rig, e, 0, 8, NULL, 0)); /* the next number without it: it never arrived */
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).attempts, 0);
    poll = rig_one(&rig, rig_poll_command(&rig, e, 1, 9, NULL, 0));
    assert_int_equal(granted(poll, 0).grant, 2);
    assert_int_equal(rig_task(&rig, id).attempts, 1);
}

static void test_a_restart_forgets_nothing(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t", "u depends=0 sem=s", "w at=5000"), e = rig_executor(&rig, "e", NULL);
    struct fence t = granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 3, NULL, 0)), 0);
    rig_restart(&rig);
    /* it lost the answer: the grant comes again */
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 1, 3, NULL, 0));
    assert_int_equal(granted(poll, 0).grant, t.grant);
    assert_int_equal(rig_finish(&rig, t, 0, -1), ERR_none);
    assert_string_equal(rig_states(&rig, id, 3), "DPS");
    rig_restart(&rig);
    rig_turn(&rig, NULL, 0);
    rig_pass(&rig, 2000);
    rig_poll(&rig, e, 0);
    rig_pass(&rig, 2900);
    rig_poll(&rig, e, 0);
    rig_pass(&rig, 200);
    assert_string_equal(rig_states(&rig, id, 3), "DPP");
}

static void test_semaphores_are_fair_and_all_or_none(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL), id = ENQUEUE(&rig, "a sem=x", "b sem=x,y", "c sem=y", "d sem=x prio=5");
    /* b waits for x, so c, who came later, does not pass it at y */
    assert_string_equal(rig_states(&rig, id, 4), "PSSS");
    rig_finish(&rig, granted(rig_poll(&rig, e, 4), 0), 0, -1);
    /* d has the larger priority and goes first at x */
    assert_string_equal(rig_states(&rig, id, 4), "DSSP");
    rig_finish(&rig, granted(rig_poll(&rig, e, 4), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 4), "DPSD");
    rig_finish(&rig, granted(rig_poll(&rig, e, 4), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 4), "DDPD");
}

/* Who waits for two slots keeps a unit of each; the others of a slot with more room don't wait behind it. */
static void test_a_slot_with_room_is_not_kept_by_who_waits_for_another(void **state)
{
    (void)state;
    RIG(rig);
    rig.semaphores[rig.n_semaphores++] = (struct conf_semaphore){ STR("two"), 2 };
    rig_restart(&rig);
    int64_t id = ENQUEUE(&rig, "holder sem=s", "both sem=s,two", "a sem=two", "b sem=two"),
            e = rig_executor(&rig, "e", NULL);
    assert_string_equal(rig_states(&rig, id, 4), "PSPS"); /* one unit of two is kept for `both` */
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 4), "DPPS");
}

static void test_who_is_paused_lets_others_have_the_slot(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "holder sem=s", "a queue=q sem=s", "b sem=s"), e = rig_executor(&rig, "e", NULL);
    rig_pause(&rig, "q", true);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 3), "DSP");
    rig_pause(&rig, "q", false);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 3), "DPD");
}

static void test_nothing_to_run_takes_no_slot(void **state)
{
    (void)state;
    RIG(rig);
    rig_executor(&rig, "e", NULL);
    int64_t id = ENQUEUE(&rig, "holder sem=s", "gate kind=none sem=s", "next depends=1");
    assert_string_equal(rig_states(&rig, id, 3), "PDP");
}

static void test_declared_semaphores_have_their_limit(void **state)
{
    (void)state;
    __attribute__((cleanup(rig_close))) struct rig rig = { .semaphores = { { STR("lic"), 2 } }, .n_semaphores = 1 };
    rig_open(&rig);
    rig_executor(&rig, "e", NULL);
    int64_t id = ENQUEUE(&rig, "a sem=lic", "b sem=lic", "c sem=lic");
    assert_string_equal(rig_states(&rig, id, 3), "PPS");
    rig.semaphores[0].limit = 3;
    rig_restart(&rig);
    assert_string_equal(rig_states(&rig, id, 3), "PPP");
    rig_order(&rig, CMD_CANCEL, id);
    int64_t more = ENQUEUE(&rig, "d sem=lic conc=k", "e conc=k");
    assert_string_equal(rig_states(&rig, more, 2), "PS");
}

static void test_pause_parks_and_resume_returns(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a queue=q", "b queue=q", "c"), e = rig_executor(&rig, "e", NULL);
    rig_pause(&rig, "q", true);
    struct command *poll = rig_poll(&rig, e, 4);
    assert_int_equal(poll->out.poll.n_grants, 1); /* c alone */
    assert_string_equal(rig_states(&rig, id, 3), "SSX");
    int64_t later = ENQUEUE(&rig, "d queue=q");
    assert_int_equal(rig_state(&rig, later), 'S');
    rig_pause(&rig, "all", true);
    rig_pause(&rig, "q", false);
    assert_string_equal(rig_states(&rig, id, 2), "SS");
    rig_pause(&rig, "all", false);
    assert_string_equal(rig_states(&rig, id, 2), "PP");
    assert_int_equal(rig_state(&rig, later), 'P');
}

static void test_cancel(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b depends=0", "c"), e = rig_executor(&rig, "e", NULL);
    struct fence a = granted(rig_poll(&rig, e, 1), 0);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id + 2), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id), ERR_none);
    assert_string_equal(rig_states(&rig, id, 3), "XST");
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id + 2), ERR_already_ended);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, 999), ERR_not_found);
    rig_finish(&rig, a, 0, -1); /* a cancelled task whose process exits 0 is T */
    assert_string_equal(rig_states(&rig, id, 3), "TFT");
}

static void test_a_cancelled_task_of_a_lost_executor_ends(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a"), e = rig_executor(&rig, "e", NULL);
    struct fence a = granted(rig_poll(&rig, e, 1), 0);
    rig_order(&rig, CMD_CANCEL, id);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, id), 'T');
    assert_int_equal(rig_finish(&rig, a, 0, -1), ERR_already_ended);
    assert_int_equal(rig_state(&rig, id), 'T');
}

static void test_retry_takes_dependents_along(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b depends=0", "c depends=1", "d after=0"), e = rig_executor(&rig, "e", NULL);
    assert_int_equal(rig_order(&rig, CMD_RETRY, id), ERR_not_ended);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    assert_string_equal(rig_states(&rig, id, 4), "FFFP");
    assert_int_equal(rig_order(&rig, CMD_RETRY, id + 1), ERR_conflict); /* its dependency has to be retried */
    assert_int_equal(rig_order(&rig, CMD_RETRY, id), ERR_none);
    assert_string_equal(rig_states(&rig, id, 4), "PSSS"); /* d had not started: the order is kept */
    struct command *poll = rig_poll(&rig, e, 4);
    assert_int_equal(poll->out.poll.n_grants, 1);
    rig_finish(&rig, granted(poll, 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 4), "DPSP");
    assert_int_equal(rig_order(&rig, CMD_RETRY, id), ERR_already_ended);
}

/* --- found by the simulator --- */

static void test_a_retry_does_not_wait_for_another_failed_dependency(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b", "c depends=0,1"), e = rig_executor(&rig, "e", NULL);
    struct command *poll = rig_poll(&rig, e, 2);
    rig_finish(&rig, granted(poll, 0), 1, -1);
    rig_finish(&rig, granted(poll, 1), 1, -1);
    assert_string_equal(rig_states(&rig, id, 3), "FFF");
    rig_order(&rig, CMD_RETRY, id);
    assert_string_equal(rig_states(&rig, id, 3), "PFF"); /* b has failed too */
}

static void test_a_larger_priority_with_room_does_not_wait_for_a_release(void **state)
{
    (void)state;
    __attribute__((cleanup(rig_close))) struct rig rig = { .semaphores = { { STR("two"), 2 } }, .n_semaphores = 1 };
    rig_open(&rig);
    rig_executor(&rig, "e", NULL);
    int64_t id = ENQUEUE(&rig, "holder sem=one", "both sem=one,two", "n1 sem=two prio=9", "n2 sem=two prio=9");
    assert_string_equal(rig_states(&rig, id, 4), "PSPP");
}

static void test_who_waits_for_a_retried_task_keeps_no_slot(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a sem=s", "b after=0 sem=s", "c sem=s prio=-1"), e = rig_executor(&rig, "e", NULL);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    assert_string_equal(rig_states(&rig, id, 3), "FPS");
    rig_order(&rig, CMD_RETRY, id); /* b goes back behind a; a and b want the same semaphore */
    assert_string_equal(rig_states(&rig, id, 3), "PSS");
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 3), "DPS");
}

static void test_a_back_off_is_not_stretched_by_the_clock(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a"), e = rig_executor(&rig, "e", NULL);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 111, -1);
    rig.wall -= 86400000; /* the clock is set back by a day */
    rig_turn(&rig, NULL, 0);
    rig_pass(&rig, 5100);
    assert_int_equal(rig_state(&rig, id), 'P');
}

static void test_a_result_of_a_grant_that_was_never_named_counts(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = rig_executor(&rig, "e", NULL);
    struct fence t = granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0)), 0);
    rig_pass(&rig, 3001); /* the link was cut right after the answer: nobody knows whether it has begun */
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).attempts - rig_task(&rig, id).base, 1);
    assert_int_equal(rig_finish(&rig, t, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, id), 'D');
}

static void test_a_late_result_leaves_no_hold_behind(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t queue=q"), e = rig_executor(&rig, "e", NULL);
    struct fence t = granted(rig_poll(&rig, e, 1), 0);
    rig_pause(&rig, "q", true);
    rig_pass(&rig, 3001);
    rig_poll(&rig, e, 1);
    assert_int_equal(rig_state(&rig, id), 'S');             /* parked */
    assert_int_equal(rig_finish(&rig, t, -1, 9), ERR_none); /* killed: another attempt */
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).holds, 0);
}

static void test_who_waits_behind_an_edge_is_not_parked(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b queue=q after=0"), e = rig_executor(&rig, "e", NULL);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    rig_pause(&rig, "q", true);
    rig_poll(&rig, e, 1);
    assert_string_equal(rig_states(&rig, id, 2), "FS");
    rig_order(&rig, CMD_RETRY, id);
    assert_int_equal(rig_task(&rig, id + 1).holds, 0); /* else a resumed lane would look at it again and again */
}

static void test_a_promoted_task_is_first_in_the_same_turn(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b"), e = rig_executor(&rig, "e", NULL);
    struct command *promote = rig_new(&rig, CMD_PROMOTE), *poll = rig_poll_command(&rig, e, 1, -1, NULL, 0);
    promote->in.task.task = id + 1;
    rig_turn(&rig, (struct command *[]){ promote, poll }, 2);
    assert_int_equal(granted(poll, 0).task, id + 1);
}

static void test_a_unique_key_given_up_is_not_reclaimed_in_the_same_turn(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a unique=k");
    struct command *cancel = rig_new(&rig, CMD_CANCEL), *retry = rig_new(&rig, CMD_RETRY);
    struct command *other = rig_enqueue_command(&rig, (const char *const[]){ "b unique=k" }, 1);
    cancel->in.task.task = retry->in.task.task = id;
    rig_turn(&rig, (struct command *[]){ cancel, other, retry }, 3);
    assert_int_equal(retry->err.code, ERR_none);
    assert_int_equal(rig_task(&rig, id).unique.len, 0);
    assert_int_equal(rig_task(&rig, other->out.enqueue.tasks[0].task.id).unique.len, 1);
}

static void test_who_is_retried_is_not_superseded_again(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "holder sem=s", "old", "new cancels=1 sem=s"), e = rig_executor(&rig, "e", NULL);
    assert_string_equal(rig_states(&rig, id, 3), "PAS");
    rig_order(&rig, CMD_RETRY, id + 1);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 3), "DPP");
}

static void test_a_poll_of_an_earlier_life_says_nothing_about_numbers(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct command *old = rig_poll_command(&rig, e, 1, 500, NULL, 0);
    old->in.poll.wait_ms = 900;
    rig_turn(&rig, &old, 1);
    assert_int_equal(rig_executor(&rig, "e", NULL), e); /* started anew; the old poll is answered */
    ENQUEUE(&rig, "t");
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 1, 3, NULL, 0));
    assert_int_equal(poll->out.poll.n_grants, 1);
}

static int64_t registered(struct rig *rig, const char *memory)
{
    struct command *command = rig_new(rig, CMD_REGISTER);
    command->in.reg.executor = (struct executor){
        .name = STR("m"), .instance = STR("i"), .slots = 4, .kinds = 1u << KIND_COMMAND, .state = EXECUTOR_ACTIVE
    };
    command->in.reg.memory = str_of(memory);
    return rig_one(rig, command)->out.reg.id;
}

/* Bug 16: the same poll, come late to a server that was restarted, took back what had arrived. */
static void test_an_old_poll_takes_nothing_back_whoever_was_restarted(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = rig_executor(&rig, "e", NULL);
    rig_one(&rig, rig_poll_command(&rig, e, 0, 6, NULL, 0));
    struct fence t = granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 8, NULL, 0)), 0);
    rig_restart(&rig);
    rig_one(&rig, rig_poll_command(&rig, e, 0, 7, NULL, 0)); /* sent before the grant: it says nothing about it */
    assert_int_equal(rig_state(&rig, id), 'X');
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 1, 8, NULL, 0)); /* the same one: it comes again */
    assert_int_equal(granted(poll, 0).grant, t.grant);
    rig_one(&rig, rig_poll_command(&rig, e, 0, 10, &t, 1));
    rig_executor(&rig, "e", NULL); /* registered anew: numbers are compared with grants, not with lives */
    rig_one(&rig, rig_poll_command(&rig, e, 0, 7, NULL, 0));
    assert_int_equal(rig_state(&rig, id), 'X');
    rig_restart(&rig);
    rig_one(&rig, rig_poll_command(&rig, e, 0, 11, NULL, 0)); /* and this one was sent after it */
    assert_int_equal(rig_state(&rig, id), 'P');
}

/* R11: an executor that was started anew gives back at once what it was granted and had not begun. */
static void test_a_restarted_executor_returns_what_it_had_not_begun(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = registered(&rig, "boot 1");
    rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0));
    registered(&rig, "boot 1"); /* on the records that it had: what it doesn't name has not begun */
    rig_one(&rig, rig_poll_command(&rig, e, 0, 100, NULL, 0));
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).attempts, 0);
}

/* R1: what may have begun counts, without waiting for the lease. */
static void test_a_job_whose_executor_forgot_it_counts(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = registered(&rig, "boot 1");
    rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0));
    registered(&rig, "boot 2"); /* the host went down: there are no records of what it had begun */
    rig_restart(&rig);          /* and whoever hears the next poll knows it all the same */
    rig_one(&rig, rig_poll_command(&rig, e, 0, 100, NULL, 0));
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).attempts, 1);
    struct fence t = granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 101, NULL, 0)), 0);
    rig_one(&rig, rig_poll_command(&rig, e, 0, 102, &t, 1));
    rig_one(&rig, rig_poll_command(&rig, e, 0, 103, NULL, 0)); /* it had it, and has it no more */
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).attempts, 2);
}

static void test_a_lease_that_lapses_as_it_is_renewed_is_kept(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = rig_executor(&rig, "e", NULL);
    struct fence t = granted(rig_poll(&rig, e, 1), 0);
    rig.boot += 3000; /* no turn in between: the lapse and the renewal meet in one */
    rig.wall += 3000;
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 0, -1, &t, 1));
    assert_int_equal(poll->out.poll.n_cancels, 0);
    assert_int_equal(rig_state(&rig, id), 'X');
    assert_int_equal(rig_task(&rig, id).grant, 1);
}

static void test_waiters_keep_their_order_over_turns(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "holder sem=s", "a sem=s", "b sem=s", "c sem=s"), e = rig_executor(&rig, "e", NULL);
    rig_pause(&rig, "all", true);
    rig_pause(&rig, "all", false);
    int64_t late = ENQUEUE(&rig, "late sem=s");
    for (int i = 0; i < 4; i++)
        rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_string_equal(rig_states(&rig, id, 4), "DDDD");
    assert_int_equal(rig_state(&rig, late), 'P');
}

static void test_unique_is_one_until_it_starts(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a unique=k"), e = rig_executor(&rig, "e", NULL);
    struct command *again =
        rig_one(&rig, rig_enqueue_command(&rig, (const char *const[]){ "a unique=k", "b unique=k", "c depends=1" }, 3));
    assert_int_equal(again->out.enqueue.tasks[0].task.id, id);
    assert_int_equal(again->out.enqueue.tasks[1].task.id, id);
    assert_true(again->out.enqueue.tasks[2].task.id != id);
    rig_poll(&rig, e, 1);
    int64_t second = ENQUEUE(&rig, "a unique=k");
    assert_true(second != id);
    struct command *cancel = rig_new(&rig, CMD_CANCEL),
                   *third = rig_enqueue_command(&rig, (const char *const[]){ "a unique=k" }, 1);
    cancel->in.task.task = second;
    rig_turn(&rig, (struct command *[]){ cancel, third }, 2); /* given up and taken in one turn */
    assert_true(third->out.enqueue.tasks[0].task.id != second);
    assert_int_equal(rig_one(&rig, rig_enqueue_command(&rig, (const char *const[]){ "a unique=k" }, 1))
                         ->out.enqueue.tasks[0]
                         .task.id,
        third->out.enqueue.tasks[0].task.id);
}

static void test_a_retry_counts_on_and_has_all_its_attempts(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a attempts=2"), e = rig_executor(&rig, "e", NULL);
    for (int64_t round = 0; round < 2; round++) {
        rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), -1, 9);
        assert_int_equal(rig_state(&rig, id), 'P');
        rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), -1, 9);
        assert_int_equal(rig_state(&rig, id), 'F');
        /* numbers aren't used twice: logs are found by them */
        assert_int_equal(rig_task(&rig, id).attempts, 2 + 2 * round);
        assert_int_equal(rig_order(&rig, CMD_RETRY, id), ERR_none);
    }
}

static void test_idempotency(void **state)
{
    (void)state;
    RIG(rig);
    struct command *first = rig_enqueue_command(&rig, (const char *const[]){ "a", "b" }, 2),
                   *twin = rig_enqueue_command(&rig, (const char *const[]){ "a", "b" }, 2);
    first->idempotency.key = twin->idempotency.key = STR("key-1");
    first->idempotency.route = twin->idempotency.route = STR("POST /v1/tasks");
    first->idempotency.body_hash[0] = twin->idempotency.body_hash[0] = 42;
    rig_turn(&rig, (struct command *[]){ first, twin }, 2); /* both in one turn */
    assert_false(first->replay);
    assert_true(twin->replay);
    assert_int_equal(twin->out.enqueue.tasks[1].task.id, first->out.enqueue.tasks[1].task.id);
    rig_restart(&rig);
    twin->replay = false;
    rig_one(&rig, twin);
    assert_true(twin->replay);
    assert_int_equal(twin->status, 201);
    assert_int_equal(twin->out.enqueue.tasks[0].task.id, first->out.enqueue.tasks[0].task.id);
    assert_int_equal(twin->out.enqueue.tasks[0].task.state, STATE_P);
    twin->idempotency.body_hash[0] = 43;
    assert_int_equal(rig_one(&rig, twin)->err.code, ERR_idempotency_mismatch);
}

/* Registrations and tokens answer a key as intake does; nothing begins a second time. */
static void test_every_creation_knows_its_key(void **state)
{
    (void)state;
    RIG(rig);
    struct command *first = rig_new(&rig, CMD_REGISTER), *twin = rig_new(&rig, CMD_REGISTER);
    first->in.reg.executor = twin->in.reg.executor = (struct executor){
        .name = STR("e"), .instance = STR("i"), .slots = 2, .kinds = 1u << KIND_COMMAND, .state = EXECUTOR_ACTIVE
    };
    first->idempotency.key = twin->idempotency.key = STR("reg-1");
    first->idempotency.route = twin->idempotency.route = STR("POST /v1/executors");
    rig_one(&rig, first);
    ENQUEUE(&rig, "t");
    struct fence t = granted(rig_one(&rig, rig_poll_command(&rig, first->out.reg.id, 1, 7, NULL, 0)), 0);
    rig_one(&rig, twin);
    assert_true(twin->replay);
    assert_int_equal(twin->status, 201);
    assert_int_equal(twin->out.reg.id, first->out.reg.id);
    assert_int_equal(twin->out.reg.lease_ms, first->out.reg.lease_ms);
    /* its numbers go on */
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, first->out.reg.id, 1, 7, NULL, 0));
    assert_int_equal(granted(poll, 0).grant, t.grant);
    twin->idempotency.body_hash[0] = 1;
    assert_int_equal(rig_one(&rig, twin)->err.code, ERR_idempotency_mismatch);

    struct command *token = rig_new(&rig, CMD_TOKEN_CREATE), *again = rig_new(&rig, CMD_TOKEN_CREATE);
    token->in.token_create.token = again->in.token_create.token = (struct token){
        .name = STR("ci"), .tenant = STR("default"), .scopes = 1, .expires = rig.wall + 5000, .hash = { 1 }
    };
    token->in.token_create.seed[0] = 11;
    token->in.token_create.seed[1] = UINT64_MAX;
    again->in.token_create.token.expires++; /* '90d' is later now */
    token->idempotency.key = again->idempotency.key = STR("tok-1");
    token->idempotency.route = again->idempotency.route = STR("POST /v1/tokens");
    rig_turn(&rig, (struct command *[]){ token, again }, 2); /* both in one turn */
    rig_restart(&rig);
    for (int i = 0; i < 2; i++, rig_one(&rig, again)) {
        assert_int_equal(again->err.code, ERR_none);
        assert_true(again->replay);
        assert_int_equal(again->out.token_create.id, token->out.token_create.id);
        assert_int_equal(again->out.token_create.expires, token->in.token_create.token.expires);
        assert_true(again->out.token_create.seed[0] == 11 && again->out.token_create.seed[1] == UINT64_MAX);
    }
    again->idempotency.key = STR("tok-2");
    assert_int_equal(rig_one(&rig, again)->err.code, ERR_name_taken);
    again->idempotency.key = STR("tok-1"); /* what was refused is not kept, what was done is */
    assert_true(rig_one(&rig, again)->replay);
}

static void test_refusals_change_nothing(void **state)
{
    (void)state;
    RIG(rig);
    int64_t before = engine_seq(rig.engine);
    struct command *bad = rig_one(
        &rig, rig_enqueue_command(&rig, (const char *const[]){ "a depends=2", "b depends=0", "c depends=1" }, 3));
    assert_int_equal(bad->err.code, ERR_cycle);
    assert_non_null(strstr(bad->err.text, "a -> c -> b -> a"));
    bad = rig_one(&rig, rig_enqueue_command(&rig, (const char *const[]){ "a depends=#77" }, 1));
    assert_int_equal(bad->err.code, ERR_unknown_task);
    assert_true(str_eqz(bad->err.items[0].path, "/tasks/0/depends/0"));
    bad = rig_one(&rig, rig_enqueue_command(&rig, (const char *const[]){ "a", "b depends=0 cancels=0" }, 2));
    assert_int_equal(bad->err.code, ERR_invalid);
    assert_int_equal(rig_finish(&rig, (struct fence){ 1, 1, 1 }, 0, -1), ERR_stale_fence);
    assert_int_equal(engine_seq(rig.engine), before);
}

static void test_order_is_priority_then_fair_share(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a1 queue=a", "a2 queue=a", "a3 queue=a", "b1 queue=b", "u queue=b prio=9"),
            e = rig_executor(&rig, "e", NULL);
    static const int64_t want[] = { 4, 0, 3, 1, 2 };
    struct command *poll = rig_poll(&rig, e, 9);
    assert_int_equal(poll->out.poll.n_grants, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(granted(poll, i).task - id, want[i]);
}

static void test_labels_choose_the_executor(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a label=os:linux", "b");
    int64_t plain = rig_executor(&rig, "plain", NULL), linux_ = rig_executor(&rig, "linux", "os:linux");
    struct command *poll = rig_poll(&rig, plain, 4);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(granted(poll, 0).task, id + 1);
    assert_int_equal(granted(rig_poll(&rig, linux_, 4), 0).task, id);
}

static void test_a_parked_poll_gets_work_in_the_turn_that_brings_it(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct command *poll = rig_poll_command(&rig, e, 2, 1, NULL, 0);
    poll->in.poll.wait_ms = 900;
    rig_one(&rig, poll);
    assert_null(rig.answered.first);
    int64_t id = ENQUEUE(&rig, "a", "b", "c");
    assert_true(poll->answered);
    assert_int_equal(poll->out.poll.n_grants, 2);
    assert_string_equal(rig_states(&rig, id, 3), "XXP");
    struct fence two[2] = { granted(poll, 0), granted(poll, 1) };
    struct command *wait = rig_poll_command(&rig, e, 0, 2, two, 2);
    wait->in.poll.wait_ms = 900;
    rig_one(&rig, wait);
    assert_false(wait->answered);
    rig_order(&rig, CMD_CANCEL, id);
    assert_true(wait->answered);
    assert_int_equal(wait->out.poll.n_cancels, 1);
    assert_string_equal(wait->out.poll.cancels[0].signal, "TERM");
    wait = rig_poll_command(&rig, e, 0, 3, two, 2);
    wait->in.poll.wait_ms = 900;
    rig_one(&rig, wait);
    assert_int_equal(wait->out.poll.n_cancels, 1); /* said again until it has ended */
}

static void test_polls_that_overtake_each_other_within_a_turn(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a"), e = rig_executor(&rig, "e", NULL);
    rig_one(&rig, rig_poll_command(&rig, e, 0, 1, NULL, 0));
    struct command *newer = rig_poll_command(&rig, e, 1, 3, NULL, 0), *older = rig_poll_command(&rig, e, 1, 2, NULL, 0);
    rig_turn(&rig, (struct command *[]){ newer, older }, 2);
    assert_int_equal(older->out.poll.n_grants, 0);
    struct fence a = granted(newer, 0);
    assert_int_equal(a.task, id);
    rig_one(&rig, rig_poll_command(&rig, e, 1, 4, NULL, 0)); /* it was remembered: not named, it never arrived */
    assert_int_equal(rig_task(&rig, id).grant, 2);
}

static void test_ten_thousand_in_a_chain(void **state)
{
    (void)state;
    RIG(rig);
    enum { N = 10000 };
    const char **words = ARENA_ARRAY(&rig.arena, const char *, N);
    for (size_t i = 0; i < N; i++) {
        struct str s =
            i ? str_fmt(&rig.arena, "t%zu kind=none depends=%zu%c", i, i - 1, 0) : str_fmt(&rig.arena, "t0%c", 0);
        words[i] = s.ptr;
    }
    int64_t id = rig_enqueue(&rig, words, N), e = rig_executor(&rig, "e", NULL);
    /* the end of one settles all, without recursion, in batches */
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    for (int i = 0; i < 12 && rig.next <= rig.boot; i++)
        rig_turn(&rig, NULL, 0);
    assert_int_equal(rig_state(&rig, id + N - 1), 'D');
}

static void test_executor_names_and_states(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    assert_int_equal(rig_executor(&rig, "e", NULL), e);
    struct command *order = rig_new(&rig, CMD_EXECUTOR_STATE);
    order->in.executor_state.executor = e;
    order->in.executor_state.state = EXECUTOR_PAUSED;
    rig_one(&rig, order);
    ENQUEUE(&rig, "a");
    assert_int_equal(rig_poll(&rig, e, 1)->out.poll.n_grants, 0);
    order->in.executor_state.state = EXECUTOR_ACTIVE;
    rig_one(&rig, order);
    assert_int_equal(rig_poll(&rig, e, 1)->out.poll.n_grants, 1);
    assert_int_equal(rig_poll(&rig, 99, 1)->err.code, ERR_not_found);
}

static void test_a_poll_hears_of_all_that_are_to_end(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b", "c", "d", "e"), e = rig_executor(&rig, "e", NULL);
    struct command *poll = rig_poll(&rig, e, 5);
    struct fence fences[5];
    for (size_t i = 0; i < 5; i++)
        fences[i] = granted(poll, i);
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(rig_order(&rig, CMD_CANCEL, id + i), ERR_none);
    poll = rig_one(&rig, rig_poll_command(&rig, e, 0, -1, fences, 5));
    assert_int_equal(poll->out.poll.n_cancels, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(poll->out.poll.cancels[i].fence.task, fences[i].task);
        assert_string_equal(poll->out.poll.cancels[i].signal, "TERM");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_task_runs),
        cmocka_unit_test(test_a_poll_hears_of_all_that_are_to_end),
        cmocka_unit_test(test_dependencies_pass_ends_on),
        cmocka_unit_test(test_a_late_edge_is_judged_by_the_end),
        cmocka_unit_test(test_nothing_to_run_is_done_when_ready),
        cmocka_unit_test(test_cancels_waits_until_the_older_is_dead),
        cmocka_unit_test(test_cancels_are_inherited),
        cmocka_unit_test(test_exit_statuses),
        cmocka_unit_test(test_back_off_doubles_and_ends),
        cmocka_unit_test(test_a_silent_executor_loses_its_task),
        cmocka_unit_test(test_a_late_result_counts_while_nobody_else_has_it),
        cmocka_unit_test(test_renewing_keeps_and_revives),
        cmocka_unit_test(test_a_lost_answer_burns_no_attempt),
        cmocka_unit_test(test_a_restart_forgets_nothing),
        cmocka_unit_test(test_semaphores_are_fair_and_all_or_none),
        cmocka_unit_test(test_a_slot_with_room_is_not_kept_by_who_waits_for_another),
        cmocka_unit_test(test_who_is_paused_lets_others_have_the_slot),
        cmocka_unit_test(test_nothing_to_run_takes_no_slot),
        cmocka_unit_test(test_declared_semaphores_have_their_limit),
        cmocka_unit_test(test_pause_parks_and_resume_returns),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_a_cancelled_task_of_a_lost_executor_ends),
        cmocka_unit_test(test_retry_takes_dependents_along),
        cmocka_unit_test(test_a_retry_does_not_wait_for_another_failed_dependency),
        cmocka_unit_test(test_a_larger_priority_with_room_does_not_wait_for_a_release),
        cmocka_unit_test(test_who_waits_for_a_retried_task_keeps_no_slot),
        cmocka_unit_test(test_a_back_off_is_not_stretched_by_the_clock),
        cmocka_unit_test(test_a_result_of_a_grant_that_was_never_named_counts),
        cmocka_unit_test(test_a_late_result_leaves_no_hold_behind),
        cmocka_unit_test(test_who_waits_behind_an_edge_is_not_parked),
        cmocka_unit_test(test_a_promoted_task_is_first_in_the_same_turn),
        cmocka_unit_test(test_a_unique_key_given_up_is_not_reclaimed_in_the_same_turn),
        cmocka_unit_test(test_who_is_retried_is_not_superseded_again),
        cmocka_unit_test(test_a_poll_of_an_earlier_life_says_nothing_about_numbers),
        cmocka_unit_test(test_an_old_poll_takes_nothing_back_whoever_was_restarted),
        cmocka_unit_test(test_a_restarted_executor_returns_what_it_had_not_begun),
        cmocka_unit_test(test_a_job_whose_executor_forgot_it_counts),
        cmocka_unit_test(test_a_lease_that_lapses_as_it_is_renewed_is_kept),
        cmocka_unit_test(test_waiters_keep_their_order_over_turns),
        cmocka_unit_test(test_unique_is_one_until_it_starts),
        cmocka_unit_test(test_a_retry_counts_on_and_has_all_its_attempts),
        cmocka_unit_test(test_idempotency),
        cmocka_unit_test(test_every_creation_knows_its_key),
        cmocka_unit_test(test_refusals_change_nothing),
        cmocka_unit_test(test_order_is_priority_then_fair_share),
        cmocka_unit_test(test_labels_choose_the_executor),
        cmocka_unit_test(test_a_parked_poll_gets_work_in_the_turn_that_brings_it),
        cmocka_unit_test(test_polls_that_overtake_each_other_within_a_turn),
        cmocka_unit_test(test_ten_thousand_in_a_chain),
        cmocka_unit_test(test_executor_names_and_states),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
