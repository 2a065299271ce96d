/* gradrun and gradrun-launch from words to exit code. */
#include "base/log.h"
#include "launch/launch.h"

static void print_completion(gr_text *out, int shell)
{
    const char *name;

    if (shell == 1)
        gr_text_add(out, "complete -o default -W '");
    else if (shell == 2)
        gr_text_add(out, "compctl -f -k '(");
    else
        gr_text_add(out, "complete gradrun 'n/*/f/' 'c/--/(");
    for (int i = 0; (name = gr_run_option_name(i)) != NULL; i++)
        gr_text_addf(out, "%s%s%s", i ? " " : "", shell == 3 ? "" : "--", name);
    gr_text_add(out, shell == 1 ? "' gradrun\n" : shell == 2 ? ")' gradrun\n" : ")/'\n");
}

static gr_status run(const gr_run_options *o, bool legacy, char **argv, gr_text *out,
                     gr_launch_result *result)
{
    gr_launch_config config;

    if (o->help) {
        gr_run_options_help(out, legacy);
        return gr_text_status(out);
    }
    if (o->version) {
        gr_text_addf(out, "%s %s\n", legacy ? "gradrun-launch" : "gradrun", GR_VERSION);
        return gr_text_status(out);
    }
    if (o->completion) {
        print_completion(out, o->completion);
        return gr_text_status(out);
    }
    GR_TRY(gr_launch_config_make(&config, o, legacy, argv));
    return gr_launch(&config, result);
}

gr_status gr_launch_program(bool legacy, int argc, char **argv, gr_text *out,
                            gr_launch_result *result)
{
    gr_run_options o;
    gr_run_words *words;
    gr_status st;
    int n_used;

    GR_TRY(gr_log_setup(0));
    GR_TRY(gr_run_options_parse(&o, &words, legacy, argc - 1, argv + 1, &n_used));
    st = run(&o, legacy, argv + 1 + n_used, out, result);
    gr_run_words_destroy(words);
    return st;
}
