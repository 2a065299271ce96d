/* gradrun: starts a program once per device or core and watches the processes. */
#include "base/log.h"
#include "base/option.h"
#include "base/streams.h"
#include "launch/launch.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 4096

static const char intro[] =
    "usage: gradrun [OPTIONS] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Starts PROGRAM several times on this host as the ranks of one job. A name without a slash\n"
    "is looked for in PATH and then beside gradrun. A program that ends in .py runs under\n"
    "python3. Ranks find each other through the variables that torchrun sets (RANK,\n"
    "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT ...).\n"
    "\n"
    "  gradrun --nproc-per-node 2 gradus train ...   two ranks of our trainer\n"
    "  gradrun --nproc-per-node 4 ./my_program       any program\n"
    "  gradrun --nproc_per_node=2 train.py --lr 0.1  a PyTorch script\n"
    "\n"
    "When a rank fails, the others are ended (SIGTERM, later SIGKILL) and the first failure\n"
    "is reported. Exit code: 0 when all ranks ended with 0, else that of the rank that\n"
    "failed first, or 128 plus the signal that killed it; 2 for wrong usage.\n"
    "\n";

typedef struct options {
    int64_t n_ranks, port, shutdown_s;
    bool standalone, no_python, help, version;
} options;

static gr_status print_help(const gr_option *table)
{
    gr_text text = GR_TEXT_INIT;

    gr_option_help(table, &text);
    printf("%s%s", intro, gr_text_str(&text));
    gr_text_fini(&text);
    return gr_stream_flush(stdout);
}

static gr_status print_version(void)
{
    printf("gradrun %s\n", GR_VERSION);
    return gr_stream_flush(stdout);
}

static gr_status run(int argc, char **argv, int *exit_code, gr_text *report)
{
    options o = { .n_ranks = 1, .shutdown_s = 30 };
    gr_option table[] = {
        { "nproc-per-node", GR_OPTION_INT, &o.n_ranks, 1, MAX_RANKS, NULL, "N", "ranks to start" },
        { "master-port", GR_OPTION_INT, &o.port, 0, 65535, NULL, "P",
          "port of the key-value store; 0: a free one" },
        { "shutdown-timeout", GR_OPTION_INT, &o.shutdown_s, 0, 86400, NULL, "S",
          "seconds from SIGTERM to SIGKILL" },
        { "standalone", GR_OPTION_FLAG, &o.standalone, 0, 0, NULL, NULL,
          "one host with a free port, as without it; for torchrun's users" },
        { "no-python", GR_OPTION_FLAG, &o.no_python, 0, 0, NULL, NULL,
          "execute a PROGRAM that ends in .py directly" },
        { "help", GR_OPTION_FLAG, &o.help, 0, 0, NULL, NULL, "print this and exit" },
        { "version", GR_OPTION_FLAG, &o.version, 0, 0, NULL, NULL, "print the version and exit" },
        { "h", GR_OPTION_FLAG, &o.help, 0, 0, NULL, NULL, NULL },
        { 0 },
    };
    gr_option *short_help = &table[sizeof(table) / sizeof(table[0]) - 2];
    gr_launch_config config = GR_LAUNCH_CONFIG_INIT;
    int n_used;

    GR_TRY(gr_log_setup(0));
    GR_TRY(gr_option_parse(table, argc - 1, argv + 1, &n_used));
    if (o.help) {
        o.help = false;                 /* the table shows defaults */
        *short_help = (gr_option){ 0 }; /* and each option once */
        return print_help(table);
    }
    if (o.version)
        return print_version();
    config.argv = argv + 1 + n_used;
    if (!config.argv[0])
        return gr_fail(GR_ERR_ARG, "no program to start; try gradrun --help");
    config.n_ranks = (int)o.n_ranks;
    config.port = (int)o.port;
    config.shutdown_ms = (int)o.shutdown_s * 1000;
    config.no_python = o.no_python;
    return gr_launch(&config, exit_code, report);
}

int main(int argc, char **argv)
{
    gr_text report = GR_TEXT_INIT;
    int exit_code = 0;
    gr_status st = gr_streams_open();

    if (st == GR_OK)
        st = run(argc, argv, &exit_code, &report);
    if (st != GR_OK) {
        fprintf(stderr, "gradrun: %s: %s\n", gr_status_text(st), gr_error_message());
        exit_code = st == GR_ERR_ARG ? 2 : 1;
    } else if (report.len > 0) {
        fprintf(stderr, "gradrun: %s", gr_text_str(&report));
    }
    gr_text_fini(&report);
    return exit_code;
}
