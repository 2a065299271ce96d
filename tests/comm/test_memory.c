/* Every allocation of making a group fails once; using one makes none. */
#include "alloc_fail.h"
#include "comm/pg.h"
#include "comm/world.h"

static gr_status make(void *arg)
{
    gr_pg *pg[3], *solo;
    char **all;
    gr_status st;

    (void)arg;
    GR_TRY(gr_pg_create_threads(pg, 3, NULL));
    for (int r = 0; r < 3; r++)
        gr_pg_destroy(pg[r]);
    GR_TRY(gr_pg_create(&solo, NULL));
    st = gr_pg_gather_bytes(solo, "x", 1, &all, NULL);
    if (st == GR_OK)
        free(all);
    gr_pg_destroy(solo);
    return st;
}

static gr_status steps(gr_pg *pg, void *arg)
{
    gr_coll c = { .label = "bucket", .n_elem = 100, .dtype = GR_F32, .op = GR_REDUCE_SUM };
    double x[2] = { 1, 2 };
    void *base;
    long before;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, 400, &base));
    GR_TRY(gr_pg_barrier(pg));
    before = gr_alloc_count();
    for (int i = 0; i < 20; i++) {
        GR_TRY(gr_pg_start(pg, &c, NULL));
        GR_TRY(gr_pg_finish(pg, &c, NULL));
        GR_TRY(gr_pg_allreduce(pg, (gr_vec){ x, 2, GR_F64 }, GR_REDUCE_SUM));
    }
    GR_CHECK_EQ(gr_alloc_count() - before, 0);
    return gr_pg_barrier(pg);
}

int main(void)
{
    GR_CHECK(gr_alloc_fail_each(make, NULL) >= 5);
    world_run(2, steps, NULL);
    return 0;
}
