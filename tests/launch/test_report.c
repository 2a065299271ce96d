/* The report: who is to blame, in which words; error files; prefixes and filters. */
#include "check.h"
#include "launch/error_file.h"
#include "launch/lines.h"
#include "launch/report.h"

#include <signal.h>
#include <unistd.h>

static const gr_launch_config config = {
    .n_local = 3, .log_dir = "/dev/null", .redirects = "0", .tee = "0", .role = "default"
};

/* exit code, signal, order, told */
typedef struct end {
    int code, signal, order;
    bool told;
} end;

static worker made(int rank, end e)
{
    return (worker){ .rank = rank,
                     .local_rank = rank,
                     .pid = 100 + rank,
                     .has_ended = true,
                     .was_told = e.told,
                     .exit_code = e.signal ? -1 : e.code,
                     .signal = e.signal,
                     .order = e.order,
                     .ended_ns = 1500000000 };
}

static void test_blame(void)
{
    static const struct {
        end ends[3];
        int root, code; /* root -1: nobody */
        const char *part;
    } rows[] = {
        { { { 0, 0, 0, false }, { 0, 0, 1, false }, { 0, 0, 2, false } }, -1, 0, "" },
        /* a peer's complaint came first, the culprit second */
        { { { GR_EXIT_PEER, 0, 0, false }, { 3, 0, 1, false }, { -1, SIGTERM, 2, true } },
          1,
          3,
          "rank 1 on host" },
        { { { -1, SIGKILL, 1, false }, { 7, 0, 0, false }, { 0, 0, 2, false } },
          1,
          7,
          "then rank 0: killed by signal 9 (SIGKILL)" },
        { { { -1, SIGSEGV, 0, false }, { -1, SIGTERM, 1, true }, { -1, SIGKILL, 2, true } },
          0,
          128 + SIGSEGV,
          "failed first: killed by signal 11 (SIGSEGV), process 100, after 1.5 s" },
        /* all were told: nobody failed */
        { { { -1, SIGINT, 0, true }, { -1, SIGINT, 1, true }, { 130, 0, 2, true } },
          0,
          130,
          "stopped; rank 0: killed by signal 2 (SIGINT) when told to end" },
        /* a rank was asked to stop and did; another one missed it, a third was told by us */
        { { { GR_EXIT_PEER, 0, 0, false }, { 128 + SIGUSR1, 0, 1, false }, { 138, 0, 2, true } },
          1,
          128 + SIGUSR1,
          "stopped; rank 1: exit code 138, process 101" },
        { { { 129, 0, 0, false }, { 143, 0, 1, false }, { 130, 0, 2, false } },
          0,
          129,
          "stopped; rank 0: exit code 129, process 100" },
        /* one that failed beside it makes a failure of it; so does a signal that kills */
        { { { 130, 0, 0, false }, { 1, 0, 1, false }, { 130, 0, 2, false } },
          1,
          1,
          "rank 1 on host" },
        { { { -1, SIGTERM, 0, false }, { 143, 0, 1, true }, { 143, 0, 2, true } },
          0,
          143,
          "failed first: killed by signal 15 (SIGTERM), process 100" },
        { { { GR_EXIT_PEER, 0, 1, false }, { GR_EXIT_PEER, 0, 0, false }, { 0, 0, 2, false } },
          1,
          GR_EXIT_PEER,
          "rank 1 on host" },
        /* nobody failed of itself: one went too early, whenever its end was noticed */
        { { { GR_EXIT_PEER, 0, 1, false }, { 0, 0, 0, false }, { GR_EXIT_PEER, 0, 2, false } },
          0,
          GR_EXIT_PEER,
          "  rank 1 ended without a failure, perhaps too early: exit code 0, process 101" },
        { { { GR_EXIT_PEER, 0, 0, false }, { 0, 0, 2, false }, { GR_EXIT_PEER, 0, 1, false } },
          0,
          GR_EXIT_PEER,
          "  rank 1 ended without a failure, perhaps too early: exit code 0, process 101" },
    };
    gr_logs *logs;

    GR_CHECK_OK(gr_logs_create(&logs, &config));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        worker w[3];
        gr_text text = GR_TEXT_INIT;
        const worker *root;

        for (int r = 0; r < 3; r++)
            w[r] = made(r, rows[i].ends[r]);
        root = gr_report_root(w, 3);
        GR_CHECK_EQ(root ? root->rank : -1, rows[i].root);
        GR_CHECK_EQ(gr_report_exit_code(root, 0), rows[i].code);
        gr_report_write(&text, w, 3, 0, 0, logs);
        if (!strstr(gr_text_str(&text), rows[i].part)) {
            fprintf(stderr, "row %zu: no '%s' in: %s\n", i, rows[i].part, gr_text_str(&text));
            exit(1);
        }
        gr_text_fini(&text);
    }
    gr_logs_destroy(logs);
}

/* Whoever stops a job is told so, with the code of the signal, unless a rank failed of itself or
 * ended badly when told. */
