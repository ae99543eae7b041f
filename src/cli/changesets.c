/* changesets: what is known of change sets: lists, one, its neighbours, its diff, the queue, the report. */
#include <stdlib.h>
#include <string.h>

#include "cli/changeset_text.h"
#include "cli/command.h"
#include "cli/lane_table.h"
#include "cli/task_text.h"
#include "io/clock.h"
#include "text/changeset_name.h"
#include "text/json_value.h"

enum { LIST_DEFAULT = 1000, QUEUE_MAX = 1000 };

const char *changeset_path(struct session *s, const char *operand, const char *tail)
{
    const char *colon = strrchr(operand, ':'); /* TARGET:CSID */
    const char *path = session_path(s, "/v1/changesets/*", colon ? colon + 1 : operand);
    return str_dupz(&s->arena, str_fmt(&s->arena, "%s%s", path, tail));
}

static const char *revision_of(struct session *s, const json_t *changeset)
{
    const json_t *revision = json_object_get(changeset, "revision");
    return json_is_integer(revision) ? str_dupz(&s->arena, str_of(i64_format(json_integer_value(revision)).z))
                                     : field_z(changeset, "revision");
}

static void state_cell(struct table *table, const json_t *changeset)
{
    char letter = task_letter(changeset);
    const char *by = field_z(changeset, "rolled_back_by");
    table_add(table, *by ? PAINT_YELLOW : paint_of_state(letter), "%c %s%s", letter, letter_word(letter),
        *by ? ", rolled back" : "");
}

/* --- lists --- */

static void changeset_table_print(struct session *s, const json_t *changesets)
{
    const json_t *one;
    struct table table;
    size_t i;
    table_init(&table, &s->arena, "CSID|STATE|TYPE|TARGET|REVISION|SUBMITTER|REASON");
    json_array_foreach (changesets, i, one) {
        table_add(&table, PAINT_BOLD, "%s", field_z(one, "csid"));
        state_cell(&table, one);
        table_add(&table, PAINT_NONE, "%s", field_z(one, "movetype"));
        table_add(&table, PAINT_NONE, "%s", field_z(one, "target"));
        table_add(&table, PAINT_NONE, "%s", revision_of(s, one));
        table_add(&table, PAINT_NONE, "%s", field_z(one, "submitter"));
        table_add(&table, PAINT_NONE, "%s", field_z(one, "reason"));
    }
    table_print(&table, &s->term, stdout, 0);
}

/* filters: --state, --target and --type as a query. */
static const char *filters(struct session *s, const char *path)
{
    path = session_query(s, path, "state", option_get(&s->options, "state"));
    path = session_query(s, path, "target", option_get(&s->options, "target"));
    return session_query(s, path, "type", option_get(&s->options, "type"));
}

int changeset_list_command(struct session *s)
{
    int64_t limit = LIST_DEFAULT;
    bool more;
    if (!option_i64(&s->options, "limit", 0, INT32_MAX, &limit))
        return EXIT_USAGE;
    const char *path = filters(s, "/v1/changesets");
    if (limit > 0)
        path = session_query_i64(s, path, "limit", limit < QUEUE_MAX ? limit : QUEUE_MAX);
    json_t *list = session_pages(s, path, "changesets", limit, &more);
    bool none = json_array_size(list) == 0;
    if (!list)
        return s->status;
    session_answer(s, list, changeset_table_print);
    if (!s->json && none)
        session_note(s, "no change sets match");
    if (!s->json && more)
        session_note(s, "there are more; --limit shows them");
    return 0;
}

/* --- one --- */

/* texts_print: a label and one text a line; nothing when there are none. */
static void texts_print(struct session *s, const json_t *changeset, const char *label, const char *field)
{
    const json_t *list = json_object_get(changeset, field), *one;
    size_t i;
    json_array_foreach (list, i, one) {
        const char *text = json_is_string(one) ? json_string_value(one) : field_z(one, "csid");
        char state = json_is_object(one) ? task_letter(one) : '?';
        printf("%-10s %s", i ? "" : label, term_safe_z(&s->arena, *text ? text : field_z(one, "path")));
        if (state != '?')
            printf("  %s%c %s%s", paint_on(&s->term, paint_of_state(state)), state, letter_word(state),
                paint_off(&s->term, paint_of_state(state)));
        fputc('\n', stdout);
    }
}

