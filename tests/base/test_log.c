/* The log: which lines pass, what a line looks like, what GR_LOG may say. */
#include "base/log.h"
#include "check.h"
#include "scratch.h"

#include <fcntl.h>
#include <unistd.h>

static int n_evaluated;

static int evaluated(void)
{
    return ++n_evaluated;
}

/* Sends stderr into a pipe, runs `body`, and gives back what was written. */
static void capture(void (*body)(void), char *text, size_t n_bytes)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t n;

    GR_CHECK_EQ(pipe(ends), 0);
    GR_CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    body();
    dup2(saved, STDERR_FILENO);
    n = read(ends[0], text, n_bytes - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    close(saved);
}

static void info_line(void)
{
    gr_log(COMM, INFO, "bucket %d: %s", 2, "x\ny\x1b[31m");
}

static void dropped_line(void)
{
    gr_log(COMM, DEBUG, "%d", evaluated());
}

static void long_line(void)
{
    gr_log(OP, WARN, "%05000d", 1);
}

static void line_format(void)
{
    char text[8192];
    char *end;

    GR_CHECK_OK(gr_log_setup(0));
    capture(info_line, text, sizeof(text));
    GR_CHECK(strtoll(text, &end, 10) > 1600000000);
    GR_CHECK(*end == '.' && strspn(end + 1, "0123456789") == 3 && end[4] == ' ');
    GR_CHECK_STR(end + 5, "I r0 COMM bucket 2: x\\x0ay\\x1b[31m\n");
    capture(dropped_line, text, sizeof(text));
    GR_CHECK_STR(text, "");
    GR_CHECK_EQ(n_evaluated, 0);
    capture(long_line, text, sizeof(text));
    GR_CHECK_EQ(strlen(text), 2047);
    GR_CHECK_STR(text + 2043, "...\n");
}

static void ranks(void)
{
    unsetenv("GR_LOG");
    GR_CHECK_OK(gr_log_setup(3));
    GR_CHECK(!gr_log_wants(GR_LOG_COMM, GR_LEVEL_INFO));
    GR_CHECK(gr_log_wants(GR_LOG_COMM, GR_LEVEL_WARN));
    GR_CHECK(gr_log_wants(GR_LOG_COMM, GR_LEVEL_ERROR));
    GR_CHECK_OK(gr_log_setup(0));
    GR_CHECK(gr_log_wants(GR_LOG_COMM, GR_LEVEL_INFO));
    GR_CHECK(!gr_log_wants(GR_LOG_COMM, GR_LEVEL_DEBUG));
}

static void selection(void)
{
    setenv("GR_LOG", "comm:debug,op:warn", 1);
    GR_CHECK_OK(gr_log_setup(3));
    GR_CHECK(gr_log_wants(GR_LOG_COMM, GR_LEVEL_DEBUG));
    GR_CHECK(!gr_log_wants(GR_LOG_OP, GR_LEVEL_INFO));
    GR_CHECK(!gr_log_wants(GR_LOG_BASE, GR_LEVEL_INFO));
    setenv("GR_LOG", "DEBUG,,net:info", 1);
    GR_CHECK_OK(gr_log_setup(0));
    GR_CHECK(gr_log_wants(GR_LOG_CUDA, GR_LEVEL_DEBUG));
    GR_CHECK(!gr_log_wants(GR_LOG_NET, GR_LEVEL_DEBUG));
    setenv("GR_LOG", "error", 1);
    GR_CHECK_OK(gr_log_setup(0));
    GR_CHECK(gr_log_wants(GR_LOG_NET, GR_LEVEL_WARN)); /* always passes */
    GR_CHECK(!gr_log_wants(GR_LOG_NET, GR_LEVEL_INFO));
    setenv("GR_LOG", "", 1);
    GR_CHECK_OK(gr_log_setup(0));
}

static void wrong_words(void)
{
    setenv("GR_LOG", "com:debug", 1);
    GR_CHECK_FAILS(gr_log_setup(0), GR_ERR_ARG, "'com' is no area; areas are base, net, comm");
    setenv("GR_LOG", "comm:loud", 1);
    GR_CHECK_FAILS(gr_log_setup(0), GR_ERR_ARG, "'loud' is no level; levels are error, warn");
    setenv("GR_LOG", "comm", 1);
    GR_CHECK_FAILS(gr_log_setup(0), GR_ERR_ARG, "'comm' is no level");
    setenv("GR_LOG", "comm:", 1);
    GR_CHECK_FAILS(gr_log_setup(0), GR_ERR_ARG, "'' is no level");
    setenv("GR_LOG", ":info", 1);
    GR_CHECK_FAILS(gr_log_setup(0), GR_ERR_ARG, "'' is no area");
}

static void of_rank_1(void)
{
    gr_log(COMM, INFO, "only in the file");
    gr_log(COMM, DEBUG, "nowhere");
    gr_log(COMM, WARN, "in both");
    gr_log_keep("as it is");
}

/* Info lines of every rank go to a file, whatever stderr gets. */
static void line_file(void)
{
    char text[8192], *end;
    FILE *f;
    size_t n;

    (void)unlink("log.txt");
    GR_CHECK_OK(gr_log_setup(1));
    gr_log_keep("to no file");
    GR_CHECK_FAILS(gr_log_to_file("absent/log.txt"), GR_ERR_IO, "absent/log.txt");
    GR_CHECK_OK(gr_log_to_file("log.txt"));
    capture(of_rank_1, text, sizeof(text));
    GR_CHECK(strstr(text, "in both") && !strstr(text, "only in the file"));
    GR_CHECK_OK(gr_log_to_file(NULL));
    capture(of_rank_1, text, sizeof(text));
    f = fopen("log.txt", "rb");
    GR_CHECK(f != NULL);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    GR_CHECK(fclose(f) == 0);
    end = strstr(text, "I r1 COMM only in the file\n");
    GR_CHECK(end && strstr(end, "W r1 COMM in both\nas it is\n"));
    GR_CHECK_EQ(strlen(strstr(text, "as it is\n")), 9); /* and nothing after the end */
}

int main(void)
{
    gr_test_scratch();
    line_file();
    ranks();
    line_format();
    selection();
    wrong_words();
    return 0;
}
