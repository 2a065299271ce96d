/* Inputs that go up while earlier steps compute: each step reads its own, whatever order the
 * device takes, and the host waits for no step. */
#include "backend/null/null.h"
#include "step/private.h"

#include "check.h"
#include "exec/fake.h"

#define N_STEPS 40
#define N_BYTES 40 /* of in0 and of in1 */

typedef struct seen {
    const gr_entry *e;
    gr_scalars scalars;
    char in[2][N_BYTES];
} seen;

/* A step's work, on the compute stream. */
static void compute(void *arg)
{
    seen *s = (seen *)arg;

    memcpy(&s->scalars, s->e->input_mem, sizeof(s->scalars));
    for (int i = 0; i < 2; i++)
        memcpy(s->in[i], s->e->inputs[i], N_BYTES);
}

static void make_entry(gr_step *s, gr_entry *e, fake_world *w)
{
    gr_plan_config c = { .device = s->device };

    fake_world_init(w);
    gr_output(w->g, "out",
              fake_node(w->g, &fake_work, "use", 8, gr_input(w->g, "in0"), gr_input(w->g, "in1")));
    GR_CHECK_OK(gr_plan_create(&e->plan, w->g, &c));
    GR_CHECK_EQ(gr_plan_n_inputs(e->plan), 2);
    e->input_bytes = 3 * GR_SLOT_ALIGN;
    GR_CHECK_OK(s->device->ops->alloc(s->device, e->input_bytes, &e->input_mem));
    for (int i = 0; i < 2; i++)
        e->inputs[i] = (char *)e->input_mem + (size_t)(i + 1) * GR_SLOT_ALIGN;
}

static void send_all(gr_step *s, gr_entry *e, seen *log)
{
    char in[2][N_BYTES];
    gr_named feeds[] = { { .name = "in0", .mem = in[0] }, { .name = "in1", .mem = in[1] } };

    for (int i = 0; i < N_STEPS; i++) {
        gr_scalars v = { .step = (uint64_t)i };

        memset(in[0], i, N_BYTES);
        memset(in[1], 100 + i, N_BYTES);
        GR_CHECK_OK(gr_step_send_copies(s, e, feeds, &v));
        memset(in, 255, sizeof(in)); /* the caller's again */
        log[i].e = e;
        GR_CHECK_OK(gr_replay_queue(s->device->ops->stream(s->device, GR_STREAM_COMPUTE), compute,
                                    &log[i]));
    }
    GR_CHECK_OK(s->device->ops->sync(s->device));
}

static int check_seed(int seed)
{
    gr_step s = { .n_entries = 0 };
    int feed_of[] = { 0, 1 }, n_reordered;
    void *inputs[2];
    gr_entry e = { .feed_of = feed_of, .inputs = inputs };
    fake_world w;
    static seen log[N_STEPS];

    GR_CHECK_OK(gr_backend_replay.open(&s.device, seed));
    make_entry(&s, &e, &w);
    GR_CHECK_OK(gr_step_grow_staging(&s, e.input_bytes - 1));
    GR_CHECK_OK(gr_step_grow_staging(&s, e.input_bytes));
    send_all(&s, &e, log);
    for (int i = 0; i < N_STEPS; i++) {
        GR_CHECK_EQ(log[i].scalars.step, (uint64_t)i);
        for (int k = 0; k < N_BYTES; k++) {
            GR_CHECK_EQ(log[i].in[0][k], (char)i);
            GR_CHECK_EQ(log[i].in[1][k], (char)(100 + i));
        }
    }
    n_reordered = gr_replay_n_reordered(s.device);
    gr_plan_destroy(e.plan);
    gr_step_free_staging(&s);
    s.device->ops->free(s.device, e.input_mem);
    s.device->ops->close(s.device);
    fake_world_fini(&w);
    return n_reordered;
}

int main(void)
{
    int n_reordered = 0;

    for (int seed = 0; seed < 30; seed++)
        n_reordered += check_seed(seed);
    GR_CHECK(n_reordered > 30); /* copies went ahead of work that was queued before them */
    return 0;
}
