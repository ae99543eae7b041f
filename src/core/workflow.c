#include "core/workflow.h"

const struct workflow_task *workflow_find(const struct workflow *workflow, struct str name)
{
    for (size_t i = 0; i < workflow->n_tasks; i++)
        if (str_eq(workflow->tasks[i].name, name))
            return &workflow->tasks[i];
    return NULL;
}
