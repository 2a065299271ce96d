/* Every allocation fails once, while PyTorch's files are read, written and stripped. */
#include "gradus/ckpt.h"

#include "alloc_fail.h"
#include "ckpt/sample.h"
#include "scratch.h"

static gr_status body_write(void *arg)
{
    return gr_ckpt_write("nomem.pt", (const gr_snapshot *)arg);
}

static gr_status body_read(void *arg)
{
    gr_snapshot *s;

    GR_TRY(gr_ckpt_read((const char *)arg, &s));
    gr_snapshot_destroy(s);
    return GR_OK;
}

static gr_status body_strip(void *arg)
{
    gr_snapshot *s;

    GR_TRY(gr_ckpt_strip((const gr_snapshot *)arg, NULL, &s));
    gr_snapshot_destroy(s);
    return GR_OK;
}

int main(void)
{
    static char ours[] = "nomem.pt";
    static char zip[] = GR_TESTS_DIR "/golden/pt/trained.pt";
    static char legacy[] = GR_TESTS_DIR "/golden/pt/trained_legacy.pt";
    gr_snapshot *s;

    gr_test_scratch();
    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK(gr_alloc_fail_each(body_write, s) > 20);
    GR_CHECK(gr_alloc_fail_each(body_read, ours) > 30);
    GR_CHECK(gr_alloc_fail_each(body_read, zip) > 30);
    GR_CHECK(gr_alloc_fail_each(body_read, legacy) > 30);
    GR_CHECK(gr_alloc_fail_each(body_strip, s) > 20);
    gr_snapshot_destroy(s);
    return 0;
}
