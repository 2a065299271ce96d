/* The cache on disk: what is found, what is not, and that nothing of it is ever a failure. */
#include "base/alloc.h"
#include "base/filecache.h"
#include "base/text.h"
#include "check.h"
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static gr_filecache *opened(size_t max_bytes)
{
    gr_filecache *c;

    GR_CHECK_OK(gr_filecache_open(&c, "things", max_bytes));
    GR_CHECK(c != NULL);
    return c;
}

static bool holds(const gr_filecache *c, const char *key, const char *what)
{
    char *mem = NULL;
    size_t n = 0;
    bool same;

    if (!gr_filecache_get(c, key, &mem, &n))
        return false;
    same = n == strlen(what) && memcmp(mem, what, n) == 0;
    GR_CHECK(same);
    gr_free(mem);
    return true;
}

static void put(const gr_filecache *c, const char *key, const char *what)
{
    gr_filecache_put(c, key, what, strlen(what));
}

/* Calls see(path) for each file of the cache; returns how many there are. */
static int each_file(const gr_filecache *c, void (*see)(const char *path))
{
    DIR *d = opendir(gr_filecache_folder(c));
    struct dirent *f;
    int n = 0;

    GR_CHECK(d != NULL);
    while ((f = readdir(d)) != NULL) {
        char path[1024];

        if (f->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", gr_filecache_folder(c), f->d_name);
        if (see)
            see(path);
        n++;
    }
    closedir(d);
    return n;
}

static void basics(void)
{
    gr_filecache *c = opened(1 << 20), *again = opened(1 << 20);
    char *mem;
    size_t n;

    GR_CHECK(!holds(c, "a", ""));
    put(c, "a", "first");
    put(c, "b", "");
    GR_CHECK(holds(c, "a", "first"));
    GR_CHECK(holds(again, "a", "first"));
    GR_CHECK(gr_filecache_get(c, "b", &mem, &n) && n == 0);
    gr_free(mem);
    put(c, "a", "second");
    GR_CHECK(holds(again, "a", "second"));
    GR_CHECK_EQ(each_file(c, NULL), 2);
    gr_filecache_close(c);
    gr_filecache_close(again);
}

/* ---- damage ---- */

static void cut_it(const char *path)
{
    struct stat s;

    GR_CHECK(stat(path, &s) == 0);
    GR_CHECK(truncate(path, s.st_size - 1) == 0);
}

static void empty_it(const char *path)
{
    GR_CHECK(truncate(path, 0) == 0);
}

static long flipped;

static void flip_it(const char *path)
{
    int fd = open(path, O_RDWR);
    char x;

    GR_CHECK(fd >= 0 && pread(fd, &x, 1, flipped) == 1);
    x = (char)(x ^ 1);
    GR_CHECK(pwrite(fd, &x, 1, flipped) == 1);
    close(fd);
}

static void lengthen_it(const char *path)
{
    struct stat s;

    GR_CHECK(stat(path, &s) == 0);
    GR_CHECK(truncate(path, s.st_size + 1) == 0);
}

static void damaged(void)
{
    static void (*const ways[])(const char *) = { cut_it, empty_it, lengthen_it };
    gr_filecache *c = opened(1 << 20);

    put(c, "a", "whole");
    GR_CHECK_EQ(each_file(c, NULL), 1);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        each_file(c, ways[i]);
        GR_CHECK(!holds(c, "a", "whole"));
        put(c, "a", "whole");
        GR_CHECK(holds(c, "a", "whole"));
    }
    /* Every byte counts: head, key and data. */
    for (flipped = 0; flipped < 40 + 1 + 5; flipped++) {
        each_file(c, flip_it);
        GR_CHECK(!holds(c, "a", "whole"));
        each_file(c, flip_it);
        GR_CHECK(holds(c, "a", "whole"));
    }
    gr_filecache_close(c);
}

static char source[1024];

static void note_it(const char *path)
{
    snprintf(source, sizeof(source), "%s", path);
}

