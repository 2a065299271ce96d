/* Statuses, messages, their limits, and that threads keep them apart. */
#include "base/alloc.h"
#include "base/status.h"
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void texts(void)
{
    GR_CHECK_STR(gr_status_text(GR_OK), "ok");
    GR_CHECK_STR(gr_status_text(GR_ERR_STOPPED), "stopped on request");
    GR_CHECK_STR(gr_status_text((gr_status)99), "unknown status");
    GR_CHECK_STR(gr_status_text((gr_status)-1), "unknown status");
    GR_CHECK(gr_exit_code(GR_OK) == 0 && gr_exit_code(GR_ERR_ARG) == 2);
    GR_CHECK(gr_exit_code(GR_ERR_PEER) == 4 && gr_exit_code(GR_ERR_IO) == 1);
    GR_CHECK_STR(gr_error_message(), "");
}

static gr_status two_layers(void)
{
    gr_status st = gr_fail(GR_ERR_FORMAT, "head says %d tokens", 500);

    return gr_wrap(st, "shard '%s'", "a/007.bin");
}

static void fail_and_wrap(void)
{
    long before = gr_alloc_count();

    GR_CHECK_FAILS(two_layers(), GR_ERR_FORMAT, "head");
    GR_CHECK_STR(gr_error_message(), "shard 'a/007.bin': head says 500 tokens");
    /* The old message as an argument of the new one. */
    GR_CHECK_EQ(gr_fail(GR_ERR_IO, "again: %s", gr_error_message()), GR_ERR_IO);
    GR_CHECK_STR(gr_error_message(), "again: shard 'a/007.bin': head says 500 tokens");
    GR_CHECK_EQ(gr_wrap(GR_OK, "nothing"), GR_OK);
    GR_CHECK_STR(gr_error_message(), "again: shard 'a/007.bin': head says 500 tokens");
    GR_CHECK_EQ(gr_alloc_count(), before);
}

static void long_texts_are_cut(void)
{
    char big[2000];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    gr_fail(GR_ERR_IO, "%.511s", big);
    GR_CHECK_EQ(strlen(gr_error_message()), 511);
    GR_CHECK(strcmp(gr_error_message() + 508, "xxx") == 0);
    gr_fail(GR_ERR_IO, "%.512s", big);
    GR_CHECK_EQ(strlen(gr_error_message()), 511);
    GR_CHECK_STR(gr_error_message() + 508, "...");
    gr_fail(GR_ERR_IO, "inner");
    gr_wrap(GR_ERR_IO, "%.507s", big);
    GR_CHECK_STR(gr_error_message() + 507, ":...");
    gr_fail(GR_ERR_IO, "inner");
    gr_wrap(GR_ERR_IO, "%s", big);
    GR_CHECK_STR(gr_error_message() + 507, "x...");
    gr_fail(GR_ERR_IO, "%s", "");
    gr_wrap(GR_ERR_IO, "alone");
    GR_CHECK_STR(gr_error_message(), "alone");
}

static void *other_thread(void *arg)
{
    gr_error *e = (gr_error *)arg;

    GR_CHECK_STR(gr_error_message(), "");
    gr_error_take(e, gr_fail(GR_ERR_PEER, "from the worker"));
    return NULL;
}

static void threads_are_apart(void)
{
    pthread_t t;
    gr_error e;

    gr_fail(GR_ERR_IO, "mine");
    GR_CHECK_EQ(pthread_create(&t, NULL, other_thread, &e), 0);
    pthread_join(t, NULL);
    GR_CHECK_STR(gr_error_message(), "mine");
    GR_CHECK_FAILS(gr_error_raise(&e), GR_ERR_PEER, "from the worker");
    e.status = GR_OK;
    gr_fail(GR_ERR_IO, "kept");
    GR_CHECK_OK(gr_error_raise(&e));
    GR_CHECK_STR(gr_error_message(), "kept");
}

static void bug_aborts(void)
{
    char text[600];
    int ends[2], status;
    ssize_t n;
    pid_t pid;

    GR_BUG_IF(ends == NULL);
    GR_CHECK_EQ(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        GR_BUG_IF(1 + 1 == 2);
        _exit(0);
    }
    close(ends[1]);
    n = read(ends[0], text, sizeof(text) - 1);
    GR_CHECK(n > 0);
    text[n] = '\0';
    GR_CHECK(strstr(text, "test_status.c:") && strstr(text, "1 + 1 == 2"));
    waitpid(pid, &status, 0);
    GR_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    close(ends[0]);
}

int main(void)
{
    texts();
    fail_and_wrap();
    long_texts_are_cut();
    threads_are_apart();
    bug_aborts();
    return 0;
}
