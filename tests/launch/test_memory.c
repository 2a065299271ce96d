/* Every allocation on the way to a started rank fails once: no leak, no lost failure. */
#include "alloc_fail.h"
#include "launch/command.h"
#include "launch/environ.h"
#include "launch/lines.h"
#include "scratch.h"

static gr_status prepare(void *arg)
{
    static char word[] = "--nproc", value[] = "2", role[] = "--role=x", program[] = "prog";
    char *argv[] = { word, value, role, program, NULL };
    gr_place place = { .n_ranks = 2, .n_hosts = 1, .master_addr = "127.0.0.1" };
    gr_run_options o;
    gr_run_words *words = NULL;
    gr_launch_config c;
    gr_environ e = { 0 };
    gr_command m = { 0 };
    int n_used;
    gr_status st;

    (void)arg;
    st = gr_run_options_parse(&o, &words, false, 4, argv, &n_used);
    if (st == GR_OK)
        st = gr_launch_config_make(&c, &o, false, argv + n_used);
    if (st == GR_OK)
        st = gr_environ_init(&e, &c, &place);
    for (int r = 0; r < 2 && st == GR_OK; r++)
        st = gr_environ_rank(&e, &c, &place, r, "/tmp/error.json");
    if (st == GR_OK)
        st = gr_command_init(&m, &c);
    gr_command_fini(&m);
    gr_environ_fini(&e);
    gr_run_words_destroy(words);
    return st;
}

static gr_status make_logs(void *arg)
{
    gr_launch_config c = {
        .n_local = 2, .log_dir = (const char *)arg, .redirects = "0", .tee = "3", .run_id = "job"
    };
    gr_text path = GR_TEXT_INIT;
    gr_logs *l = NULL;
    gr_status st = gr_logs_create(&l, &c);

    if (st == GR_OK)
        st = gr_logs_begin(l, 0);
    if (st == GR_OK) {
        gr_logs_path(l, 1, "error.json", &path);
        st = gr_text_status(&path);
    }
    gr_text_fini(&path);
    gr_logs_destroy(l);
    return st;
}

int main(void)
{
    static char folder[] = "logs";

    gr_test_scratch();
    clearenv();
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("PET_MAX_RESTARTS", "2", 1);
    GR_CHECK(gr_alloc_fail_each(prepare, NULL) > 30);
    GR_CHECK(gr_alloc_fail_each(make_logs, folder) > 5);
    return 0;
}