static void history_print(struct session *s, const json_t *history)
{
    const json_t *one;
    size_t i;
    if (json_array_size(history) > 0)
        fputs("\nhistory\n", stdout);
    json_array_foreach (history, i, one) {
        int64_t time;
        if (json_is_string(one)) { /* as in the job file */
            printf("  %s\n", term_safe_z(&s->arena, json_string_value(one)));
            continue;
        }
        char letter = field_z(one, "to")[0];
        letter = letter ? letter : task_letter(one);
        printf("  %s  %c %-10s %s%s%s\n", field_time(one, "time", &time) ? local_text(time).z : "", letter,
            letter_word(letter), term_safe_z(&s->arena, field_z(one, "actor")), *field_z(one, "reason") ? "  " : "",
            term_safe_z(&s->arena, field_z(one, "reason")));
    }
}

static void changeset_print(struct session *s, const json_t *changeset)
{
    char letter = task_letter(changeset), state[100];
    const json_t *approval = json_object_get(changeset, "approval");
    snprintf(state, sizeof state, "%c %s", letter, letter_word(letter));
    if (!letter_ended(letter) && field_i64(changeset, "position", 0) > 0)
        snprintf(state, sizeof state, "%c %s, position %lld", letter, letter_word(letter),
            (long long)field_i64(changeset, "position", 0));
    session_line(s, "changeset", PAINT_BOLD, field_z(changeset, "csid"));
    session_line(s, "name", PAINT_NONE, field_z(changeset, "name"));
    session_line(s, "state", paint_of_state(letter), state);
    session_line(s, "reason", PAINT_NONE, field_z(changeset, "reason"));
    session_line(s, "movetype", PAINT_NONE, field_z(changeset, "movetype"));
    session_line(s, "target", PAINT_NONE, field_z(changeset, "target"));
    session_line(s, "submitter", PAINT_NONE, field_z(changeset, "submitter"));
    session_line(s, "approval", PAINT_NONE,
        json_is_object(approval) ? field_z(approval, "ticket") : field_z(changeset, "approval"));
    if (json_is_object(approval))
        session_line(s, "approved", PAINT_NONE, field_z(approval, "by"));
    session_line(s, "base", PAINT_NONE, field_z(changeset, "base"));
    session_line(s, "revision", PAINT_NONE, revision_of(s, changeset));
    session_line(s, "rolled back by", PAINT_YELLOW, field_z(changeset, "rolled_back_by"));
    texts_print(s, changeset, "depends", "dependencies");
    texts_print(s, changeset, "after", "precursors");
    texts_print(s, changeset, "files", "files");
    texts_print(s, changeset, "removed", "removed");
    session_line(s, "message", PAINT_NONE, field_z(changeset, "message"));
    history_print(s, json_object_get(changeset, "history"));
    if (!letter_ended(letter) && letter != 'X')
        session_note(s, "\n`weir why %s` tells what it waits for", field_z(changeset, "csid"));
}

int changeset_show_command(struct session *s)
{
    return session_answer(s, session_get(s, changeset_path(s, s->options.operands[0], "")), changeset_print);
}

/* list_of: the answer itself, or its one list. */
static const json_t *list_of(const json_t *answer)
{
    const char *name;
    json_t *value;
    if (json_is_array(answer))
        return answer;
    json_object_foreach ((json_t *)(uintptr_t)answer, name, value)
        if (json_is_array(value))
            return value;
    return NULL;
}

static void neighbours_print(struct session *s, const json_t *answer)
{
    const json_t *list = list_of(answer), *one;
    size_t i;
    json_array_foreach (list, i, one) {
        const char *csid = json_is_string(one) ? json_string_value(one) : field_z(one, "csid");
        printf("%s", term_safe_z(&s->arena, csid));
        if (json_is_object(one))
            printf("  %s%c %s%s", paint_on(&s->term, paint_of_state(task_letter(one))), task_letter(one),
                letter_word(task_letter(one)), paint_off(&s->term, paint_of_state(task_letter(one))));
        fputc('\n', stdout);
    }
    if (json_array_size(list) == 0)
        session_note(s, "none");
}

int changeset_deps_command(struct session *s)
{
    return session_answer(s, session_get(s, changeset_path(s, s->options.operands[0], "/deps")), neighbours_print);
}

int changeset_supports_command(struct session *s)
{
    return session_answer(s, session_get(s, changeset_path(s, s->options.operands[0], "/supports")), neighbours_print);
}

/* --- texts that the server makes --- */

struct copying {
    struct session *session;
    struct term_filter filter;
    bool failed;
};

/* copying_piece: to stdout, harmless on a terminal. */
static bool copying_piece(struct str bytes, void *owner)
{
    struct copying *copying = owner;
    struct buf shown;
    buf_init(&shown, SIZE_MAX);
    if (copying->session->term.tty)
        term_filter_add(&copying->filter, bytes, &shown);
    else
        buf_add_str(&shown, bytes);
    copying->failed = shown.len > 0 && fwrite(shown.ptr, 1, shown.len, stdout) != shown.len;
    buf_release(&shown);
    return !copying->failed;
}

