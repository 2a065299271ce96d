/* Calls of a step without one, and of parts of a state that do not exist. */
#include "check.h"
#include "gradus/gradus.h"
#include "gradus/inspect.h"

#define NO_STEP(call) GR_CHECK_FAILS(call, GR_ERR_ARG, "there is no step (NULL)")

static void test_no_step(void)
{
    gr_fit_config fit = GR_FIT_CONFIG_INIT;
    gr_check_report *check = malloc(sizeof(*check));
    gr_memory_report memory;
    gr_step_stats stats;
    gr_snapshot *snap;
    int64_t batch;
    size_t n_bytes;
    char *text;
    float x;

    NO_STEP(gr_step_plan(NULL, true, NULL, 0));
    NO_STEP(gr_step_train(NULL, NULL, 0, 0.1));
    NO_STEP(gr_step_eval(NULL, NULL, 0));
    NO_STEP(gr_step_use_ema(NULL, true));
    NO_STEP(gr_step_read(NULL, "loss", (gr_vec){ &x, 1, GR_F32 }));
    NO_STEP(gr_step_get_stats(NULL, &stats));
    NO_STEP(gr_step_save(NULL, &snap));
    NO_STEP(gr_step_restore(NULL, NULL));
    NO_STEP(gr_step_broadcast(NULL, 0));
    NO_STEP(gr_step_sync_buffers(NULL));
    NO_STEP(gr_step_sync(NULL));
    NO_STEP(gr_step_choices(NULL, &text));
    NO_STEP(gr_step_describe(NULL, &text));
    NO_STEP(gr_step_run_checked(NULL, NULL, 0, 0.1, check));
    NO_STEP(gr_step_memory_report(NULL, true, NULL, 0, &memory));
    NO_STEP(gr_step_fit_batch(NULL, NULL, 0, &fit, &batch, &n_bytes));
    free(check);
}

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SCALAR, gr_init_const(3));

    (void)user;
    gr_loss(g, gr_mul(g, w, gr_input(g, "x")));
    return gr_graph_status(g);
}

static void test_wrong_values(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    float x = 1;
    gr_named feed = { "x", GR_F32, GR_SCALAR, &x };
    gr_snapshot *snap;
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_FAILS(gr_step_train(s, &feed, 1, 1e300), GR_ERR_ARG,
                   "the learning rate is 1e+300, more than f32 holds");
    GR_CHECK_FAILS(gr_step_train(s, &feed, 1, -1), GR_ERR_ARG, "must be a number from 0 up");
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    GR_CHECK_OK(gr_snapshot_create(&snap));
    GR_CHECK_FAILS(gr_step_save_into(s, snap, (gr_save_part)7), GR_ERR_ARG,
                   "save: there is no part 7 of a state");
    GR_CHECK_EQ(gr_snapshot_count(snap), 0);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* A process that a launcher started as one of several, and a program that has made no group. */
static void test_no_group(void)
{
    static const struct {
        const char *vars[4][2], *says;
    } launchers[] = {
        { { { "RANK", "1" }, { "WORLD_SIZE", "4" } }, "this process is rank 1 of 4 (torchrun)" },
        { { { "OMPI_COMM_WORLD_RANK", "0" }, { "OMPI_COMM_WORLD_SIZE", "2" } },
          "this process is rank 0 of 2 (Open MPI)" },
        { { { "SLURM_PROCID", "2" },
            { "SLURM_STEP_ID", "0" },
            { "SLURM_STEP_NUM_TASKS", "3" },
            { "SLURM_LOCALID", "2" } },
          "this process is rank 2 of 3 (Slurm)" },
        { { { "WORLD_SIZE", "4" } }, "WORLD_SIZE is set but RANK is not" },
        /* One process is no job, whoever started it. */
        { { { "RANK", "0" }, { "WORLD_SIZE", "1" } }, NULL },
        { { { "SLURM_PROCID", "0" }, { "SLURM_NTASKS", "8" } }, NULL },
    };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        gr_pg *pg[1];

        for (int k = 0; k < 4 && launchers[i].vars[k][0]; k++)
            setenv(launchers[i].vars[k][0], launchers[i].vars[k][1], 1);
        c.alone = false;
        if (launchers[i].says) {
            GR_CHECK_FAILS(gr_step_create(&s, &c), GR_ERR_ARG, launchers[i].says);
            GR_CHECK(strstr(gr_error_message(), "gr_pg_create(&config.pg, NULL)"));
            c.alone = true;
        }
        GR_CHECK_OK(gr_step_create(&s, &c));
        gr_step_destroy(s);
        /* Any group will do: which ranks it has is the program's business. */
        c.alone = false;
        GR_CHECK_OK(gr_pg_create_threads(pg, 1, NULL));
        c.pg = pg[0];
        GR_CHECK_OK(gr_step_create(&s, &c));
        gr_step_destroy(s);
        gr_pg_destroy(pg[0]);
        c.pg = NULL;
        for (int k = 0; k < 4 && launchers[i].vars[k][0]; k++)
            unsetenv(launchers[i].vars[k][0]);
    }
}

int main(void)
{
    test_no_step();
    test_wrong_values();
    test_no_group();
    return 0;
}
