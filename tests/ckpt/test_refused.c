/* Checkpoints without a path, a folder or something to write: refused, none is opened. */
#include "check.h"
#include "gradus/ckpt.h"

int main(void)
{
    gr_ckpt_writer_config none = { 0 };
    gr_ckpt_writer *w;
    gr_snapshot *snap, *out;
    char *path, *note;

    GR_CHECK_FAILS(gr_snapshot_create(NULL), GR_ERR_ARG, "snapshot: out is NULL");
    GR_CHECK_OK(gr_snapshot_create(&snap));
    GR_CHECK_FAILS(gr_ckpt_write(NULL, snap), GR_ERR_ARG, "path or snapshot is NULL");
    GR_CHECK_FAILS(gr_ckpt_write("x.pt", NULL), GR_ERR_ARG, "path or snapshot is NULL");
    GR_CHECK_FAILS(gr_ckpt_read(NULL, &out), GR_ERR_ARG, "path or out is NULL");
    GR_CHECK_FAILS(gr_ckpt_peek(NULL, &out), GR_ERR_ARG, "path or out is NULL");
    GR_CHECK_FAILS(gr_ckpt_strip(NULL, NULL, &out), GR_ERR_ARG, "snapshot or out is NULL");
    GR_CHECK_FAILS(gr_ckpt_find(NULL, GR_CKPT_LAST, &out, &path, &note), GR_ERR_ARG, "is NULL");
    GR_CHECK_FAILS(gr_ckpt_find("x", GR_CKPT_LAST, &out, NULL, NULL), GR_ERR_ARG, "is NULL");
    GR_CHECK_EQ(gr_ckpt_count(NULL), 0);
    GR_CHECK_FAILS(gr_ckpt_writer_open(&w, NULL), GR_ERR_ARG, "config or its folder is NULL");
    GR_CHECK_FAILS(gr_ckpt_writer_open(&w, &none), GR_ERR_ARG, "config or its folder is NULL");
    gr_snapshot_destroy(snap);
    return 0;
}
