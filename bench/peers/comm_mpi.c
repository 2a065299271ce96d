/* MPI's all-reduce, f32 sum in place, measured as `gradus bench comm` measures ours. Built by
 * bench/comm.sh with mpicc. usage: comm_mpi MIN MAX BATCHES BATCH_MS */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    long min = strtol(argv[1], NULL, 10), max = strtol(argv[2], NULL, 10);
    int n_batches = (int)strtol(argv[3], NULL, 10), rank;
    double batch_s = strtod(argv[4], NULL) * 1e-3, *t = calloc((size_t)n_batches, sizeof(double));
    float *mem = calloc((size_t)max, 1);

    (void)argc;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long n = min; n <= max; n *= 4) {
        double start;
        int n_calls;

        for (int i = 0; i < 2; i++)
            MPI_Allreduce(MPI_IN_PLACE, mem, (int)(n / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        start = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, mem, (int)(n / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        n_calls = 1 + (int)(batch_s / (MPI_Wtime() - start + 1e-9));
        MPI_Bcast(&n_calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
        for (int k = 0; k < n_batches; k++) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
            for (int i = 0; i < n_calls; i++)
                MPI_Allreduce(MPI_IN_PLACE, mem, (int)(n / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            t[k] = (MPI_Wtime() - start) / n_calls * 1e6;
        }
        qsort(t, (size_t)n_batches, sizeof(double), by_size);
        if (rank == 0)
            printf("%10ld %9.1f %9.1f\n", n, t[0], t[n_batches / 2]);
    }
    MPI_Finalize();
    return 0;
}
