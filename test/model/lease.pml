/* lease: claim, lease, finish and cancel of src/engine as a model for spin; README.md says which line stands for which function.
 *
 * NE executors with one slot each, NT tasks, a network that loses, doubles and delays, a server that may restart, executors that may die.
 * Faults draw on a budget, so that every run has a last one: what then must happen is the property `ends`.
 *
 * UNFENCED compiles the rules that most queues have (a report names a task, not a grant). BREAK_x takes one of our rules away. All of them must
 * be found out; without any of them nothing may be found. CHECK_x compiles one property in; without any, all of them. */
#ifndef NT
#define NT 1
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#define NE 2
#define SLOTS 2           /* requests of one executor that are under way at a time */
#define GMAX 8            /* grants of a task: asserted, never a silent limit */
#define ATTEMPTS_MAX 2

#if !defined(CHECK_ONCE) && !defined(CHECK_NEWEST) && !defined(CHECK_CANCEL) && !defined(CHECK_TOLD) && !defined(CHECK_LIVE)
#define CHECK_ONCE
#define CHECK_NEWEST
#define CHECK_CANCEL
#define CHECK_TOLD
#define CHECK_LIVE
#endif

/* states of a task (src/core/model.h; S is part of P here: a back-off is a P that nobody picks yet) */
#define P 0
#define X 1
#define D 2
#define F 3
#define T 4
/* attempts */
#define NONE 0            /* never made, or undone */
#define LIVE 1
#define LOST 2
#define TOLD 3            /* its finish was taken */
/* jobs of executors */
#define IDLE 0
#define RUNS 1
#define OVER 2            /* ended, not yet taken by the server */
/* results, cancels, answers */
#define GOOD 1
#define AGAIN 2
#define KILLED 3
#define CANCEL 1
#define STALE 2
#define TAKEN 1
#define REFUSED 2

/* --- the server: what is stored --- */
byte state[NT] = P;
byte grant[NT];
byte attempts[NT];
byte base[NT];
bit ending[NT];
bit lost_end[NT];         /* F because the last attempt was lost */
byte att[NT * GMAX];
bit owner[NT * GMAX];
/* the server: what it knows from hearing; a restart forgets it */
bit fresh[NT];            /* granted by a poll with seq, never named since */
bit known[NE];            /* seq_known */
byte seen[NE];            /* seq of the last poll taken, see `age` */
byte given_t[NE];         /* what its answer carried: grant 0 is nothing */
byte given_g[NE];

/* --- executors --- */
byte job_t[NE];
byte job_g[NE];
byte job[NE];             /* IDLE, RUNS, OVER */
byte job_r[NE];
bit waiting[NE];          /* for the answer to its newest poll */
bit overtook[NE];
/* the newest poll, kept to be sent again byte for byte */
bit cur_fin[NE];
byte cur_t[NE];
byte cur_g[NE];
byte cur_r[NE];

/* --- the network --- */
/* age of a request: 0 empty slot, 4 the newest number of its executor, 3 the one before, 2 before that, 1 older still. `seen` counts alike.
 * Numbers themselves would grow for ever; only how they compare matters. */
byte rq_age[NE * SLOTS];
byte rq_t[NE * SLOTS];
byte rq_g[NE * SLOTS];
bit rq_fin[NE * SLOTS];
byte rq_r[NE * SLOTS];
bit an[NE];               /* the answer to the newest poll is under way; answers to older ones are not read */
byte an_t[NE];
byte an_g[NE];
byte an_cancel[NE];
byte an_told[NE];
/* reports by themselves (POST finishes): one a grant, because one grant has one end */
bit fin[NT * GMAX];
byte fin_r[NT * GMAX];
byte ack[NT * GMAX];

/* --- ghosts: what really happened --- */
byte faults = FAULTS;
byte cancels = CANCELS;
bit cancelled[NT];        /* acknowledged */
bit counted[NT * GMAX];   /* a report of this grant took effect */
bit is_done[NT];

hidden byte code;
hidden byte i;
hidden byte k;
hidden byte rel;
hidden byte out_t;
hidden byte out_g;
hidden byte out_cancel;
hidden byte out_told;

#define AT(t, g) ((t) * GMAX + (g) - 1)
#define HAS_JOB(e, t, g) (job[e] != IDLE && job_t[e] == (t) && job_g[e] == (g))
#define ON_ITS_WAY(e, t, g) (an[e] && an_t[e] == (t) && an_g[e] == (g))
#define HELD(t, g) (HAS_JOB(0, t, g) || HAS_JOB(1, t, g) || ON_ITS_WAY(0, t, g) || ON_ITS_WAY(1, t, g) || fin[AT(t, g)])
#define ENDED(t) (state[t] == D || state[t] == F || state[t] == T)

