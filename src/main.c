/* main: the command table, and nothing else. Order and headings are those of `weir help`. */
#include "cmd/command.h"

static const struct command_row commands[] = {
    { cmd_serve, &serve_spec, "run" },
    { cmd_executor, &executor_spec, "run" },
    { archive_main, &archive_spec, "archives" },
    { run_main, &run_spec, "archives" },
    { notify_main, &notify_spec, "archives" },
    { lint_main, &lint_spec, "archives" },
    { plan_main, &plan_spec, "archives" },
    { local_main, &local_spec, "archives" },
    { enqueue_main, &enqueue_spec, "work" },
    { wait_main, &wait_spec, "work" },
    { cancel_main, &cancel_spec, "work" },
    { retry_main, &retry_spec, "work" },
    { promote_main, &promote_spec, "work" },
    { pause_main, &pause_spec, "work" },
    { resume_main, &resume_spec, "work" },
    { status_main, &status_spec, "look" },
    { list_main, &list_spec, "look" },
    { show_main, &show_spec, "look" },
    { why_main, &why_spec, "look" },
    { log_main, &log_spec, "look" },
    { artifacts_main, &artifacts_spec, "look" },
    { graph_main, &graph_spec, "look" },
    { history_main, &history_spec, "look" },
    { events_main, &events_spec, "look" },
    { top_main, &top_spec, "look" },
    { nodes_main, &nodes_spec, "operate" },
    { semaphores_main, &semaphores_spec, "operate" },
    { tenants_main, &tenants_spec, "operate" },
    { config_main, &config_spec, "operate" },
    { stats_main, &stats_spec, "operate" },
    { token_main, &token_spec, "operate" },
    { verify_main, &verify_spec, "operate" },
    { backup_main, &backup_spec, "operate" },
    { restore_main, &restore_spec, "operate" },
    { store_main, &store_spec, "operate" },
    { version_main, &version_spec, "help" },
    { help_main, &help_spec, "help" },
    { cmd_shim, &shim_spec, NULL },
};

int main(int argc, char **argv)
{
    return command_main(commands, sizeof commands / sizeof *commands, argc, argv);
}
