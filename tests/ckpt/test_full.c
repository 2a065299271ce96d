/*
 * No room and no permission: a clear error, the old files untouched, nothing half left.
 *
 * A limit on the size of files stands in for a full disk: write() fails in the middle of
 * the file (EFBIG instead of ENOSPC) without any right that a test may not have.
 */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/sample.h"
#include "scratch.h"
#include "src/base/outfile.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static gr_status save(const char *path, int64_t n)
{
    gr_snapshot *s;
    gr_status st;
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_snapshot_add(s, "w", GR_F32, GR_SHAPE(n), &mem));
    st = gr_ckpt_write(path, s);
    gr_snapshot_destroy(s);
    return st;
}

static void check_size(const char *path, int64_t n)
{
    gr_snapshot *s;

    GR_CHECK_OK(gr_ckpt_read(path, &s));
    GR_CHECK_EQ(gr_snapshot_find(s, "w")->shape.dim[0], n);
    gr_snapshot_destroy(s);
}

static void set_limit(rlim_t n_bytes)
{
    struct rlimit limit;

    GR_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = n_bytes;
    GR_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void test_full(void)
{
    GR_CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    GR_CHECK_OK(save("a.safetensors", 10));
    /* Before the header is out, inside a large tensor, and just before the end. */
    set_limit(16);
    GR_CHECK_FAILS(save("b.safetensors", 10), GR_ERR_IO, "b.safetensors");
    set_limit(1 << 19);
    GR_CHECK_FAILS(save("b.safetensors", 1 << 18), GR_ERR_IO, "File too large");
    GR_CHECK_FAILS(save("b.pt", 1 << 18), GR_ERR_IO, "File too large");
    set_limit((1 << 20) + 100);
    GR_CHECK_FAILS(save("b.safetensors", 1 << 18), GR_ERR_IO, "File too large");
    /* Saving again over an existing one spares that as well. */
    GR_CHECK_FAILS(save("a.safetensors", 1 << 18), GR_ERR_IO, "File too large");
    set_limit(RLIM_INFINITY);
    GR_CHECK(access("a.safetensors.tmp", F_OK) != 0);
    GR_CHECK(access("b.safetensors.tmp", F_OK) != 0);
    GR_CHECK(access("b.safetensors", F_OK) != 0);
    check_size("a.safetensors", 10);
    GR_CHECK_OK(save("a.safetensors", 1 << 18));
    check_size("a.safetensors", 1 << 18);
}

static void test_no_folder(void)
{
    FILE *f = fopen("taken", "wb");

    GR_CHECK(f && fclose(f) == 0);
    GR_CHECK_FAILS(save("taken/a.safetensors", 1), GR_ERR_IO, "taken");
    GR_CHECK_FAILS(save("absent/a.safetensors", 1), GR_ERR_IO, "absent");
    GR_CHECK_FAILS(save("/proc/gradus.safetensors", 1), GR_ERR_IO, "/proc/gradus");
}

static void test_read_only(void)
{
    if (geteuid() == 0)
        return; /* root writes everywhere; the other cases remain */
    GR_CHECK(mkdir("locked", 0777) == 0);
    GR_CHECK_OK(save("locked/a.safetensors", 1));
    GR_CHECK(chmod("locked", 0555) == 0);
    GR_CHECK_FAILS(save("locked/a.safetensors", 2), GR_ERR_IO, "Permission denied");
    GR_CHECK(chmod("locked", 0755) == 0);
    check_size("locked/a.safetensors", 1);
}

int main(void)
{
    gr_test_scratch();
    test_full();
    test_no_folder();
    test_read_only();
    return 0;
}