inline consistent(t) /* a lease lives exactly while the task executes, and it is the newest */
{
#ifdef CHECK_LIVE
    for (i : 0 .. GMAX - 1) {
        assert((att[t * GMAX + i] == LIVE) == (state[t] == X && grant[t] == i + 1));
    }
    assert(attempts[t] - base[t] <= ATTEMPTS_MAX);
    i = 0;
#else
    skip;
#endif
}

/* --- src/engine/leases.c: attempt_over, leases_expire; grant.c: grant_undo --- */
inline attempt_over(t, result)
{
    if
#ifndef BREAK_ENDING
    :: ending[t] -> state[t] = T;
#endif
    :: else ->
        if
        :: result == GOOD -> state[t] = D;
        :: result == KILLED -> state[t] = T;
        :: (result == AGAIN || result == LOST) && attempts[t] - base[t] < ATTEMPTS_MAX -> state[t] = P;
        :: else -> state[t] = F; lost_end[t] = (result == LOST);
        fi;
    fi;
    ending[t] = (state[t] == P -> ending[t] : 0);
    fresh[t] = 0;
#ifdef CHECK_CANCEL
    assert(!(cancelled[t] && state[t] == D));
#endif
}

inline grant_undo(t, g)
{
    if
    :: state[t] == X && grant[t] == g && att[AT(t, g)] == LIVE ->
        att[AT(t, g)] = NONE;
        owner[AT(t, g)] = 0;
        attempts[t]--;
        fresh[t] = 0;
        if
        :: ending[t] -> state[t] = T; ending[t] = 0;
        :: else -> state[t] = P;
        fi;
    :: else;
    fi;
}

inline expire(t)
{
    if
    :: fresh[t] -> grant_undo(t, grant[t]);
    :: else ->
        att[AT(t, grant[t])] = LOST;
        attempt_over(t, LOST);
    fi;
    consistent(t);
}

/* --- src/engine/command/finish.c: finish_judge, late_return, finish_items --- */
inline effect(t, g, result)
{
#ifdef CHECK_NEWEST
    assert(g == grant[t]);
#endif
#ifdef CHECK_ONCE
    assert(!counted[AT(t, g)]);
    assert(!is_done[t]);
#endif
    counted[AT(t, g)] = 1;
    if
    :: state[t] == F -> base[t] = attempts[t] - 1; lost_end[t] = 0; /* late_return by way of task_restage */
    :: else;
    fi;
    att[AT(t, grant[t])] = TOLD;
    owner[AT(t, grant[t])] = 0;
    state[t] = X;
    attempt_over(t, result);
    is_done[t] = (state[t] == D);
    code = TAKEN;
}

inline finish(t, g, result)
{
    code = REFUSED;
#ifdef UNFENCED
    if
    :: state[t] == X -> effect(t, g, result);
    :: else;
    fi;
#else
    if
#ifndef BREAK_SAME
    :: att[AT(t, g)] == TOLD -> code = TAKEN; /* same fence, same finish */
#endif
    :: att[AT(t, g)] == NONE; /* never granted, or taken back */
#ifndef BREAK_GRANT
    :: att[AT(t, g)] != NONE && att[AT(t, g)] != TOLD && grant[t] != g; /* stale_fence */
#endif
#ifdef BREAK_GRANT
    :: (att[AT(t, g)] == LIVE || att[AT(t, g)] == LOST) ->
#else
    :: (att[AT(t, g)] == LIVE || att[AT(t, g)] == LOST) && grant[t] == g ->
#endif
        if
        :: state[t] != X && att[AT(t, g)] != LOST;
        :: else ->
            if
            :: state[t] == D || state[t] == T || (state[t] == F && !lost_end[t]);
            :: else -> effect(t, g, result);
            fi;
        fi;
#ifdef BREAK_SAME
    :: att[AT(t, g)] == TOLD; /* refused: it has ended */
#endif
    fi;
#endif
#ifdef CHECK_TOLD
    assert(code == TAKEN || !counted[AT(t, g)]); /* who is refused wasn't counted, or it would be run again by a person */
#endif
    consistent(t);
}

