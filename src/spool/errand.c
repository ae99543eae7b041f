/* errand: see errand.h. */
#include "spool/errand.h"

#include "base/arena.h"

enum errand_state { ERRAND_WAITING, ERRAND_SUBMITTED, ERRAND_DONE };

struct errand { /* the thread's; one that is never answered stays to the end of the process */
    struct list_node node;
    struct errands *errands;
    struct command command;
    struct arena arena;
    enum errand_state state; /* under the lock */
};

static struct list never_answered;

static void answered(struct command *command)
{
    struct errand *errand = command->owner;
    pthread_mutex_lock(&errand->errands->lock);
    errand->state = ERRAND_DONE;
    pthread_cond_broadcast(&errand->errands->news);
    pthread_mutex_unlock(&errand->errands->lock);
}

static void loop_woken(void *owner)
{
    struct errands *errands = owner;
    for (;;) {
        pthread_mutex_lock(&errands->lock);
        struct list_node *node = errands->closed ? NULL : list_take_first(&errands->waiting);
        struct errand *errand = node != NULL ? CONTAINER_OF(node, struct errand, node) : NULL;
        if (errand != NULL)
            errand->state = ERRAND_SUBMITTED;
        pthread_mutex_unlock(&errands->lock);
        if (errand == NULL)
            return;
        engine_submit(errands->engine, &errand->command);
    }
}

void errands_open(struct errands *errands, struct loop *loop, struct engine *engine)
{
    *errands = (struct errands){ .loop = loop, .engine = engine };
    pthread_mutex_init(&errands->lock, NULL);
    pthread_cond_init(&errands->news, NULL);
    loop_on_wake(loop, loop_woken, errands);
}

void errands_closing(struct errands *errands)
{
    pthread_mutex_lock(&errands->lock);
    errands->closed = true;
    pthread_cond_broadcast(&errands->news);
    pthread_mutex_unlock(&errands->lock);
}

bool errands_closed(struct errands *errands)
{
    pthread_mutex_lock(&errands->lock);
    bool closed = errands->closed;
    pthread_mutex_unlock(&errands->lock);
    return closed;
}

void errands_leave(struct errands *errands)
{
    pthread_mutex_lock(&errands->lock);
    errands->closed = errands->left = true;
    pthread_cond_broadcast(&errands->news);
    pthread_mutex_unlock(&errands->lock);
    loop_forget(errands->loop, errands);
}

void errands_release(struct errands *errands)
{
    pthread_cond_destroy(&errands->news);
    pthread_mutex_destroy(&errands->lock);
}

/* errand_wait: until it is answered, or nobody will. */
static enum errand_state errand_wait(struct errands *errands, struct errand *errand)
{
    pthread_mutex_lock(&errands->lock);
    list_append(&errands->waiting, &errand->node);
    loop_wake(errands->loop);
    while (errand->state != ERRAND_DONE && !errands->left && !(errands->closed && errand->state == ERRAND_WAITING))
        pthread_cond_wait(&errands->news, &errands->lock);
    enum errand_state state = errand->state;
    list_remove(&errands->waiting, &errand->node);
    if (state == ERRAND_SUBMITTED)
        list_append(&never_answered, &errand->node);
    pthread_mutex_unlock(&errands->lock);
    return state;
}

static void err_take(const struct err *from, struct err *out)
{
    err_set(out, from->code, "%s", from->text);
    for (size_t i = 0; i < from->n_items && out->arena != NULL; i++)
        err_item(out, from->code, from->items[i].path, "%.*s", STR_ARG(from->items[i].message));
}

/* The strings of the definition live as long as the caller waits; a command that is never answered isn't looked at any
 * more. */
bool errand_run(struct errands *errands, const struct changeset_def *def, struct errand_answer *out, struct err *err)
{
    struct errand *errand = mem_alloc_zero(sizeof *errand);
    errand->errands = errands;
    errand->command = (struct command){ .kind = CMD_CHANGESET,
        .actor = { def->submitter, STR(TENANT_DEFAULT) },
        .arena = &errand->arena,
        .done = answered,
        .owner = errand,
        .in.changeset.def = *def };
    enum errand_state state = errand_wait(errands, errand);
    if (state == ERRAND_SUBMITTED)
        return err_set(err, ERR_outcome_unknown, "the server stopped meanwhile");
    bool good = state == ERRAND_DONE && errand->command.err.code == ERR_none;
    if (good)
        *out = (struct errand_answer){ errand->command.out.changeset.task, errand->command.out.changeset.existing };
    else if (state == ERRAND_DONE)
        err_take(&errand->command.err, err);
    else
        err_set(err, ERR_unavailable, "the server is stopping");
    arena_release(&errand->arena);
    mem_free(errand);
    return good;
}
