/*
 * Every allocation fails once, those of the JSON library included: it is told to allocate
 * through us, with the errno that malloc() would leave.
 */
#include "gradus/ckpt.h"

#include "alloc_fail.h"
#include "ckpt/sample.h"
#include "scratch.h"
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

static gr_status body_peek(void *arg)
{
    gr_snapshot *s;

    GR_TRY(gr_ckpt_peek((const char *)arg, &s));
    gr_snapshot_destroy(s);
    return GR_OK;
}

static gr_status body_find(void *arg)
{
    gr_snapshot *s;
    char *path, *note;

    (void)arg;
    GR_TRY(gr_ckpt_find("nomem", GR_CKPT_LAST, &s, &path, &note));
    gr_snapshot_destroy(s);
    free(path);
    free(note);
    return GR_OK;
}

/* With no checkpoint whole, the failure is IO once memory suffices. */
static gr_status body_none(void *arg)
{
    gr_status st = body_find(arg);

    return st == GR_ERR_IO ? GR_OK : st;
}

/* The thread of the writer fails; its caller is told. */
static gr_status body_save(void *arg)
{
    const gr_ckpt_writer_config c = { .folder = "nomem", .formats = GR_CKPT_SAFETENSORS };
    gr_ckpt_writer *w;
    gr_snapshot *s;
    gr_status st;
    void *mem;

    (void)arg;
    GR_TRY(gr_ckpt_writer_open(&w, &c));
    st = gr_ckpt_writer_begin(w, &s);
    if (st == GR_OK)
        st = gr_snapshot_add(s, "w", GR_F32, GR_SHAPE(3), &mem);
    if (st == GR_OK)
        st = gr_snapshot_set(s, "gradus.step", "3");
    if (st == GR_OK)
        gr_ckpt_writer_submit(w, &(gr_ckpt_as){ .epoch = 1, .step = 3, .best = true });
    if (st != GR_OK) {
        GR_IGNORE(gr_ckpt_writer_close(w));
        return st;
    }
    return gr_ckpt_writer_close(w);
}

/* What is tidied after a save may lack memory without harm: then the save has succeeded. */
static void check_save(void)
{
    long before = 0;

    for (long n = 0; n == 0 || gr_alloc_count() - before > n - 1; n++) {
        gr_status st;

        before = gr_alloc_count();
        gr_alloc_fail_after(n);
        st = body_save(NULL);
        gr_alloc_fail_after(-1);
        if (st != GR_OK)
            GR_CHECK_EQ(st, GR_ERR_NOMEM);
        GR_CHECK(n < 100000);
    }
}

int main(void)
{
    static char whole[] = "nomem/last.pt";
    gr_snapshot *s;

    gr_test_scratch();
    json_set_alloc_funcs(json_malloc, gr_free);
    GR_CHECK_OK(ckpt_sample_make(&s));
    GR_CHECK(gr_alloc_fail_each(body_write, s) > 10);
    GR_CHECK(gr_alloc_fail_each(body_read, NULL) > 30);
    check_save();
    GR_CHECK_EQ(gr_ckpt_count("nomem"), 4);
    GR_CHECK_OK(gr_ckpt_write(whole, s));
    GR_CHECK(gr_alloc_fail_each(body_peek, whole) > 10);
    GR_CHECK(unlink(whole) == 0);
    /* Cut, so that the one before is read and a note is made. */
    GR_CHECK(unlink("nomem/last.safetensors") == 0);
    GR_CHECK_OK(gr_ckpt_write("nomem/last.safetensors", s));
    GR_CHECK(truncate("nomem/last.safetensors", 100) == 0);
    GR_CHECK(gr_alloc_fail_each(body_find, NULL) > 30);
    GR_CHECK(truncate("nomem/best_model.safetensors", 100) == 0); /* one file, three names */
    GR_CHECK(gr_alloc_fail_each(body_none, NULL) > 3);
    gr_snapshot_destroy(s);
    return 0;
}
