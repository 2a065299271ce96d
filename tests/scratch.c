/* The folder is removed at exit, by the process that made it: forked ranks end earlier. */
#include "scratch.h"

#include "check.h"

#include <ftw.h>
#include <unistd.h>

static char place[4096];
static pid_t owner;

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

static void leave(int status, void *unused)
{
    (void)unused;
    if (getpid() != owner)
        return;
    if (status != 0 && status != 77) /* 77: skipped */
        fprintf(stderr, "the files of this test are in '%s'\n", place);
    else if (chdir("/") == 0)
        nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void gr_test_scratch(void)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(place, sizeof(place), "%s/gradus-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");

    GR_CHECK(!owner && n > 0 && (size_t)n < sizeof(place));
    GR_CHECK(mkdtemp(place) && chdir(place) == 0);
    owner = getpid();
    GR_CHECK(on_exit(leave, NULL) == 0);
}
