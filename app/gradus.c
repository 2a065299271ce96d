/*
 * gradus, the trainer. The commands are in train/; this file finds them, prints what went
 * wrong, and turns it into an exit code.
 */
#include "base/option.h"
#include "base/streams.h"
#include "base/text.h"
#include "recipe/recipes.h"
#include "train/train.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE  2
#define EXIT_SIGNAL 128 /* plus the signal's number */

static int exit_code(gr_status st, int number)
{
    if (st == GR_ERR_STOPPED && number > 0)
        return EXIT_SIGNAL + number; /* said already, with the command to go on */
    if (st == GR_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "gradus: %s: %s\n", gr_status_text(st), gr_error_message());
    if (st == GR_ERR_PEER)
        return GR_EXIT_PEER;
    return st == GR_ERR_ARG ? EXIT_USAGE : EXIT_FAILURE;
}

/* For commands whose output is all they do: what cannot be written is a failure. */
static int end_output(gr_status st)
{
    return exit_code(st == GR_OK ? gr_stream_flush(stdout) : st, 0);
}

static int print_text(gr_text *t)
{
    gr_status st = gr_text_status(t);

    if (st == GR_OK)
        st = gr_stream_write(stdout, gr_text_str(t), t->len);
    gr_text_fini(t);
    return exit_code(st, 0);
}

static int wants_help(const gr_command *c)
{
    for (int i = 0; i < c->argc && strcmp(c->argv[i], "--") != 0; i++)
        if (strcmp(c->argv[i], "--help") == 0 || strcmp(c->argv[i], "-h") == 0)
            return 1;
    return 0;
}

static int help_train(const gr_command *c)
{
    gr_text t = GR_TEXT_INIT;

    gr_train_help(c, &t);
    return print_text(&t);
}

static int run_train(const gr_command *c)
{
    int number = 0;
    gr_status st;

    signal(SIGPIPE, SIG_IGN); /* whoever reads our output may leave; the run goes on */
    st = gr_train(c, &number);
    return exit_code(st, number);
}

static int help_debug(const gr_command *c)
{
    gr_text t = GR_TEXT_INIT;

    gr_debug_help(c, &t);
    return print_text(&t);
}

static int run_debug(const gr_command *c)
{
    return end_output(gr_debug(c));
}

static int help_bench(const gr_command *c)
{
    gr_text t = GR_TEXT_INIT;

    (void)c;
    gr_bench_help(&t);
    return print_text(&t);
}

static int run_bench(const gr_command *c)
{
    return end_output(gr_bench(c));
}

static int run_help(const gr_command *c);

static int run_version(const gr_command *c)
{
    (void)c;
    printf("gradus %s\n", GR_VERSION);
    return end_output(GR_OK);
}

static const struct command {
    const char *name, *help;
    int (*run)(const gr_command *c);
    int (*show_help)(const gr_command *c);
} commands[] = {
    { "train", "train a recipe, here or on all ranks under gradrun", run_train, help_train },
    { "debug", "find the first value that is not finite: gradus debug --nan RECIPE", run_debug,
      help_debug },
    { "bench", "measure this machine with this program", run_bench, help_bench },
    { "help", "this text, that of a command (help train), or all names of settings (help keys)",
      run_help, run_help },
    { "version", "print the version", run_version, run_version },
};

#define N_COMMANDS ((int)(sizeof(commands) / sizeof(commands[0])))

static const struct command *find_command(const char *word)
{
    word += strcmp(word, "--help") == 0 || strcmp(word, "--version") == 0 ? 2 : 0;
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, strcmp(word, "-h") == 0 ? "help" : word) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *word)
{
    const char *names[N_COMMANDS + 1] = { NULL };
    const char *near;

    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    near = gr_nearest(word, names);
    if (near)
        fprintf(stderr, "gradus: there is no command '%s'; did you mean '%s'?\n", word, near);
    else
        fprintf(stderr, "gradus: there is no command '%s'; see 'gradus help'\n", word);
    return EXIT_USAGE;
}

static int help_keys(void)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st = gr_keys_help(&t);

    return st == GR_OK ? print_text(&t) : exit_code(st, 0);
}

static int run_help(const gr_command *c)
{
    const struct command *about;

    if (c->argc > 0 && strcmp(c->argv[0], "keys") == 0)
        return help_keys();

    if (c->argc > 0 && c->argv[0][0] != '-') {
        gr_command rest = *c;

        about = find_command(c->argv[0]);
        if (!about)
            return unknown_command(c->argv[0]);
        rest.argc--;
        rest.argv++;
        if (about->show_help != run_help)
            return about->show_help(&rest);
    }
    printf("gradus %s: data-parallel training\n\nusage: gradus COMMAND [OPTION...]\n\n",
           GR_VERSION);
    for (int i = 0; i < N_COMMANDS; i++)
        printf("  %-9s%s\n", commands[i].name, commands[i].help);
    return end_output(GR_OK);
}

int main(int argc, char **argv)
{
    gr_command c = { .program = argc > 0 ? argv[0] : "gradus",
                     .argc = argc - 2,
                     .argv = argv + 2,
                     .recipes = gr_recipes,
                     .out = stdout };
    const struct command *command;
    gr_status st = gr_streams_open();

    if (st != GR_OK)
        return exit_code(st, 0);
    if (argc < 2) {
        fprintf(stderr, "gradus: say what to do: gradus train RECIPE; see 'gradus help'\n");
        return EXIT_USAGE;
    }
    command = find_command(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    return wants_help(&c) ? command->show_help(&c) : command->run(&c);
}