static void test_stops(void)
{
    static const struct {
        end ends[2];
        int code;
        const char *text; /* its beginning */
    } rows[] = {
        { { { 0, 0, 0, true }, { 0, 0, 1, true } },
          143,
          "stopped by SIGTERM; 2 ranks ended with exit code 0 when told to end\n" },
        { { { 143, 0, 1, true }, { 0, 0, 0, true } },
          143,
          "stopped by SIGTERM; rank 0: exit code 143 when told to end" },
        { { { 130, 0, 0, false }, { -1, SIGHUP, 1, true } },
          143,
          "stopped by SIGTERM; rank 0: exit code 130, process 100" },
        { { { GR_EXIT_PEER, 0, 0, true }, { 143, 0, 1, true } },
          143,
          "stopped by SIGTERM; rank 0: exit code 4 when told to end" },
        { { { 143, 0, 0, true }, { -1, SIGKILL, 1, true } },
          137,
          "stopped by SIGTERM; rank 1: killed by signal 9 (SIGKILL) when told to end" },
        { { { 143, 0, 0, true }, { 1, 0, 1, true } },
          1,
          "stopped by SIGTERM; rank 1: exit code 1 when told to end" },
        { { { 3, 0, 0, false }, { 143, 0, 1, true } }, 3, "rank 0 on host" },
    };
    gr_logs *logs;

    GR_CHECK_OK(gr_logs_create(&logs, &config));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        worker w[2] = { made(0, rows[i].ends[0]), made(1, rows[i].ends[1]) };
        gr_text text = GR_TEXT_INIT;

        GR_CHECK_EQ(gr_report_exit_code(gr_report_root(w, 2), SIGTERM), rows[i].code);
        gr_report_write(&text, w, 2, SIGTERM, 0, logs);
        if (strncmp(gr_text_str(&text), rows[i].text, strlen(rows[i].text)) != 0) {
            fprintf(stderr, "row %zu: no '%s' in: %s\n", i, rows[i].text, gr_text_str(&text));
            exit(1);
        }
        gr_text_fini(&text);
    }
    gr_logs_destroy(logs);
}

static void test_tail(void)
{
    worker w = made(0, (end){ 1, 0, 0, false });
    gr_text text = GR_TEXT_INIT;
    gr_logs *logs;

    GR_CHECK_OK(gr_logs_create(&logs, &config));
    for (int i = 0; i < 30; i++)
        w.tail.len +=
            (size_t)snprintf(w.tail.mem + w.tail.len, TAIL_BYTES - w.tail.len, "line %d\n", i);
    gr_report_write(&text, &w, 1, 0, 0, logs);
    GR_CHECK(strstr(gr_text_str(&text), "    line 29\n") != NULL);
    GR_CHECK(strstr(gr_text_str(&text), "    line 20\n") != NULL);
    GR_CHECK(strstr(gr_text_str(&text), "line 19\n") == NULL);
    gr_text_fini(&text);
    gr_logs_destroy(logs);
}

static void test_error_file(void)
{
    static const struct {
        const char *json, *want; /* NULL: cannot be read */
    } rows[] = {
        { "{\"message\": {\"message\": \"RuntimeError: no\", \"extraInfo\": {\"py_callstack\": "
          "\"Traceback\\nRuntimeError: no\\n\", \"timestamp\": \"1\"}}}",
          "Traceback\nRuntimeError: no" },
        { "{\"message\": {\"message\": \"gone\", \"extraInfo\": {}}}", "gone" },
        { "{\"message\": \"plain\", \"timestamp\": 1}", "plain" },
        { "{\"message\": 3}", NULL },
        { "{\"message\"", NULL },
        { "[]", NULL },
        { "", NULL },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        gr_text text = GR_TEXT_INIT;
        bool ok = gr_error_file_parse(rows[i].json, strlen(rows[i].json), &text);

        GR_CHECK_EQ(ok, rows[i].want != NULL);
        GR_CHECK_STR(gr_text_str(&text), rows[i].want ? rows[i].want : "");
        gr_text_fini(&text);
    }
    GR_CHECK(!gr_error_file_read("/nowhere", NULL));
}

static void test_leave(void)
{
    char path[] = "/tmp/gr_report_XXXXXX";
    int fd = mkstemp(path);
    gr_text text = GR_TEXT_INIT;

    GR_CHECK(fd >= 0);
    close(fd);
    unsetenv("TORCHELASTIC_ERROR_FILE");
    gr_error_file_leave("lost");
    setenv("TORCHELASTIC_ERROR_FILE", "", 1);
    gr_error_file_leave("lost");
    setenv("TORCHELASTIC_ERROR_FILE", "/nowhere/at/all", 1);
    gr_error_file_leave("lost");
    setenv("TORCHELASTIC_ERROR_FILE", path, 1);
    gr_error_file_leave("gradus: a \"text\"\n\t\\");
    unsetenv("TORCHELASTIC_ERROR_FILE");
    GR_CHECK(gr_error_file_read(path, &text));
    GR_CHECK_STR(gr_text_str(&text), "gradus: a \"text\"\n\t\\");
    gr_text_fini(&text);
    unlink(path);
}

static void test_lines(void)
{
    worker w = { .rank = 5, .local_rank = 1 };
    gr_text text = GR_TEXT_INIT;

    gr_prefix_expand(&text, "[${role_name}${local_rank}]:${rank} ${x} $", &config, &w);
    GR_CHECK_STR(gr_text_str(&text), "[default1]:5 ${x} $");
    gr_text_fini(&text);
    GR_CHECK(gr_filter_matches("apple,orange", "an orange\n", 10));
    GR_CHECK(!gr_filter_matches("apple,orange", "a pear\n", 7));
    GR_CHECK(gr_filter_matches("a,,b", "x a,b y", 7) && !gr_filter_matches("a,,b", "x a y", 5));
    GR_CHECK(!gr_filter_matches("", "x", 1) && !gr_filter_matches(NULL, "x", 1));
}

int main(void)
{
    test_blame();
    test_stops();
    test_tail();
    test_error_file();
    test_leave();
    test_lines();
    return 0;
}