/* --- src/engine/command/poll.c: renew_all, lease_revive, poll_seq, polls_commit; grant.c: grant_absent; claim.c: claims_run --- */
inline renew(e, t, g, finished)
{
    if
    :: g == 0;
#ifdef UNFENCED
    :: g != 0 && state[t] == X ->
#else
    :: g != 0 && state[t] == X && grant[t] == g && att[AT(t, g)] == LIVE ->
#endif
        fresh[t] = 0;
        out_cancel = (ending[t] -> CANCEL : out_cancel);
#ifndef UNFENCED
    :: g != 0 && !finished && state[t] == P && grant[t] == g && att[AT(t, g)] == LOST && owner[AT(t, g)] == e ->
        att[AT(t, g)] = LIVE;
        state[t] = X;
        fresh[t] = 0;
#endif
    :: else -> out_cancel = (finished -> out_cancel : STALE);
    fi;
}

inline hand_again(e, t, g)
{
    if
    :: state[t] == X && grant[t] == g && att[AT(t, g)] == LIVE -> out_t = t; out_g = g;
    :: else;
    fi;
}

inline seq_rules(e, t, g)
{
    if
    :: !known[e] -> /* nothing is remembered: what it doesn't name is handed out once more */
        for (k : 0 .. NT - 1) {
            if
            :: state[k] == X && owner[AT(k, grant[k])] == e && !(g != 0 && t == k && g == grant[k]) -> hand_again(e, k, grant[k]);
            :: else;
            fi;
        }
        k = 0;
    :: known[e] && given_g[e] != 0 && !(g == given_g[e] && t == given_t[e]) ->
        if
        :: rel == seen[e] -> hand_again(e, given_t[e], given_g[e]);
        :: else -> grant_undo(given_t[e], given_g[e]);
        fi;
    :: else;
    fi;
}

inline grant_make(e, t)
{
    assert(grant[t] < GMAX);
#ifdef FORGET
    if /* which of the older ones were lost and which were taken back makes no difference: both are stale. Fewer states, same behaviour */
    :: grant[t] > 0 && att[AT(t, grant[t])] == LOST -> att[AT(t, grant[t])] = NONE; owner[AT(t, grant[t])] = 0;
    :: else;
    fi;
#endif
    grant[t]++;
    attempts[t]++;
    state[t] = X;
    fresh[t] = 1;
    att[AT(t, grant[t])] = LIVE;
    owner[AT(t, grant[t])] = e;
    out_t = t;
    out_g = grant[t];
}

inline claim(e, g) /* one slot: work only for an executor that named nothing and was handed nothing */
{
    if
    :: g == 0 && out_g == 0 && state[0] == P -> grant_make(e, 0);
#if NT > 1
    :: g == 0 && out_g == 0 && state[1] == P -> grant_make(e, 1);
#endif
    :: !(g == 0 && out_g == 0 && (state[0] == P || state[NT - 1] == P));
    fi;
}

inline poll(e, n)
{
    out_t = 0; out_g = 0; out_cancel = 0; out_told = 0;
    rel = rq_age[n];
    if
    :: known[e] && (rel < seen[e] || (rel == 1 && seen[e] == 1)) -> /* overtaken: answered empty, changes nothing */
        skip;
    :: !known[e] || (rel >= seen[e]) ->
        if
        :: rq_fin[n] -> finish(rq_t[n], rq_g[n], rq_r[n]); out_told = code;
        :: else;
        fi;
        renew(e, rq_t[n], rq_g[n], rq_fin[n]);
        seq_rules(e, rq_t[n], rq_g[n]);
        claim(e, (rq_fin[n] -> 0 : rq_g[n]));
        seen[e] = rel;
        known[e] = 1;
        given_t[e] = out_t;
        given_g[e] = out_g;
    fi;
    if
    :: rel == 4 -> an[e] = 1; an_t[e] = out_t; an_g[e] = out_g; an_cancel[e] = out_cancel; an_told[e] = out_told;
    :: else; /* nobody reads it */
    fi;
    for (k : 0 .. NT - 1) { consistent(k); }
    k = 0; code = 0; rel = 0; out_t = 0; out_g = 0; out_cancel = 0; out_told = 0;
}

inline rq_clear(n)
{
    rq_age[n] = 0; rq_t[n] = 0; rq_g[n] = 0; rq_fin[n] = 0; rq_r[n] = 0;
}

/* Fewer states, same behaviour: a request that is sure to be answered empty, to nobody, need not be carried about. While faults are left it isn't
 * sure: a server that starts anew takes it for the first. */
inline tidy(n, e)
{
    if
    :: faults == 0 && rq_age[n] > 0 && rq_age[n] < 4 && known[e] && rq_age[n] < seen[e] -> rq_clear(n);
    :: else;
    fi;
}

inline tidy_all()
{
    tidy(0, 0); tidy(1, 0); tidy(2, 1); tidy(3, 1);
}