static int copy_out(struct session *s, const char *path)
{
    struct copying copying = { .session = s };
    bool answered = session_stream(s, path, copying_piece, &copying);
    if (copying.failed)
        return session_err(s, ERR_io, "stdout can't be written");
    return answered && s->status == 0 ? 0 : session_fail(s);
}

int changeset_diff_command(struct session *s)
{
    return copy_out(s, changeset_path(s, s->options.operands[0], "/diff"));
}

/* --- the queue --- */

/* A change set that waits. What runs comes first, then what is pending, in the order in which it is taken, then what
 * waits for something else. */
struct waiter {
    json_t *document;
    struct changeset_name name;
    bool has_name;
    int rank;
};

static int waiter_compare(const void *left, const void *right)
{
    const struct waiter *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank - b->rank;
    return a->has_name && b->has_name ? changeset_name_compare(&a->name, &b->name) : b->has_name - a->has_name;
}

static struct waiter waiter_of(json_t *document)
{
    static const char ranks[] = "XPSQ";
    const char *rank = strchr(ranks, task_letter(document));
    struct waiter waiter = { .document = document, .rank = rank ? (int)(rank - ranks) : (int)sizeof ranks };
    waiter.has_name = changeset_name_parse(str_of(field_z(document, "name")), &waiter.name, &(struct err){ 0 });
    return waiter;
}

json_t *queue_sort(const json_t *changesets)
{
    size_t n = json_array_size(changesets);
    struct waiter *all = mem_alloc((n + 1) * sizeof *all);
    json_t *sorted = json_array();
    for (size_t i = 0; i < n; i++)
        all[i] = waiter_of(json_array_get(changesets, i));
    if (n > 1)
        qsort(all, n, sizeof *all, waiter_compare);
    for (size_t i = 0; i < n; i++)
        json_array_append(sorted, all[i].document);
    mem_free(all);
    return sorted;
}

json_t *queue_read(struct session *s, const char *target)
{
    const char *path = session_query(s, "/v1/changesets?state=QSPX&limit=1000", "target", target);
    json_t *page = session_try_pages(s, path, "changesets", 0);
    json_t *sorted = page ? queue_sort(json_object_get(page, "changesets")) : NULL;
    json_decref(page);
    return sorted;
}

void queue_table(struct table *table, struct arena *arena, const json_t *changesets)
{
    const json_t *one;
    size_t i;
    table_init(table, arena, ">POSITION|TARGET|CSID|STATE|TYPE|SUBMITTER|REASON");
    json_array_foreach (changesets, i, one) {
        table_add(table, PAINT_DIM, "%lld", (long long)field_i64(one, "position", (int64_t)i + 1));
        table_add(table, PAINT_NONE, "%s", field_z(one, "target"));
        table_add(table, PAINT_BOLD, "%s", field_z(one, "csid"));
        state_cell(table, one);
        table_add(table, PAINT_NONE, "%s", field_z(one, "movetype"));
        table_add(table, PAINT_NONE, "%s", field_z(one, "submitter"));
        table_add(table, PAINT_NONE, "%s", field_z(one, "reason"));
    }
}

void queue_print(struct session *s, const json_t *changesets)
{
    struct table table;
    queue_table(&table, &s->arena, changesets);
    table_print(&table, &s->term, stdout, 0);
}

/* changeset_status_command: of each target its counts, and what waits, in order. */
int changeset_status_command(struct session *s)
{
    const char *target = s->options.n_operands ? s->options.operands[0] : NULL;
    bool more;
    json_t *lanes = session_pages(s, "/v1/lanes", "lanes", 0, &more), *lane, *queue;
    if (!lanes)
        return s->status;
    json_t *targets = json_array();
    size_t i;
    json_array_foreach (lanes, i, lane)
        if (strcmp(field_z(lane, "kind"), "target") == 0 && (!target || strcmp(field_z(lane, "name"), target) == 0))
            json_array_append(targets, lane);
    json_decref(lanes);
    int status = 0;
    if (!(queue = queue_read(s, target)))
        status = session_fail(s);
    else if (s->json) {
        json_t *all = json_pack("{s:O, s:O}", "targets", targets, "changesets", queue);
        session_print(s, all);
        json_decref(all);
    } else {
        struct table table;
        lane_table(&table, &s->arena, targets);
        table_print(&table, &s->term, stdout, 0);
        if (json_array_size(queue) > 0)
            fputc('\n', stdout);
        queue_print(s, queue);
        if (json_array_size(targets) == 0)
            session_note(s, "no change set was submitted%s%s", target ? " to " : "", target ? target : "");
    }
    json_decref(queue);
    json_decref(targets);
    return status;
}