/* What stands under a name whose key it is not, as after two keys of one hash. */
static void other_key(void)
{
    gr_filecache *c = opened(1 << 20);
    char first[1024];

    put(c, "a", "of a");
    each_file(c, note_it);
    memcpy(first, source, sizeof(first));
    GR_CHECK(unlink(first) == 0);
    put(c, "b", "of b");
    each_file(c, note_it);
    GR_CHECK(rename(source, first) == 0);
    GR_CHECK(!holds(c, "a", "of b"));
    put(c, "a", "of a");
    GR_CHECK(holds(c, "a", "of a"));
    gr_filecache_close(c);
}

/* ---- bounds ---- */

/* Room for three of them; reading makes one young again. */
static void bounded(void)
{
    char big[1000];
    gr_filecache *c = opened(3300);
    struct timespec pause = { 0, 20000000 };

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    for (char key[] = "1"; key[0] <= '3'; key[0]++) {
        put(c, key, big);
        nanosleep(&pause, NULL);
    }
    GR_CHECK(holds(c, "1", big));
    nanosleep(&pause, NULL);
    put(c, "4", big);
    GR_CHECK(holds(c, "1", big) && !holds(c, "2", big) && holds(c, "3", big) && holds(c, "4", big));
    gr_filecache_close(c);
    c = opened(500); /* what is larger than all of the cache is not kept, and costs nothing */
    put(c, "5", big);
    GR_CHECK(!holds(c, "5", big) && holds(c, "4", big));
    gr_filecache_close(c);
}

/* ---- where ---- */

static void folders(void)
{
    gr_filecache *c;
    char *mem;
    size_t n;

    setenv("GR_CACHE", "off", 1);
    GR_CHECK_OK(gr_filecache_open(&c, "things", 100));
    GR_CHECK(c == NULL);
    put(c, "a", "nowhere");
    GR_CHECK(!gr_filecache_get(c, "a", &mem, &n));
    gr_filecache_close(c);

    unsetenv("GR_CACHE");
    setenv("XDG_CACHE_HOME", "/tmp/x", 1);
    c = opened(100);
    GR_CHECK(strcmp(gr_filecache_folder(c), "/tmp/x/gradus/things") == 0);
    gr_filecache_close(c);
    setenv("XDG_CACHE_HOME", "relative", 1); /* which the standard says to ignore */
    setenv("HOME", "/home/x", 1);
    c = opened(100);
    GR_CHECK(strcmp(gr_filecache_folder(c), "/home/x/.cache/gradus/things") == 0);
    gr_filecache_close(c);
    unsetenv("HOME");
    GR_CHECK_OK(gr_filecache_open(&c, "things", 100));
    GR_CHECK(c == NULL);
}

/* A file in the way of the folder: nothing is kept, and that is all. */
static void nowhere(void)
{
    FILE *f = fopen("file", "w");
    gr_filecache *c;

    GR_CHECK(f != NULL && fclose(f) == 0);
    setenv("GR_CACHE", "file", 1);
    c = opened(1 << 20);
    put(c, "a", "lost");
    GR_CHECK(!holds(c, "a", "lost"));
    gr_filecache_close(c);
}

/* ---- several at once ---- */

static void *write_and_read(void *arg)
{
    gr_filecache *c = arg;

    for (int i = 0; i < 200; i++) {
        put(c, "shared", "one text");
        holds(c, "shared", "one text"); /* whole, or the process ends */
    }
    return NULL;
}

static void together(void)
{
    gr_filecache *c = opened(1 << 20);
    pthread_t t[4];

    for (int i = 0; i < 4; i++)
        GR_CHECK(pthread_create(&t[i], NULL, write_and_read, c) == 0);
    for (int i = 0; i < 4; i++)
        GR_CHECK(pthread_join(t[i], NULL) == 0);
    GR_CHECK(holds(c, "shared", "one text"));
    GR_CHECK_EQ(each_file(c, NULL), 1); /* nothing that was written aside is left */
    gr_filecache_close(c);
}

static void in_folder(const char *name, void (*test)(void))
{
    setenv("GR_CACHE", name, 1);
    test();
}

int main(void)
{
    gr_test_scratch();
    in_folder("one/two/basics", basics);
    in_folder("damaged", damaged);
    in_folder("other", other_key);
    in_folder("bounded", bounded);
    in_folder("together", together);
    folders();
    nowhere();
    return 0;
}
