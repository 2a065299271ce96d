/*
 * Sequences of many lengths, with data parallelism: does a text hold more of token 1 or of token
 * 2? A batch holds texts of like length, as many as a budget of tokens allows, so memory is
 * bounded by the budget and little is padded. Alone, or on four ranks:
 *
 *     ./token_budget
 *     gradrun --nproc-per-node 4 ./token_budget
 *
 * Every rank takes the same number of steps, and each text is seen once an epoch, whatever the
 * number of ranks: the last lines say so.
 */
#include <gradus/gradus.h>

#include <stdio.h>
#include <stdlib.h>

enum { N_TEXTS = 2000, MAX_LENGTH = 200, BUDGET = 1024, EPOCHS = 12, N_TOKENS = 16 };

typedef struct texts {
    int32_t token[N_TEXTS][MAX_LENGTH]; /* 0 behind the end */
    int64_t length[N_TEXTS];
    int32_t label[N_TEXTS];
} texts;

static uint32_t draw(uint32_t *state, uint32_t below)
{
    return (*state = *state * 1664525u + 1013904223u) / 65536u % below;
}

/* Equal on every rank. */
static void make_texts(texts *t)
{
    uint32_t state = 1;

    for (int i = 0; i < N_TEXTS; i++) {
        int count[N_TOKENS] = { 0 };

        t->length[i] = 3 + draw(&state, 14) * draw(&state, 14);
        for (int64_t k = 0; k < t->length[i]; k++) {
            t->token[i][k] = 1 + (int32_t)draw(&state, N_TOKENS - 1);
            count[t->token[i][k]]++;
        }
        t->label[i] = count[2] > count[1];
    }
}

/* tokens [n, length], of which some are padding: token 0. */
static gr_status trace(gr_graph *g, void *user)
{
    gr_init small = gr_init_normal(0, 0.1);
    gr_value *tokens = gr_input(g, "tokens");
    gr_value *is_text = gr_cast(g, gr_unsqueeze(g, gr_ne_k(g, tokens, 0), -1), GR_F32);
    gr_value *x = gr_embedding_layer(g, "embed", tokens, N_TOKENS, 16, &small);

    (void)user;
    x = gr_sum(g, gr_mul(g, x, is_text), GR_AXIS(1), false); /* over the text */
    x = gr_relu(g, gr_linear(g, "fc1", x, 32));
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc2", x, 2), gr_input(g, "label")));
    return gr_graph_status(g);
}

typedef struct seen {
    int64_t texts[N_TEXTS]; /* how often each was in a batch */
    int64_t most;           /* tokens in a batch */
    double padded, real;    /* tokens */
    double loss;            /* of an epoch: sum over its steps, then their mean */
} seen;

/* One step on batch b: texts are laid side by side, each padded to the batch's length. */
static gr_status step_on(gr_step *step, const texts *t, const gr_batch_view *b, seen *s)
{
    static int32_t tokens[BUDGET], label[BUDGET];
    gr_named feeds[2] = { { "tokens", GR_I32, GR_SHAPE(b->n, b->length), tokens },
                          { "label", GR_I32, GR_SHAPE(b->n), label } };
    float loss;

    for (int64_t i = 0; i < b->n; i++) {
        for (int64_t k = 0; k < b->length; k++)
            tokens[i * b->length + k] = k < MAX_LENGTH ? t->token[b->index[i]][k] : 0;
        label[i] = t->label[b->index[i]];
        s->texts[b->index[i]]++;
        s->real += (double)t->length[b->index[i]];
    }
    s->padded += (double)(b->n * b->length);
    s->most = b->n * b->length > s->most ? b->n * b->length : s->most;
    GR_TRY(gr_step_train(step, feeds, 2, 5e-3));
    GR_TRY(gr_step_read(step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    s->loss += (double)loss;
    return GR_OK;
}

/* What all ranks saw. */
static gr_status report(gr_pg *pg, int64_t n_steps, seen *s)
{
    int64_t least_steps = -n_steps, once = 0;

    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ s->texts, N_TEXTS, GR_I64 }, GR_REDUCE_SUM));
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ &s->most, 1, GR_I64 }, GR_REDUCE_MAX));
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ &n_steps, 1, GR_I64 }, GR_REDUCE_MAX));
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ &least_steps, 1, GR_I64 }, GR_REDUCE_MAX));
    for (int i = 0; i < N_TEXTS; i++)
        once += s->texts[i] == EPOCHS;
    if (gr_pg_rank(pg) != 0)
        return GR_OK;
    printf("%d of %d texts seen once an epoch\n", (int)once, N_TEXTS);
    printf("every rank took as many steps: %s\n", n_steps == -least_steps ? "yes" : "no");
    printf("tokens of a batch: %s %d\n", s->most <= BUDGET ? "at most" : "more than", BUDGET);
    printf("padding: %s 20%%\n", s->padded < 1.25 * s->real ? "less than" : "over");
    return GR_OK;
}

static gr_status train(gr_step *step, gr_pg *pg, const texts *t, seen *s)
{
    gr_batches_config c = GR_BATCHES_CONFIG_INIT;
    gr_batches *batches;
    gr_batch_view b;
    gr_status st;

    c.lengths = t->length;
    c.n_samples = N_TEXTS;
    c.max_tokens = BUDGET;
    c.round_to = 16;
    c.rank = gr_pg_rank(pg);
    c.n_ranks = gr_pg_size(pg);
    st = gr_batches_create(&batches, &c);
    if (st != GR_OK)
        return st;
    for (int64_t epoch = 0; epoch < EPOCHS && st == GR_OK; epoch++) {
        s->loss = 0;
        for (int64_t i = 0; i < gr_batches_count(batches) && st == GR_OK; i++) {
            st = gr_batches_at(batches, epoch, i, &b);
            if (st == GR_OK)
                st = step_on(step, t, &b, s);
        }
    }
    s->loss /= (double)gr_batches_count(batches);
    if (st == GR_OK && gr_pg_rank(pg) == 0)
        printf("loss %s 0.3\n", s->loss < 0.3 ? "<" : ">=");
    if (st == GR_OK)
        st = report(pg, EPOCHS * gr_batches_count(batches), s);
    gr_batches_destroy(batches);
    return st;
}

int main(void)
{
    gr_step_config config = GR_STEP_CONFIG_INIT;
    texts *t = calloc(1, sizeof(*t));
    seen *s = calloc(1, sizeof(*s));
    gr_step *step = NULL;
    gr_pg *pg = NULL;
    gr_status st = t && s ? gr_pg_create(&pg, NULL) : gr_fail(GR_ERR_NOMEM, "no memory");

    config.trace = trace;
    config.pg = pg;
    config.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    config.loss_reduction = GR_LOSS_GLOBAL; /* batches of the ranks are not equally large */
    if (st == GR_OK)
        st = gr_step_create(&step, &config);
    if (st == GR_OK) {
        make_texts(t);
        st = train(step, pg, t, s);
    }
    if (st != GR_OK)
        fprintf(stderr, "token_budget: %s: %s\n", gr_status_text(st), gr_error_message());
    gr_step_destroy(step);
    gr_pg_destroy(pg);
    free(s);
    free(t);
    return gr_exit_code(st);
}
