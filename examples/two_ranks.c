/*
 * Two ranks that work together, here as threads of one process. With gr_pg_create() in
 * place of gr_pg_create_threads() the same calls work between processes that gradrun,
 * torchrun or mpirun started.
 */
#include <gradus/gradus.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define N_RANKS 2

/* Every rank calls the same collectives in the same order. */
static gr_status work(gr_pg *pg, float *sum, int64_t *largest)
{
    int rank = gr_pg_rank(pg);

    for (int i = 0; i < 3; i++)
        sum[i] = (float)(rank + 1) * (float)(i + 1); /* 1 2 3 on rank 0, 2 4 6 on rank 1 */
    *largest = rank == 0 ? 0 : 10;
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ sum, 3, GR_F32 }, GR_REDUCE_SUM));
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ largest, 1, GR_I64 }, GR_REDUCE_MAX));
    return gr_pg_barrier(pg);
}

typedef struct rank_state {
    gr_pg *pg;
    pthread_t thread;
    float sum[3];
    int64_t largest;
    gr_status status;
} rank_state;

static void *thread_main(void *arg)
{
    rank_state *r = arg;

    r->status = work(r->pg, r->sum, &r->largest);
    if (r->status != GR_OK) /* messages belong to a thread: print it here */
        fprintf(stderr, "%s: %s\n", gr_status_text(r->status), gr_error_message());
    gr_pg_destroy(r->pg);
    return NULL;
}

int main(void)
{
    rank_state ranks[N_RANKS];
    gr_pg *groups[N_RANKS];
    int code = EXIT_SUCCESS;

    if (gr_pg_create_threads(groups, N_RANKS, NULL) != GR_OK) {
        fprintf(stderr, "%s\n", gr_error_message());
        return EXIT_FAILURE;
    }
    for (int r = 0; r < N_RANKS; r++) {
        ranks[r].pg = groups[r];
        if (pthread_create(&ranks[r].thread, NULL, thread_main, &ranks[r]) != 0)
            return EXIT_FAILURE;
    }
    for (int r = 0; r < N_RANKS; r++) {
        pthread_join(ranks[r].thread, NULL);
        printf("rank %d: sum %g %g %g, largest %d\n", r, (double)ranks[r].sum[0],
               (double)ranks[r].sum[1], (double)ranks[r].sum[2], (int)ranks[r].largest);
        code = ranks[r].status == GR_OK ? code : EXIT_FAILURE;
    }
    return code;
}
