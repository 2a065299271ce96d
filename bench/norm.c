/*
 * Normalisation and softmax beside PyTorch: forward, and forward with backward, of f32, as a
 * plan runs them. Both sides take turns in one run and the best of all rounds counts: on a
 * shared machine the rest is the neighbours. Also the bytes that have to be moved, and what
 * part of the speed of a copy of that size is reached: the floor.
 *
 * Usage: norm [--threads N] [--rounds N] [--python PROGRAM]
 * PROGRAM runs bench/norm_torch.py beside this file; without PyTorch our times stand alone.
 */
#include "base/clock.h"
#include "base/option.h"
#include "gradus/gradus.h"
#include "pass/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPEATS 10 /* per turn */

typedef struct subject {
    const char *name; /* as in norm_torch.py */
    bool backward;
    int n_dims;
    int64_t dim[4];
    double streams; /* tensors of x's size that must be read or written */
} subject;

static const subject subjects[] = {
    { "copy", false, 2, { 1024, 384 }, 2 },
    { "layer_norm", false, 2, { 1024, 384 }, 2 },
    { "layer_norm", true, 2, { 1024, 384 }, 5 },
    { "rms_norm", false, 2, { 1024, 768 }, 2 },
    { "rms_norm", true, 2, { 1024, 768 }, 5 },
    { "copy", false, 4, { 16, 32, 32, 64 }, 2 },
    { "batch_norm", false, 4, { 16, 32, 32, 64 }, 3 },
    { "batch_norm", true, 4, { 16, 32, 32, 64 }, 8 },
    { "batch_norm+relu", false, 4, { 16, 32, 32, 64 }, 3 },
    { "batch_norm+relu", true, 4, { 16, 32, 32, 64 }, 8 },
    { "batch_norm", false, 4, { 4, 33, 33, 256 }, 3 },
    { "batch_norm", true, 4, { 4, 33, 33, 256 }, 8 },
    { "batch_norm+relu", false, 4, { 4, 33, 33, 256 }, 3 },
    { "batch_norm+relu", true, 4, { 4, 33, 33, 256 }, 8 },
    { "group_norm", false, 4, { 4, 33, 33, 256 }, 3 },
    { "group_norm", true, 4, { 4, 33, 33, 256 }, 8 },
    { "softmax", false, 2, { 4096, 384 }, 2 },
    { "softmax", true, 2, { 4096, 384 }, 5 },
    { "softmax", false, 4, { 4, 65, 65, 21 }, 2 },
    { "softmax", true, 4, { 4, 65, 65, 21 }, 5 },
    { "log_softmax", false, 4, { 4, 65, 65, 21 }, 2 },
    { "log_softmax", true, 4, { 4, 65, 65, 21 }, 5 },
    { "max_index", false, 4, { 4, 65, 65, 21 }, 1 },
};
#define N_SUBJECTS ((int)(sizeof(subjects) / sizeof(subjects[0])))

typedef struct peer {
    FILE *to, *from; /* NULL: there is no PyTorch */
    pid_t pid;
} peer;

/* ---- our side ---- */

static gr_value *build(gr_graph *g, const char *name, gr_value *x, gr_value *w, gr_value *b)
{
    gr_batch_norm_args a = GR_BATCH_NORM_INIT;

    a.weight = w;
    a.bias = b;
    if (strcmp(name, "copy") == 0)
        return gr_mul_k(g, x, 1);
    if (strcmp(name, "layer_norm") == 0)
        return gr_layer_norm(g, x, w, b, 1e-5);
    if (strcmp(name, "rms_norm") == 0)
        return gr_rms_norm(g, x, w, 1e-5);
    if (strcmp(name, "batch_norm") == 0)
        return gr_batch_norm(g, x, &a);
    if (strcmp(name, "batch_norm+relu") == 0)
        return gr_relu(g, gr_batch_norm(g, x, &a));
    if (strcmp(name, "group_norm") == 0)
        return gr_group_norm(g, x, 32, w, b, 1e-5);
    if (strcmp(name, "softmax") == 0)
        return gr_softmax(g, x, -1);
    if (strcmp(name, "max_index") == 0)
        return gr_max_index(g, x, -1, true, NULL);
    return gr_log_softmax(g, x, -1);
}

static gr_status trace(gr_graph *g, void *user)
{
    static const char *const names[] = { "dx", "dw", "db" };
    const subject *s = user;
    gr_shape vector = gr_shape_of(1, &s->dim[s->n_dims - 1]);
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", vector, gr_init_uniform(0, 1));
    gr_value *b = gr_param(g, "b", vector, gr_init_uniform(0, 1));
    gr_value *in[] = { x, w, b }, *d[3] = { NULL };
    gr_value *y = build(g, s->name, x, w, b);

    gr_output(g, "y", y);
    GR_TRY(gr_graph_status(g));
    if (s->backward)
        GR_TRY(gr_autodiff(g, y, gr_input(g, "dy"), in, 3, d));
    for (int i = 0; i < 3; i++)
        if (d[i])
            gr_output(g, names[i], d[i]);
    return gr_graph_status(g);
}

typedef struct ours {
    gr_step *step;
    gr_named feeds[2];
} ours;

