/* Rank discovery: whole, half and wrong environments. */
#include "check.h"
#include "net/env.h"

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; NULL leaves one unset. */
static gr_status read_job(gr_job *j, const char *const v[5])
{
    static const char *const names[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
                                         "MASTER_PORT" };

    for (int i = 0; i < 5; i++)
        set(names[i], v[i]);
    return gr_job_from_env(j);
}

#define ENV(...) ((const char *const[5]){ __VA_ARGS__ })

int main(void)
{
    gr_job j;

    set("LOCAL_WORLD_SIZE", NULL);
    set("TORCHELASTIC_USE_AGENT_STORE", NULL);
    set("TORCHELASTIC_RESTART_COUNT", NULL);
    GR_CHECK_OK(read_job(&j, ENV(NULL, NULL, NULL, "somewhere", NULL)));
    GR_CHECK(j.rank == 0 && j.n_ranks == 1 && j.local_rank == 0);

    GR_CHECK_OK(read_job(&j, ENV("1", "4", "0", "10.0.0.1", "29500")));
    GR_CHECK(j.rank == 1 && j.n_ranks == 4 && j.local_rank == 0 && j.store_port == 29500);
    GR_CHECK_STR(j.store_host, "10.0.0.1");
    GR_CHECK(!j.agent_store && j.n_local == 0);
    set("TORCHELASTIC_USE_AGENT_STORE", "True");
    set("TORCHELASTIC_RESTART_COUNT", "2");
    set("LOCAL_WORLD_SIZE", "2");
    GR_CHECK_OK(read_job(&j, ENV("1", "4", NULL, "10.0.0.1", "29500")));
    GR_CHECK(j.agent_store && j.restart == 2 && j.n_local == 2 && j.local_rank == 1);
    set("LOCAL_WORLD_SIZE", NULL);
    GR_CHECK_OK(read_job(&j, ENV("0", "1", NULL, NULL, NULL)));

    GR_CHECK_FAILS(read_job(&j, ENV("1", NULL, NULL, NULL, NULL)), GR_ERR_ARG,
                   "RANK is set but WORLD_SIZE is not: start the program with gradrun");
    GR_CHECK_FAILS(read_job(&j, ENV(NULL, "2", NULL, NULL, NULL)), GR_ERR_ARG, "RANK is not");
    GR_CHECK_FAILS(read_job(&j, ENV(NULL, NULL, "0", NULL, NULL)), GR_ERR_ARG,
                   "LOCAL_RANK is set but RANK is not");
    GR_CHECK_FAILS(read_job(&j, ENV("0", "2", NULL, NULL, "1")), GR_ERR_ARG, "MASTER_ADDR is not");
    GR_CHECK_FAILS(read_job(&j, ENV("0", "2", NULL, "a", "")), GR_ERR_ARG, "MASTER_PORT is not");
    GR_CHECK_FAILS(read_job(&j, ENV("0", "2", NULL, "a", "0")), GR_ERR_ARG, "MASTER_PORT is '0'");
    GR_CHECK_FAILS(read_job(&j, ENV("2", "2", NULL, "a", "1")), GR_ERR_ARG, "RANK is '2'");
    GR_CHECK_FAILS(read_job(&j, ENV("0", "two", NULL, "a", "1")), GR_ERR_ARG, "'two'");
    GR_CHECK_FAILS(read_job(&j, ENV("0", "2x", NULL, "a", "1")), GR_ERR_ARG, "'2x'");
    return 0;
}
