/* Commands of recipes: found, helped, refused and run like those of the program. */
#include "check.h"
#include "gradus/settings.h"
#include "train/command.h"

#include <stdio.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

static char said[200]; /* what the command was handed */

static gr_status draw(const gr_recipe_call *c)
{
    snprintf(said, sizeof(said), "%s %d", c->words[0], (int)gr_settings_int(c->settings, "n"));
    gr_say(c, "%s: %d pictures", c->words[0], (int)gr_settings_int(c->settings, "n"));
    return gr_settings_int(c->settings, "n") == 13
               ? gr_settings_fail(c->settings, "n", "is unlucky")
               : GR_OK;
}

static gr_status measure(const gr_recipe_call *c)
{
    snprintf(said, sizeof(said), "%s", gr_settings_text(c->settings, "kind"));
    return GR_OK;
}

static const gr_key draw_keys[] = {
    { .name = "n", .kind = GR_KEY_INT, .preset = "8", .min = 1, .max = 100, .help = "pictures" }
};
static const gr_key measure_keys[] = { { .name = "kind",
                                         .kind = GR_KEY_CHOICE,
                                         .preset = "scribble",
                                         .choices = "scribble|pseudo",
                                         .help = "of maps" } };
static const gr_recipe_command seg_commands[] = {
    { "sample-data", "draw a small data set", draw_keys, N(draw_keys), "DIR", 1, draw },
    { "distance-map", "distances from scribbles", measure_keys, N(measure_keys), NULL, 0, measure },
};
static const gr_recipe_command jit_commands[] = {
    { "sample-data", "write a few texts", draw_keys, N(draw_keys), "DIR", 1, draw },
};
static const gr_recipe seg = { .abi = GR_RECIPE_ABI,
                               .name = "seg",
                               .help = "pixels",
                               .commands = seg_commands,
                               .n_commands = N(seg_commands) };
static const gr_recipe jit = { .abi = GR_RECIPE_ABI,
                               .name = "jit",
                               .help = "pictures",
                               .commands = jit_commands,
                               .n_commands = N(jit_commands) };
static const gr_recipe *const recipes[] = { &seg, &jit, NULL };

static gr_text out;

static gr_status gradus(const char *line)
{
    static char text[300];
    char *argv[16] = { text }, *rest = text;
    gr_command c = { .program = "gradus", .recipes = recipes, .out = stdout };
    const gr_verb *verb = NULL;
    bool wants_help = false;
    int argc = 0, signal = 0;

    snprintf(text, sizeof(text), "gradus %s", line);
    while ((argv[argc] = strsep(&rest, " ")))
        argc++;
    out.len = 0;
    said[0] = '\0';
    GR_TRY(gr_command_choose(&c, argc, argv, &verb, &wants_help));
    if (wants_help)
        verb->show_help(&c, &out);
    else
        GR_TRY(verb->run(&c, &out, &signal));
    return gr_text_status(&out);
}

static void test_run(void)
{
    GR_CHECK_OK(gradus("sample-data seg there --n 3"));
    GR_CHECK_STR(said, "there 3");
    GR_CHECK_OK(gradus("sample-data jit --n=4 here"));
    GR_CHECK_STR(said, "here 4");
    GR_CHECK_OK(gradus("distance-map --kind PSEUDO")); /* of one recipe alone */
    GR_CHECK_STR(said, "pseudo");
    GR_CHECK_OK(gradus("distance-map seg"));
    GR_CHECK_STR(said, "scribble");
}

static void test_refused(void)
{
    GR_CHECK_FAILS(gradus("sample-data there"), GR_ERR_ARG,
                   "several recipes have the command 'sample-data': gradus sample-data RECIPE ..., "
                   "of seg, jit");
    GR_CHECK_FAILS(gradus("sample-data seg"), GR_ERR_ARG,
                   "sample-data: say DIR; see 'gradus sample-data --help'");
    GR_CHECK_FAILS(gradus("sample-data seg a b"), GR_ERR_ARG, "unexpected word 'b'");
    GR_CHECK_FAILS(gradus("sample-data seg a --n 0"), GR_ERR_ARG, "flag '--n'");
    GR_CHECK_FAILS(gradus("sample-data seg a --nn 2"), GR_ERR_ARG,
                   "unknown flag '--nn'; did you mean '--n'?");
    GR_CHECK_FAILS(gradus("sample-data seg a --colour 2"), GR_ERR_ARG,
                   "'gradus sample-data --help' lists all");
    GR_CHECK_FAILS(gradus("sample-data seg a --n 13"), GR_ERR_ARG,
                   "sample-data: flag '--n': is unlucky");
    GR_CHECK_FAILS(gradus("distance-maps"), GR_ERR_ARG, "did you mean 'distance-map'?");
    GR_CHECK_FAILS(gradus("tran"), GR_ERR_ARG, "did you mean 'train'?");
}

static void check_shown(const char *line, const char *part, bool is_there)
{
    GR_CHECK_OK(gradus(line));
    if ((strstr(out.str, part) != NULL) != is_there)
        fprintf(stderr, "'%s' in:\n%s\n", part, out.str);
    GR_CHECK((strstr(out.str, part) != NULL) == is_there);
}

static void test_help(void)
{
    check_shown("help", "distance-map  distances from scribbles (recipe seg)\n", true);
    check_shown("help sample-data", "usage: gradus sample-data jit DIR [FLAG...]\n", true);
    check_shown("help sample-data", "usage: gradus sample-data seg DIR [FLAG...]\n", true);
    check_shown("sample-data seg --help", "sample-data jit", false);
    check_shown("sample-data seg --help", "pictures [8]\n", true);
    check_shown("distance-map --help", "usage: gradus distance-map [FLAG...]\n", true);
    check_shown("distance-map --help", "--kind scribble|pseudo", true);
}

int main(void)
{
    out = (gr_text)GR_TEXT_INIT;
    test_run();
    test_refused();
    test_help();
    gr_text_fini(&out);
    return 0;
}
