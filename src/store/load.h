/* load: the members of store_ops that both databases share; private to store. */
#ifndef WEIR_STORE_LOAD_H
#define WEIR_STORE_LOAD_H

#include "store/query.h"

#define SQL_LOADS(L) \
    L(load_lanes) L(load_classes) L(load_slots) L(load_executors) L(load_archives) L(load_site) \
    L(load_active_grants) L(load_schedules) L(load_tokens) L(load_clock) L(load_others_outs) L(load_spec) \
    L(load_outputs) L(load_log_seal) L(holds_due) L(holds_of) L(holds_after) L(holds_of_task) L(unique_find) \
    L(idempotency_find) L(load_revision) L(revision_of_ident) L(latest_find) L(task_upto) L(task_find) \
    L(tasks_open) L(tasks_after) L(load_changeset) L(changeset_find) L(changeset_of_hash) \
    L(changeset_file_near) L(changesets_open)
/* and those that a store has in its own way if it reads rows before they are asked for */
#define SQL_LOADS_PLAIN(L) L(load_head) L(load_task) L(load_edges) L(load_outs) L(load_attempt)
#define SQL_LOAD(member) __typeof__(*((struct store_ops *)0)->member) sql_##member;
SQL_LOADS(SQL_LOAD)
SQL_LOADS_PLAIN(SQL_LOAD)
#define SQL_LOAD_MEMBER(member) .member = sql_##member, /* in an initializer of store_ops */

#endif