/* --- src/exec/agent/poll.c: poll_new, polled, take_grant, take_cancel; report.c: report_item, report_result --- */
inline older(e) /* a new number: all others are one older */
{
    for (k : 0 .. SLOTS - 1) {
        rq_age[e * SLOTS + k] = (rq_age[e * SLOTS + k] > 1 -> rq_age[e * SLOTS + k] - 1 : rq_age[e * SLOTS + k]);
    }
    seen[e] = (seen[e] > 1 -> seen[e] - 1 : seen[e]);
    k = 0;
}

#define FREE_SLOT(e) (rq_age[e * SLOTS] == 0 || rq_age[e * SLOTS + 1] == 0)

inline send(e)
{
    i = (rq_age[e * SLOTS] == 0 -> e * SLOTS : e * SLOTS + 1);
    rq_age[i] = 4; rq_t[i] = cur_t[e]; rq_g[i] = cur_g[e]; rq_fin[i] = cur_fin[e]; rq_r[i] = cur_r[e];
    i = 0;
}

inline poll_new(e)
{
    older(e);
    cur_t[e] = (job[e] != IDLE -> job_t[e] : 0);
    cur_g[e] = (job[e] != IDLE -> job_g[e] : 0);
#ifndef REPORTS
    cur_fin[e] = (job[e] == OVER);
    cur_r[e] = (job[e] == OVER -> job_r[e] : 0);
#endif
    waiting[e] = 1;
    an[e] = 0; an_t[e] = 0; an_g[e] = 0; an_cancel[e] = 0; an_told[e] = 0;
    send(e);
}

inline job_drop(e)
{
    job[e] = IDLE; job_t[e] = 0; job_g[e] = 0; job_r[e] = 0;
}

inline answer_take(e)
{
    if
    :: an_told[e] != 0 && HAS_JOB(e, cur_t[e], cur_g[e]) -> job_drop(e);
    :: an_cancel[e] == STALE && HAS_JOB(e, cur_t[e], cur_g[e]) -> job_drop(e);
    :: an_cancel[e] == CANCEL && HAS_JOB(e, cur_t[e], cur_g[e]) && job[e] == RUNS -> job[e] = OVER; job_r[e] = KILLED;
    :: else;
    fi;
    if
    :: an_g[e] != 0 && job[e] == IDLE -> job[e] = RUNS; job_t[e] = an_t[e]; job_g[e] = an_g[e];
    :: else; /* nothing, or one that it has already */
    fi;
    waiting[e] = 0; overtook[e] = 0;
    cur_t[e] = 0; cur_g[e] = 0; cur_fin[e] = 0; cur_r[e] = 0;
    an[e] = 0; an_t[e] = 0; an_g[e] = 0; an_cancel[e] = 0; an_told[e] = 0;
}

#define NOTHING_UNDER_WAY(e) (!an[e] && rq_age[e * SLOTS] != 4 && rq_age[e * SLOTS + 1] != 4)

proctype executor(bit e)
{
    do
    :: atomic { an[e] -> answer_take(e); }
    :: atomic { !waiting[e] && FREE_SLOT(e) -> poll_new(e); }
#ifndef REPORTS
    :: atomic { waiting[e] && job[e] == OVER && !cur_fin[e] && !overtook[e] && FREE_SLOT(e) -> overtook[e] = 1; poll_new(e); }
#endif
    :: atomic { waiting[e] && NOTHING_UNDER_WAY(e) && FREE_SLOT(e) -> send(e); } /* the same again */
    od
}

proctype worker(bit e) /* the job itself, and reports by themselves */
{
    do
    :: atomic { job[e] == RUNS -> job[e] = OVER; if :: job_r[e] = GOOD; :: job_r[e] = AGAIN; fi; }
#ifdef REPORTS
    :: atomic { job[e] == OVER && !fin[AT(job_t[e], job_g[e])] && !ack[AT(job_t[e], job_g[e])] ->
        fin[AT(job_t[e], job_g[e])] = 1; fin_r[AT(job_t[e], job_g[e])] = job_r[e]; }
    :: atomic { job[e] == OVER && ack[AT(job_t[e], job_g[e])] -> ack[AT(job_t[e], job_g[e])] = 0; job_drop(e); }
#endif
    od
}

proctype link(bit e) /* requests reach the server; one that stays is a duplicate for later */
{
    byte n;
    do
    :: atomic { rq_age[e * SLOTS] || rq_age[e * SLOTS + 1] ->
        if
        :: rq_age[e * SLOTS] -> n = e * SLOTS;
        :: rq_age[e * SLOTS + 1] -> n = e * SLOTS + 1;
        fi;
        poll(e, n);
        if
        :: rq_clear(n);
        :: faults > 0 && FREE_SLOT(e) -> faults--;
        fi;
        tidy_all();
        n = 0;
    }
    od
}

