/*
 * gradus, the trainer. The commands are in train/; this file prints what they say and what
 * went wrong, and turns it into an exit code.
 */
#include "base/shown.h"
#include "base/streams.h"
#include "base/text.h"
#include "launch/bind.h"
#include "launch/error_file.h"
#include "recipe/recipes.h"
#include "train/command.h"
#include "train/config/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_SIGNAL 128 /* plus the signal's number */

static int exit_code(gr_status st, int number)
{
    char text[GR_ERROR_TEXT + 64];

    if (st == GR_ERR_STOPPED && number > 0)
        return EXIT_SIGNAL + number; /* said already, with the command to go on */
    if (st == GR_OK)
        return EXIT_SUCCESS;
    snprintf(text, sizeof(text), "gradus: %s: %s", gr_status_text(st), gr_error_message());
    fprintf(stderr, "%s\n", text);
    if (st != GR_ERR_PEER) /* torchrun blames the first who leaves one */
        gr_error_file_leave(text);
    return gr_exit_code(st);
}

static gr_status run(const gr_command *c, const gr_verb *verb, gr_text *out, int *number)
{
    if (verb->use & GR_VERB_JOB)
        GR_TRY(gr_process_relaunch(c, verb->name));
    if (verb->use & GR_VERB_TASK)
        signal(SIGPIPE, SIG_IGN); /* whoever reads our output may leave; the run goes on */
    GR_TRY(verb->run(c, out, number));
    /* For what only prints, text that is lost is a failure; a run does not depend on it. */
    return verb->use & GR_VERB_TASK ? GR_OK : gr_stream_flush(stdout);
}

int main(int argc, char **argv)
{
    static const gr_library launcher[] = {
        { "hwloc", gr_hwloc_version, "gradrun --bind cannot be used" },
        { 0 },
    };
    gr_command c = { .program = argc > 0 ? argv[0] : "gradus",
                     .recipes = gr_recipes,
                     .out = stdout,
                     .libraries = launcher };
    const gr_verb *verb = NULL;
    gr_text out = GR_TEXT_INIT;
    bool wants_help = false;
    int number = 0;
    gr_status st = gr_streams_open();

    if (st == GR_OK)
        st = gr_command_choose(&c, argc, argv, &verb, &wants_help);
    if (st == GR_OK && wants_help)
        verb->show_help(&c, &out);
    else if (st == GR_OK)
        st = run(&c, verb, &out, &number);
    gr_text_make_shown(&out, 0, GR_SHOWN_LINES);
    if (st == GR_OK)
        st = gr_text_status(&out);
    if (st == GR_OK && out.len > 0)
        st = gr_stream_write(stdout, gr_text_str(&out), out.len);
    gr_text_fini(&out);
    return exit_code(st, number);
}
