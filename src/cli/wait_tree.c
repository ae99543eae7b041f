/* wait_tree: the live picture of `wait`: a tree of what is waited for, and a bar. Drawn over itself on stderr. */
#include <string.h>

#include "cli/lane_table.h"
#include "cli/task_text.h"
#include "cli/wait.h"
#include "io/clock.h"

enum { BAR_CELLS = 30, DEPTH_MAX = 64, ROWS_SPARE = 3, INDENT_CAP = 512 };

struct picture {
    struct wait *wait;
    struct arena arena;
    int rows_left, n_lines;
    size_t hidden;
    int64_t now;
    size_t n_done, n_ended, n_all;
};

void wait_erase(struct wait *wait)
{
    if (wait->n_drawn > 0)
        fprintf(stderr, "\033[%dA\r\033[J", wait->n_drawn);
    wait->n_drawn = 0;
}

/* line_put: one line, cut to the screen's width so that it stays one. */
static void line_put(struct picture *p, enum paint paint, const char *text)
{
    const struct term *screen = &p->wait->screen;
    struct str cut = term_cut(&p->arena, screen, str_of(text), screen->columns - 1);
    fprintf(stderr, "%s%.*s%s\n", paint_on(screen, paint), STR_ARG(cut), paint_off(screen, paint));
    p->n_lines++;
    p->rows_left--;
}

static void task_put(struct picture *p, const struct wait_task *task, const char *indent)
{
    struct when_text age = { "" };
    if (task->letter == 'X' && task->since > 0)
        age = span_text(p->now - task->since);
    struct str line = str_fmt(&p->arena, "%s%c %s  %s %s%s%s", indent, task->letter, term_safe_z(&p->arena, task->key),
        term_safe_z(&p->arena, task->name), letter_word(task->letter), *age.z ? " for " : "", age.z);
    line_put(p, paint_of_state(task->letter), str_dupz(&p->arena, line));
}

/* tree_put: a task and below it what it waits for; each task once; of the ended ones only those that were asked for or
 * ended badly. */
static void tree_put(struct picture *p, uint32_t index, const char *indent, bool last, int depth)
{
    struct wait_task *task = &p->wait->tasks[index];
    bool utf8 = p->wait->screen.utf8;
    if (task->drawn == p->wait->picture || depth > DEPTH_MAX)
        return;
    task->drawn = p->wait->picture;
    p->n_all++;
    p->n_done += task->letter == 'D';
    p->n_ended += letter_ended(task->letter);
    bool shown = task->wanted || task->letter != 'D';
    char mine[INDENT_CAP], below[INDENT_CAP];
    const char *branch = depth == 0 ? ""
                         : last     ? (utf8 ? "\xE2\x94\x94\xE2\x94\x80 " : "`- ")
                                    : (utf8 ? "\xE2\x94\x9C\xE2\x94\x80 " : "|- ");
    const char *trunk = depth == 0 ? "" : last ? "   " : (utf8 ? "\xE2\x94\x82  " : "|  ");
    snprintf(mine, sizeof mine, "%.400s%s", indent, branch);
    snprintf(below, sizeof below, "%.400s%s", indent, trunk);
    if (shown && p->rows_left > 0)
        task_put(p, task, mine);
    else if (shown)
        p->hidden++;
    for (size_t i = 0; i < task->n_needs; i++)
        tree_put(p, task->needs[i], shown ? below : indent, i + 1 == task->n_needs, shown ? depth + 1 : depth);
}

static void lane_put(struct picture *p, const struct wait_lane *lane)
{
    struct buf line;
    const json_t *task;
    size_t i;
    buf_init(&line, 4096);
    buf_addf(&line, "%s ", term_safe_z(&p->arena, lane->name));
    for (const char *c = state_letters; *c; c++) {
        int64_t n = lane_count(lane->document, *c);
        p->n_all += (size_t)n;
        p->n_done += *c == 'D' ? (size_t)n : 0;
        p->n_ended += letter_ended(*c) ? (size_t)n : 0;
        if (n)
            buf_addf(&line, "  %lld %s", (long long)n, letter_word(*c));
    }
    line_put(p, PAINT_BOLD, line.ptr);
    buf_release(&line);
    json_array_foreach (lane->running, i, task) {
        int64_t started;
        if (p->rows_left <= 0)
            break;
        struct when_text age =
            field_time(task, "started", &started) ? span_text(p->now - started) : (struct when_text){ "" };
        struct str text =
            str_fmt(&p->arena, "  X %s  %s executing%s%s", term_safe_z(&p->arena, task_key(&p->arena, task)),
                term_safe_z(&p->arena, task_name(task)), *age.z ? " for " : "", age.z);
        line_put(p, paint_of_state('X'), str_dupz(&p->arena, text));
    }
}

static void bar_put(struct picture *p)
{
    char bar[BAR_CELLS * 3 + 1] = "";
    size_t full = p->n_all ? p->n_ended * BAR_CELLS / p->n_all : BAR_CELLS;
    const char *on = p->wait->screen.utf8 ? "\xE2\x96\x88" : "#", *off = p->wait->screen.utf8 ? "\xE2\x96\x91" : ".";
    size_t at = 0;
    for (size_t i = 0; i < BAR_CELLS; i++) {
        const char *cell = i < full ? on : off;
        memcpy(bar + at, cell, strlen(cell));
        at += strlen(cell);
    }
    bar[at] = '\0';
    struct str line = str_fmt(&p->arena, "%s %zu/%zu ended, %zu done, %s", bar, p->n_ended, p->n_all, p->n_done,
        span_text(clock_boot_ms() - p->wait->began).z);
    line_put(p, p->n_ended > p->n_done ? PAINT_RED : PAINT_GREEN, str_dupz(&p->arena, line));
}

void wait_draw(struct wait *wait)
{
    struct picture p = { .wait = wait, .now = clock_wall_ms() };
    term_measure(&wait->screen);
    p.rows_left = wait->screen.rows - ROWS_SPARE;
    wait_erase(wait);
    wait->picture++;
    for (uint32_t i = 0; i < wait->n_tasks; i++)
        if (wait->tasks[i].wanted)
            tree_put(&p, i, "", true, 0);
    for (size_t i = 0; i < wait->n_lanes; i++)
        lane_put(&p, &wait->lanes[i]);
    if (p.hidden > 0)
        line_put(&p, PAINT_DIM, str_dupz(&p.arena, str_fmt(&p.arena, "... and %zu more", p.hidden)));
    bar_put(&p);
    fflush(stderr);
    wait->n_drawn = p.n_lines;
    arena_release(&p.arena);
}
