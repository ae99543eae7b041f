/* memstore: the store port in memory, for the simulator: the same promises, no disk. What a commit returned true for survives a crash of
 * the engine; nothing else does. Faults are asked for: the next commit fails as full, or as unknown, applied or not. */
#ifndef WEIR_SIM_MEMSTORE_H
#define WEIR_SIM_MEMSTORE_H

#include "base/map.h"
#include "store/store.h"

enum mem_fault { MEM_OK, MEM_FULL, MEM_UNKNOWN_LOST, MEM_UNKNOWN_KEPT };

struct memstore {
    struct store store; /* first: the port */
    struct arena arena; /* all strings, for ever */
    struct store_head head;
    struct map lanes, classes, specs, slots, tasks, executors, tokens;       /* rows by id (lanes: id + 1) */
    struct map outs, ins;                                                     /* task -> struct edges */
    struct hold *holds; size_t n_holds, cap_holds;                            /* sorted by kind, key, rank, task */
    struct ready { int64_t class_id, prio, vt, task; } *ready; size_t n_ready, cap_ready; /* sorted */
    struct attempt *attempts; size_t n_attempts, cap_attempts;
    struct smap uniques;      /* tenant/key -> task id boxed */
    struct smap idempotency;  /* text -> struct idempotency */
    struct map outputs;       /* task -> struct str */
    struct site_key site[4]; size_t n_site;
    struct map archives;      /* by lane */
    struct revision *revisions; size_t n_revisions, cap_revisions;
    struct latest *latests; size_t n_latests, cap_latests;
    struct schedule *schedules; size_t n_schedules, cap_schedules;
    struct turn_row { int64_t turn, first_seq, time; struct str events; } *turns; size_t n_turns, cap_turns;
    enum mem_fault fault;     /* of the next commit; then OK again */
    uint64_t n_commits;
};

struct edges { struct edge *edges; size_t n, cap; };

struct memstore *memstore_new(uint64_t incarnation);
void memstore_free(struct memstore *store);

/* memstore_keep: the rows of `from` as they are now; memory is taken from `arena`, rows that never change are shared. The same puts them
 * back: `to` keeps its arena, its port and its faults. memstore_drop: a kept one is let go. */
void memstore_keep(struct memstore *to, const struct memstore *from, struct arena *arena);
void memstore_drop(struct memstore *kept);

/* memstore_archives.c */
void archives_apply(struct memstore *store, const struct changes *changes);
void archive_ops_add(struct store_ops *ops);
const struct revision *memstore_revision(const struct memstore *store, int64_t lane, int64_t rev); /* NULL: none */
const struct task *memstore_task_upto(const struct memstore *store, int64_t lane, struct str name, int64_t upto); /* run 0; NULL: none */

#endif