#ifdef REPORTS
proctype reports(byte t)
{
    byte g;
    do
    :: atomic {
        (fin[AT(t, 1)] || fin[AT(t, 2)] || fin[AT(t, 3)] || fin[AT(t, 4)] || fin[AT(t, 5)] || fin[AT(t, 6)] || fin[AT(t, 7)] || fin[AT(t, 8)]) ->
        if
        :: fin[AT(t, 1)] -> g = 1;
        :: fin[AT(t, 2)] -> g = 2;
        :: fin[AT(t, 3)] -> g = 3;
        :: fin[AT(t, 4)] -> g = 4;
        :: fin[AT(t, 5)] -> g = 5;
        :: fin[AT(t, 6)] -> g = 6;
        :: fin[AT(t, 7)] -> g = 7;
        :: fin[AT(t, 8)] -> g = 8;
        fi;
        finish(t, g, fin_r[AT(t, g)]);
        if
        :: HAS_JOB(0, t, g) || HAS_JOB(1, t, g) -> ack[AT(t, g)] = code;
        :: else;
        fi;
        if
        :: fin[AT(t, g)] = 0; fin_r[AT(t, g)] = 0;
        :: faults > 0 -> faults--; /* doubled */
        fi;
        code = 0; g = 0;
    }
    od
}
#endif

proctype reaper(byte t)
{
    do
#ifndef BREAK_EXPIRY
    :: atomic { state[t] == X && !HELD(t, grant[t]) -> expire(t); }        /* nobody will ever name it */
#endif
    :: atomic { state[t] == X && faults > 0 -> faults--; expire(t); }      /* frozen, cut off, or just too slow */
    od
}

proctype trouble()
{
    byte n;
    do
    :: atomic { faults > 0 ->
        if
        :: rq_age[0] -> rq_clear(0);
        :: rq_age[1] -> rq_clear(1);
        :: rq_age[2] -> rq_clear(2);
        :: rq_age[3] -> rq_clear(3);
        :: an[0] -> an[0] = 0; an_t[0] = 0; an_g[0] = 0; an_cancel[0] = 0; an_told[0] = 0;
        :: an[1] -> an[1] = 0; an_t[1] = 0; an_g[1] = 0; an_cancel[1] = 0; an_told[1] = 0;
        :: known[0] || known[1] -> /* the server starts anew */
            known[0] = 0; known[1] = 0; seen[0] = 1; seen[1] = 1; given_g[0] = 0; given_g[1] = 0; given_t[0] = 0; given_t[1] = 0;
            for (k : 0 .. NT - 1) { fresh[k] = 0; }
            k = 0;
        :: if :: n = 0; :: n = 1; fi; /* an executor dies and registers anew; its jobs die with it */
            job_drop(n);
            older(n); older(n); older(n);
            waiting[n] = 0; overtook[n] = 0; known[n] = 0; seen[n] = 1; given_g[n] = 0; given_t[n] = 0;
            cur_t[n] = 0; cur_g[n] = 0; cur_fin[n] = 0; cur_r[n] = 0;
            an[n] = 0; an_t[n] = 0; an_g[n] = 0; an_cancel[n] = 0; an_told[n] = 0;
            n = 0;
        fi;
        faults--;
        tidy_all();
    }
    od
}

proctype person() /* src/engine/command/operate.c: command_cancel, core/settle.c: task_stop */
{
    byte t;
    do
    :: atomic { cancels > 0 ->
        if
        :: t = 0;
        :: t = NT - 1;
        fi;
        if
        :: ENDED(t); /* refused: already_ended */
        :: state[t] == X -> ending[t] = 1; cancelled[t] = 1;
        :: state[t] == P -> state[t] = T; cancelled[t] = 1;
        fi;
        cancels--;
        t = 0;
    }
    od
}

init {
    atomic {
        seen[0] = 1; seen[1] = 1;
        run executor(0); run executor(1);
        run worker(0); run worker(1);
        run link(0); run link(1);
        run reaper(0);
#ifdef REPORTS
        run reports(0);
#endif
#if NT > 1
        run reaper(1);
#ifdef REPORTS
        run reports(1);
#endif
#endif
        run trouble();
        run person();
    }
}

#ifdef ENDS
/* when the faults have stopped, every task ends and stays ended */
ltl ends { <> [] (ENDED(0) && ENDED(NT - 1)) }
#endif