static gr_status ours_init(ours *o, const subject *s, int n_threads)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_shape shape = gr_shape_of(s->n_dims, s->dim);
    size_t n = (size_t)gr_shape_count(&shape);

    c.trace = trace;
    c.user = (void *)(uintptr_t)s;
    c.device = "cpu";
    c.n_threads = n_threads;
    for (int i = 0; i < 2; i++) {
        float *mem = malloc(n * sizeof(*mem));

        if (!mem)
            return gr_fail(GR_ERR_NOMEM, "no memory");
        for (size_t e = 0; e < n; e++)
            mem[e] = (float)((e * 2654435761u) >> 8 & 0xffff) / 32768 - 1;
        o->feeds[i] = (gr_named){ i == 0 ? "x" : "dy", GR_F32, shape, mem };
    }
    return gr_step_create(&o->step, &c);
}

static gr_status ours_time(const ours *o, double *best)
{
    for (int i = 0; i < REPEATS; i++) {
        int64_t from = gr_now_ns();
        double s;

        GR_TRY(gr_step_eval(o->step, o->feeds, 2));
        s = (double)(gr_now_ns() - from) * 1e-9;
        *best = s < *best ? s : *best;
    }
    return GR_OK;
}

/* ---- the other side ---- */

static gr_status peer_start(peer *p, const char *python, int64_t n_threads)
{
    int to[2], from[2];
    char threads[32], version[128];

    *p = (peer){ 0 };
    snprintf(threads, sizeof(threads), "%lld", (long long)n_threads);
    if (pipe(to) != 0 || pipe(from) != 0)
        return gr_fail(GR_ERR_IO, "no pipe");
    p->pid = fork();
    if (p->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execlp(python, python, "bench/norm_torch.py", threads, (char *)NULL);
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
    if (!p->to || !p->from || !fgets(version, sizeof(version), p->from)) {
        printf("there is no PyTorch beside us ('%s bench/norm_torch.py' did not answer)\n", python);
        p->to = NULL;
        return GR_OK;
    }
    printf("against %s", version);
    return GR_OK;
}

static gr_status peer_time(const peer *p, const subject *s, double *best)
{
    char line[64];
    double seconds;

    if (!p->to)
        return GR_OK;
    fprintf(p->to, "%s %s %d", s->name, s->backward ? "both" : "forward", REPEATS);
    for (int i = 0; i < s->n_dims; i++)
        fprintf(p->to, " %lld", (long long)s->dim[i]);
    fprintf(p->to, "\n");
    fflush(p->to);
    if (!fgets(line, sizeof(line), p->from))
        return gr_fail(GR_ERR_PEER, "the PyTorch side ended");
    seconds = strtod(line, NULL);
    *best = seconds < *best ? seconds : *best;
    return GR_OK;
}

/* ---- the table ---- */

/* Bytes per second of the latest "copy": subjects of that size follow it. */
static double copy_speed;

static void report(const subject *s, double our_s, double their_s)
{
    gr_shape shape = gr_shape_of(s->n_dims, s->dim);
    double mb = s->streams * (double)gr_shape_count(&shape) * 4;
    char text[GR_SHAPE_TEXT];

    if (strcmp(s->name, "copy") == 0)
        copy_speed = mb / our_s;
    printf("%-15s %-8s %-17s %5.1f MB %7.1f us %5.1f GB/s %4.0f%%", s->name,
           s->backward ? "both" : "forward", gr_shape_text(&shape, text, sizeof(text)), mb * 1e-6,
           our_s * 1e6, mb / our_s * 1e-9, 100 * mb / our_s / copy_speed);
    if (their_s < 1e8)
        printf("   PyTorch %7.1f us, %.2f times ours", their_s * 1e6, their_s / our_s);
    printf("\n");
    fflush(stdout);
}

static gr_status run_subject(const subject *s, const peer *p, int n_threads, int64_t rounds)
{
    double our_s = 1e9, their_s = 1e9;
    ours o = { 0 };
    gr_status st = ours_init(&o, s, n_threads);

    for (int64_t r = 0; r < rounds && st == GR_OK; r++) {
        st = ours_time(&o, &our_s);
        if (st == GR_OK)
            st = peer_time(p, s, &their_s);
    }
    if (st == GR_OK)
        report(s, our_s, their_s);
    if (o.step)
        gr_step_destroy(o.step);
    for (int i = 0; i < 2; i++)
        free(o.feeds[i].mem);
    return st;
}

int main(int argc, char **argv)
{
    int64_t n_threads = 0, n_rounds = 20;
    const char *python = "python3";
    const gr_option table[] = {
        { "threads", GR_OPTION_INT, &n_threads, 0, 1024, NULL, "N", "threads; 0: one, then two" },
        { "rounds", GR_OPTION_INT, &n_rounds, 1, 1e6, NULL, "N", "turns of each side" },
        { "python", GR_OPTION_TEXT, &python, 0, 0, NULL, "PROGRAM", "Python with PyTorch" },
        { 0 },
    };
    int n_used;
    gr_status st = gr_option_parse(table, argc - 1, argv + 1, &n_used);

    for (int64_t t = n_threads ? n_threads : 1; st == GR_OK && t <= (n_threads ? n_threads : 2);
         t++) {
        peer p;

        printf("%lld threads, ", (long long)t);
        fflush(stdout);
        st = peer_start(&p, python, t);
        for (int i = 0; i < N_SUBJECTS && st == GR_OK; i++)
            st = run_subject(&subjects[i], &p, (int)t, n_rounds);
        if (p.to)
            fclose(p.to);
        waitpid(p.pid, NULL, 0);
    }
    if (st == GR_OK)
        return 0;
    fprintf(stderr, "norm: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_ERR_ARG ? 2 : 1;
}
