/*
 * Every allocation fails once, those of the JSON library included: it is told to allocate
 * through us, with the errno that malloc() would leave.
 */
#include "gradus/ckpt.h"

#include "alloc_fail.h"
#include "ckpt/sample.h"
#include "src/ckpt/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <unistd.h>

static void *json_malloc(size_t n_bytes)
{
    void *p = gr_malloc(n_bytes);

    if (!p)
        errno = ENOMEM;
    return p;
}

static gr_status body_write(void *arg)
{
    return gr_ckpt_write("nomem.safetensors", (const gr_snapshot *)arg);
}

static gr_status body_read(void *arg)
{
    gr_snapshot *s;

    (void)arg;
    GR_TRY(gr_ckpt_read("nomem.safetensors", &s));
    gr_snapshot_destroy(s);
    return GR_OK;
}

static gr_status body_load(void *arg)
{
    gr_snapshot *s;
    int64_t step;
    char *note;

    (void)arg;
    GR_TRY(gr_ckpt_load("nomem", &s, &step, &note));
    gr_snapshot_destroy(s);
    free(note);
    return GR_OK;
}

/* With no checkpoint whole, the failure is IO once memory suffices. */
static gr_status body_none(void *arg)
{
    gr_status st = body_load(arg);

    return st == GR_ERR_IO ? GR_OK : st;
}

/* A save may succeed although memory ran out after the commit; the file must be there. */
static void check_save(const gr_snapshot *s)
{
    for (long n = 0, before = 0; n == 0 || gr_alloc_count() - before > n - 1; n++) {
        gr_status st;

        GR_CHECK(unlink("nomem/step-00000003.safetensors") == 0 || errno == ENOENT);
        before = gr_alloc_count();
        gr_alloc_fail_after(n);
        st = gr_ckpt_save("nomem", 3, s, 2);
        gr_alloc_fail_after(-1);
        if (st != GR_OK)
            GR_CHECK_EQ(st, GR_ERR_NOMEM);
        GR_CHECK_EQ(access("nomem/step-00000003.safetensors", F_OK) == 0, st == GR_OK);
        GR_CHECK(n < 100000);
    }
}

int main(void)
{
    gr_snapshot *s;

    json_set_alloc_funcs(json_malloc, gr_free);
    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK(gr_alloc_fail_each(body_write, s) > 10);
    GR_CHECK(gr_alloc_fail_each(body_read, NULL) > 30);
    GR_CHECK_OK(gr_ckpt_save("nomem", 1, s, 0));
    GR_CHECK_OK(gr_ckpt_save("nomem", 2, s, 0));
    check_save(s);
    /* Cut, so that the one before is read and a note is made. */
    GR_CHECK(truncate("nomem/step-00000003.safetensors", 100) == 0);
    GR_CHECK(gr_alloc_fail_each(body_load, NULL) > 30);
    GR_CHECK(truncate("nomem/step-00000002.safetensors", 100) == 0);
    GR_CHECK(unlink("nomem/step-00000001.safetensors") == 0 || errno == ENOENT);
    GR_CHECK(gr_alloc_fail_each(body_none, NULL) > 3);
    gr_snapshot_destroy(s);
    return 0;
}
