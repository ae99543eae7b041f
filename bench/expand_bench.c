/* expand_bench [TASKS]: a workflow of TASKS tasks (1,000): what reading and checking it costs, and making tasks and
 * edges of it; beside libyaml alone, which only looks at the same bytes event by event. Each as often as CELL_S allows,
 * best of three parts. */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "bench.h"
#include "core/expand.h"
#include "engine/definition.h"

enum { WIDTH = 10, PARTS = 3, NEEDS = 3 };
#define TEXT_MAX ((size_t)1 << 20)

/* workflow_write: levels of ten; each task depends on three of the level before and on its own predecessor. */
static void workflow_write(struct buf *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        buf_addf(out, "- name: task-%lld\n  depends: [PREV", (long long)i);
        for (int64_t k = 0; k < NEEDS && i >= WIDTH; k++) {
            buf_addf(out, ", task-%lld", (long long)((i / WIDTH - 1) * WIDTH + (i + k) % WIDTH));
        }
        buf_addf(out, "]\n  command: make part-%lld\n  timeout: 30m\n  paths: [\"src/%lld/**\"]\n", (long long)i,
            (long long)i);
    }
}

static void yaml_read(struct str text)
{
    yaml_parser_t parser;
    yaml_event_t event;
    bool end = false;
    if (!yaml_parser_initialize(&parser)) {
        bench_die("libyaml can't begin");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.ptr, text.len);
    while (!end) {
        if (!yaml_parser_parse(&parser, &event)) {
            bench_die("libyaml refuses the workflow");
        }
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
}

static int64_t earlier_get(void *context, struct str name, int64_t upto, bool ran)
{
    (void)context;
    (void)name;
    (void)ran;
    return upto;
}

struct subject {
    struct str text;
    struct definition *definition;
    size_t n_tasks, n_edges;
};

static void step_yaml(struct subject *subject)
{
    yaml_read(subject->text);
}

static void step_read(struct subject *subject)
{
    struct definition_file file = { STR("_workflows/large.yaml"), subject->text };
    struct definition *definition = definition_read(&file, 1, (struct str){ 0 });
    if (!definition->valid) {
        bench_die("%.*s", STR_ARG(definition->summary));
    }
    definition_release(definition);
}

static void step_expand(struct subject *subject)
{
    struct arena arena = { 0 };
    struct expansion out;
    int64_t prev = 1;
    struct expand_input input = {
        .workflow = &subject->definition->workflow, .rev = 2, .prevs = &prev, .n_prevs = 1, .earlier = earlier_get
    };
    expand(&input, &arena, &out);
    subject->n_tasks = out.n_tasks;
    subject->n_edges = out.n_edges;
    arena_release(&arena);
}

static void step_measure(const char *metric, void (*step)(struct subject *subject), struct subject *subject)
{
    double best = 0, seconds = bench_seconds() / PARTS / PARTS;
    for (int part = 0; part < PARTS; part++) {
        int64_t start = bench_now_ns(), now = start, n = 0;
        for (; now == start || (double)(now - start) < seconds * 1e9; now = bench_now_ns(), n++) {
            step(subject);
        }
        double us = (double)(now - start) / 1000 / (double)n;
        best = part == 0 || us < best ? us : best;
    }
    bench_result("expand", metric, best, "us");
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? bench_number(argv[1]) : 1000;
    struct buf text;
    buf_init(&text, TEXT_MAX);
    workflow_write(&text, n);
    if (text.full) {
        bench_die("so many tasks don't fit into a workflow file");
    }
    struct subject subject = { .text = buf_str(&text) };
    struct definition_file file = { STR("_workflows/large.yaml"), subject.text };
    subject.definition = definition_read(&file, 1, (struct str){ 0 });
    if (!subject.definition->valid) {
        bench_die("%.*s", STR_ARG(subject.definition->summary));
    }
    step_measure("libyaml", step_yaml, &subject);
    step_measure("read", step_read, &subject);
    step_measure("expand", step_expand, &subject);
    bench_result("expand", "bytes", (double)subject.text.len, "bytes");
    bench_result("expand", "tasks", (double)subject.n_tasks, "tasks");
    bench_result("expand", "edges", (double)subject.n_edges, "edges");
    definition_release(subject.definition);
    buf_release(&text);
    return 0;
}
