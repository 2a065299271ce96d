/*
 * Files: what was committed is there whole, what failed leaves the old file and no ".tmp",
 * and messages name path and reason. Runs in a folder of its own.
 */
#include "alloc_fail.h"
#include "base/outfile.h"
#include "check.h"
#include "scratch.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_holds(const char *path, const char *want)
{
    char *text;
    size_t n;

    GR_CHECK_OK(gr_file_read(path, &text, &n));
    GR_CHECK_EQ(n, strlen(want));
    GR_CHECK_STR(text, want);
    gr_free(text);
}

static gr_status write_text(const char *path, const char *text)
{
    gr_outfile *f;

    GR_TRY(gr_outfile_open(&f, path));
    gr_outfile_write(f, text, strlen(text));
    return gr_outfile_commit(f);
}

static void old_or_new(void)
{
    gr_outfile *f;

    GR_CHECK_OK(write_text("a.txt", "old"));
    check_holds("a.txt", "old");
    GR_CHECK_OK(gr_outfile_open(&f, "a.txt"));
    gr_outfile_write(f, "new", 3);
    check_holds("a.txt", "old"); /* until the commit */
    GR_CHECK_EQ(access("a.txt.tmp", F_OK), 0);
    GR_CHECK_OK(gr_outfile_commit(f));
    check_holds("a.txt", "new");
    GR_CHECK(access("a.txt.tmp", F_OK) != 0);
    GR_CHECK_OK(gr_outfile_open(&f, "a.txt"));
    gr_outfile_write(f, "never", 5);
    gr_outfile_discard(f);
    gr_outfile_discard(NULL);
    check_holds("a.txt", "new");
    GR_CHECK(access("a.txt.tmp", F_OK) != 0);
    GR_CHECK_OK(write_text("a.txt", ""));
    check_holds("a.txt", "");
}

/* Pieces around the size of the buffer, in an order that fills it partly. */
static void large_pieces(void)
{
    static const size_t pieces[] = { 0, 1, 262143, 262144, 3, 262145, 1000000, 5, 262140, 17 };
    size_t total = 0, at = 0, n;
    unsigned char *bytes = gr_malloc(3000000);
    gr_outfile *f;
    char *back;

    GR_CHECK(bytes != NULL);
    for (size_t i = 0; i < 3000000; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    GR_CHECK_OK(gr_outfile_open(&f, "large.bin"));
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++, total = at) {
        gr_outfile_write(f, bytes + at, pieces[i]);
        at += pieces[i];
    }
    GR_CHECK_OK(gr_outfile_commit(f));
    GR_CHECK_OK(gr_file_read("large.bin", &back, &n));
    GR_CHECK_EQ(n, total);
    GR_CHECK(memcmp(back, bytes, n) == 0 && back[n] == '\0');
    gr_free(back);
    gr_free(bytes);
}

static void failures_have_names(void)
{
    gr_outfile *f = NULL;
    char *text;
    size_t n;

    GR_CHECK_FAILS(gr_outfile_open(&f, "no/such/x"), GR_ERR_IO,
                   "cannot create 'no/such/x.tmp': No such file or directory");
    GR_CHECK_OK(gr_make_folders("taken/inside"));
    GR_CHECK_FAILS(write_text("taken", "x"), GR_ERR_IO,
                   "cannot rename 'taken.tmp' to 'taken': Is a directory");
    GR_CHECK(access("taken.tmp", F_OK) != 0);
    GR_CHECK_FAILS(gr_file_read("none", &text, &n), GR_ERR_IO,
                   "cannot open 'none': No such file or directory");
    GR_CHECK_FAILS(gr_file_read("taken", &text, &n), GR_ERR_IO,
                   "cannot read 'taken': Is a directory");
    GR_CHECK_EQ(mkfifo("pipe", 0600), 0);
    alarm(20); /* should it wait for the other end */
    GR_CHECK_FAILS(gr_file_read("pipe", &text, &n), GR_ERR_IO, "'pipe': it is a pipe, not a file");
    alarm(0);
    unlink("pipe");
}

/* A full disk, played by a limit on the size of files: the first failure is the one that
 * commit reports, later writes do nothing, and the old file stays. */
static void full_disk(void)
{
    struct rlimit before, small;
    static char block[300000];
    gr_outfile *f;

    GR_CHECK_OK(write_text("full.txt", "old"));
    GR_CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = before;
    small.rlim_cur = 400000;
    GR_CHECK_OK(gr_outfile_open(&f, "full.txt"));
    GR_CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 3; i++)
        gr_outfile_write(f, block, sizeof(block));
    gr_fail(GR_ERR_ARG, "something else in between");
    GR_CHECK_FAILS(gr_outfile_commit(f), GR_ERR_IO, "cannot write 'full.txt.tmp': File too large");
    GR_CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    check_holds("full.txt", "old");
    GR_CHECK(access("full.txt.tmp", F_OK) != 0);
}

static void reads_without_size(void)
{
    char *text;
    size_t n;

    GR_CHECK_OK(gr_file_read("/proc/self/status", &text, &n));
    GR_CHECK(n > 100 && strlen(text) == n && strstr(text, "Name:"));
    gr_free(text);
}

static void folders(void)
{
    struct stat s;

    GR_CHECK_OK(gr_make_folders("x/y//z/"));
    GR_CHECK(stat("x/y/z", &s) == 0 && S_ISDIR(s.st_mode));
    GR_CHECK_OK(gr_make_folders("x/y/z"));
    GR_CHECK_OK(gr_make_folders("./x/../w"));
    GR_CHECK_OK(gr_make_folders("/"));
    GR_CHECK_OK(write_text("file", "x"));
    GR_CHECK_FAILS(gr_make_folders("file"), GR_ERR_IO, "'file': a file of that name exists");
    GR_CHECK_FAILS(gr_make_folders("file/deeper"), GR_ERR_IO, "'file': a file of that name");
    GR_CHECK_FAILS(gr_make_folders(""), GR_ERR_IO, "cannot make folder ''");
}

static gr_status body(void *arg)
{
    char *text;
    size_t n;

    (void)arg;
    GR_TRY(gr_make_folders("m/n"));
    GR_TRY(write_text("m/n/o", "some text"));
    GR_TRY(gr_file_read("m/n/o", &text, &n));
    gr_free(text);
    return GR_OK;
}

static void out_of_memory(void)
{
    struct dirent *entry;
    DIR *folder;

    GR_CHECK(gr_alloc_fail_each(body, NULL) >= 6);
    folder = opendir("m/n");
    GR_CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL)
        GR_CHECK(strcmp(entry->d_name, "o") == 0 || entry->d_name[0] == '.');
    closedir(folder);
}

int main(void)
{
    gr_test_scratch();
    old_or_new();
    large_pieces();
    failures_have_names();
    full_disk();
    reads_without_size();
    folders();
    out_of_memory();
    return 0;
}
