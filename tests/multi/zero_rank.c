#include "multi/zero_rank.h"

#include "check.h"
#include "step/world.h"

static job make_job(int zero, int first, int n_steps)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 36, .first = first, .n_steps = n_steps };

    c.trace = trace_mlp;
    c.seed = 3;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.clip_norm = 0.25;
    c.ema_decay = 0.9;
    c.check_every = 1;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 256;
    c.zero = zero;
    j.c = c;
    return j;
}

/* The others have no snapshot to look at. */
static void check_end(const gr_pg *pg, const job *a, const job *b)
{
    if (gr_pg_rank(pg) == 0)
        check_same_state(a->end, b->end);
}

static gr_status run(gr_pg *pg)
{
    job whole = make_job(0, 0, 6);

    GR_TRY(run_rank(&whole, pg));
    for (int zero = 1; zero <= 2; zero++) {
        job cut = make_job(zero, 0, 6), half = make_job(zero, 0, 3),
            rest = make_job(3 - zero, 3, 3);

        GR_TRY(run_rank(&cut, pg));
        check_end(pg, &whole, &cut);
        GR_TRY(run_rank(&half, pg));
        rest.start = half.end;
        if (gr_pg_rank(pg) != 0)
            GR_TRY(gr_snapshot_create(&rest.start)); /* says that there is one; rank 0 has it */
        GR_TRY(run_rank(&rest, pg));
        check_end(pg, &whole, &rest);
        gr_snapshot_destroy(cut.end);
        gr_snapshot_destroy(rest.start);
        gr_snapshot_destroy(rest.end);
    }
    gr_snapshot_destroy(whole.end);
    return GR_OK;
}

int zero_rank(void)
{
    gr_pg *pg = NULL;
    gr_status st = gr_pg_create(&pg, NULL);

    if (st == GR_OK)
        st = run(pg);
    if (st != GR_OK)
        fprintf(stderr, "rank %d: %s: %s\n", gr_pg_rank(pg), gr_status_text(st),
                gr_error_message());
    else
        printf("rank %d of %d has the same bits\n", gr_pg_rank(pg), gr_pg_size(pg));
    gr_pg_destroy(pg);
    return st == GR_OK ? 0 : 1;
}
