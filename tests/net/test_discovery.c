/*
 * Rank discovery without our launcher: one row per environment, whole, half and contradictory.
 */
#include "check.h"
#include "net/env.h"
#include "net/slurm.h"

#include <unistd.h>

extern char **environ;

#define WORDS 12

typedef struct row {
    const char *words[WORDS]; /* the whole environment, NULL-ended */
    const char *fails;        /* part of the message; NULL: it works */
    const char *source;
    int rank, n_ranks, local_rank, n_local;
    const char *host;
    int port; /* 0: some port */
} row;

static const row rows[] = {
    { { NULL }, NULL, "nobody", 0, 1, 0, 1, "", 0 },
    /* the five variables of a hand-made start */
    { { "MASTER_ADDR=localhost", "MASTER_PORT=29500", "WORLD_SIZE=8", "RANK=3", "LOCAL_RANK=3" },
      NULL,
      "torchrun",
      3,
      8,
      3,
      0,
      "localhost",
      29500 },
    { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_NAMESPACE=prterun-a-1@1" },
      NULL,
      "Open MPI",
      1,
      4,
      1,
      4,
      "127.0.0.1",
      0 },
    { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2" },
      "Open MPI says that there are 4 ranks, but not where rank 0 is: set MASTER_ADDR",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=1", "MASTER_ADDR=a", "MASTER_PORT=1234" },
      NULL,
      "Open MPI",
      1,
      4,
      1,
      2,
      "a",
      1234 },
    /* mpirun inside an allocation of Slurm: its own words win */
    { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=2", "SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_STEP_ID=0",
        "SLURM_STEP_NUM_TASKS=8", "SLURM_JOB_NODELIST=n[1-2]" },
      NULL,
      "Open MPI",
      1,
      2,
      1,
      2,
      "127.0.0.1",
      0 },
    { { "OMPI_COMM_WORLD_RANK=1" },
      "OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    { { "MV2_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=0",
        "MV2_COMM_WORLD_LOCAL_SIZE=2" },
      NULL,
      "MVAPICH",
      0,
      2,
      0,
      2,
      "127.0.0.1",
      0 },
    { { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2" },
      NULL,
      "PMI",
      1,
      2,
      1,
      2,
      "127.0.0.1",
      0 },
    /* no number of the job that other hosts know, too: the usual port */
    { { "PMI_RANK=1", "PMI_SIZE=2", "PMI_LOCAL_RANK=0", "PMI_LOCAL_SIZE=1", "MASTER_ADDR=h" },
      NULL,
      "PMI",
      1,
      2,
      0,
      1,
      "h",
      29500 },
    { { "PMIX_RANK=1" },
      "PMIX_RANK is set, but no variable says how many",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    { { "PMIX_RANK=3", "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_ID=2", "SLURM_PROCID=3",
        "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=2(x2)",
        "SLURM_STEP_NODELIST=gpu[07-08]", "SLURM_JOB_ID=9" },
      NULL,
      "PMIx",
      3,
      4,
      1,
      2,
      "gpu07",
      0 },
    { { "JSM_NAMESPACE_RANK=0", "JSM_NAMESPACE_SIZE=1" }, NULL, "LSF", 0, 1, 0, 0, "", 0 },
    { { "FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "MASTER_ADDR=f" },
      NULL,
      "Flux",
      1,
      2,
      1,
      0,
      "f",
      29500 },
    { { "SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_ID=0", "SLURM_LOCALID=0",
        "SLURM_NODEID=1", "SLURM_TASKS_PER_NODE=2,1", "SLURM_JOB_NODELIST=node[05-09,12],x",
        "SLURM_JOB_ID=1234567" },
      NULL,
      "Slurm",
      2,
      3,
      0,
      1,
      "node05",
      0 },
    /* sbatch without srun, and srun --pty: one process, whatever SLURM_NTASKS says */
    { { "SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=7" }, NULL, "nobody", 0, 1, 0, 1, "", 0 },
    { { "SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1" },
      NULL,
      "nobody",
      0,
      1,
      0,
      1,
      "",
      0 },
    /* gradrun's or torchrun's words win over everything around them */
    { { "RANK=0", "WORLD_SIZE=1", "SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", "SLURM_STEP_ID=0" },
      NULL,
      "torchrun",
      0,
      1,
      0,
      0,
      "",
      0 },
    /* each family wins over those behind it */
    { { "MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_SIZE=2",
        "PMI_RANK=0", "PMI_SIZE=4" },
      NULL,
      "MVAPICH",
      1,
      2,
      1,
      2,
      "127.0.0.1",
      0 },
    { { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", "PMIX_RANK=0", "SLURM_PROCID=0",
        "SLURM_STEP_NUM_TASKS=8", "SLURM_STEP_ID=0" },
      NULL,
      "PMI",
      1,
      2,
      1,
      2,
      "127.0.0.1",
      0 },
    { { "RANK=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2" },
      "RANK is set but WORLD_SIZE is not",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    /* Kubernetes: PyTorchJob counts pods, TrainJob speaks to a launcher, an Indexed Job has a
       number */
    { { "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=job-master-0", "MASTER_PORT=23456", "PET_NNODES=2",
        "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4" },
      NULL,
      "torchrun",
      1,
      2,
      1,
      0,
      "job-master-0",
      23456 },
    { { "PET_NNODES=3", "PET_NODE_RANK=2", "PET_NPROC_PER_NODE=1", "PET_MASTER_ADDR=a-node-0-0.a",
        "PET_MASTER_PORT=29501" },
      NULL,
      "Kubernetes",
      2,
      3,
      0,
      1,
      "a-node-0-0.a",
      29501 },
    { { "PET_NNODES=2:2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=a" },
      NULL,
      "Kubernetes",
      1,
      2,
      0,
      1,
      "a",
      29500 },
    { { "PET_NNODES=2", "PET_NODE_RANK=0", "PET_NPROC_PER_NODE=auto", "PET_MASTER_ADDR=a" },
      "PET_NPROC_PER_NODE is 'auto', but this is the only process of its pod: put gradrun before",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    { { "PET_NNODES=1:4", "PET_NODE_RANK=0" }, "PET_NNODES is '1:4'", NULL, 0, 0, 0, 0, NULL, 0 },
    { { "PET_NNODES=2", "PET_NODE_RANK=1" },
      "Kubernetes says that there are 2 ranks, but not where rank 0 is: set MASTER_ADDR",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    { { "PET_NNODES=1", "PET_NODE_RANK=0", "PET_NPROC_PER_NODE=8" },
      NULL,
      "nobody",
      0,
      1,
      0,
      1,
      "",
      0 },
    { { "JOB_COMPLETION_INDEX=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=7" },
      NULL,
      "Kubernetes",
      1,
      2,
      0,
      1,
      "a",
      7 },
    { { "JOB_COMPLETION_INDEX=1" }, NULL, "nobody", 0, 1, 0, 1, "", 0 },
    { { "GR_INIT_METHOD=tcp://10.0.0.1:77?rank=1&world_size=3" },
      NULL,
      "the URL",
      1,
      3,
      1,
      0,
      "10.0.0.1",
      77 },
    { { "GR_INIT_METHOD=tcp://[::1]:77", "RANK=1", "WORLD_SIZE=2" },
      NULL,
      "torchrun",
      1,
      2,
      1,
      0,
      "::1",
      77 },
    { { "GR_INIT_METHOD=env://", "RANK=0", "WORLD_SIZE=2" },
      "MASTER_ADDR is not",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    { { "GR_INIT_METHOD=env://?rank=1&world_size=2", "MASTER_ADDR=m", "MASTER_PORT=5" },
      NULL,
      "the URL",
      1,
      2,
      1,
      0,
      "m",
      5 },
    { { "GR_INIT_METHOD=tcp://a:1?rank=2&world_size=2" },
      "must be a number from 0 to 1",
      NULL,
      0,
      0,
      0,
      0,
      NULL,
      0 },
    { { "GR_INIT_METHOD=tcp://a:1?rank=0" }, "belong together", NULL, 0, 0, 0, 0, NULL, 0 },
    { { "GR_INIT_METHOD=tcp://a" }, "must be tcp://host:port", NULL, 0, 0, 0, 0, NULL, 0 },
    { { "GR_INIT_METHOD=tcp://a:0" }, "port '0'", NULL, 0, 0, 0, 0, NULL, 0 },
    { { "GR_INIT_METHOD=file:///x" }, "neither env:// nor tcp://", NULL, 0, 0, 0, 0, NULL, 0 },
};

static void check_row(const row *r)
{
    gr_job j;

    clearenv();
    for (int i = 0; i < WORDS && r->words[i]; i++) {
        char word[128], *value;

        snprintf(word, sizeof(word), "%s", r->words[i]);
        value = strchr(word, '=');
        *value++ = '\0';
        setenv(word, value, 1);
    }
    if (r->fails) {
        GR_CHECK_FAILS(gr_job_from_env(&j), GR_ERR_ARG, r->fails);
        return;
    }
    GR_CHECK_OK(gr_job_from_env(&j));
    GR_CHECK_STR(j.source, r->source);
    GR_CHECK_EQ(j.rank, r->rank);
    GR_CHECK_EQ(j.n_ranks, r->n_ranks);
    GR_CHECK_EQ(j.local_rank, r->local_rank);
    GR_CHECK_EQ(j.n_local, r->n_local);
    GR_CHECK_STR(j.store_host, r->host);
    GR_CHECK(r->port ? j.store_port == r->port
                     : j.store_port == 0 || (j.store_port >= 15000 && j.store_port < 25000));
}

static void test_slurm(void)
{
    static const char *const hosts[][2] = {
        { "node[05-09,12]", "node05" }, { "a", "a" },           { "a,b", "a" },
        { "r[1-2]n[03,7]", "r1n03" },   { "n[1]-ib", "n1-ib" },
    };
    static const char *const bad[] = { "", ",", "n[", "n[a]", "n[1", "[]" };
    char host[32];
    int n;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        GR_CHECK_OK(gr_slurm_first_host(hosts[i][0], host, sizeof(host)));
        GR_CHECK_STR(host, hosts[i][1]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        GR_CHECK_FAILS(gr_slurm_first_host(bad[i], host, sizeof(host)), GR_ERR_FORMAT, "no list");
    GR_CHECK_FAILS(gr_slurm_first_host("a-very-long-name", host, 8), GR_ERR_FORMAT, "no list");
    GR_CHECK_OK(gr_slurm_tasks_on("4(x2),3", 1, &n));
    GR_CHECK_EQ(n, 4);
    GR_CHECK_OK(gr_slurm_tasks_on("4(x2),3", 2, &n));
    GR_CHECK_EQ(n, 3);
    GR_CHECK_FAILS(gr_slurm_tasks_on("4(x2),3", 3, &n), GR_ERR_FORMAT, "does not say");
    GR_CHECK_FAILS(gr_slurm_tasks_on("(x2)", 0, &n), GR_ERR_FORMAT, "does not say");
    GR_CHECK_FAILS(gr_slurm_tasks_on("", 0, &n), GR_ERR_FORMAT, "does not say");
}

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fprintf(stderr, "row %zu\n", i);
        check_row(&rows[i]);
    }
    test_slurm();
    return 0;
}
