/* The driver's main part: all checks of all cases of a family. */
#include "op/driver_impl.h"

#include <stdio.h>

/* ---- comparing ---- */

static bool is_close(const driver_compare *k, gr_dtype t, double got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) && (k->w->c->flags & DRIVER_SPECIAL);
    if (isinf(want) || isinf(got) || !gr_dtype_is_float(t))
        return got == want;
    return fabs(got - want) <= driver_tolerance(k->w->c, k->n_reduced, t, want);
}

void driver_compare_all(const driver_compare *k, const gr_value *v, const void *got,
                        const void *want)
{
    int64_t n = gr_shape_count(&v->shape);

    if (k->exact && memcmp(got, want, gr_value_bytes(v)) == 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        double a = driver_get(v->dtype, got, i), b = driver_get(v->dtype, want, i);
        size_t size = gr_dtype_bytes(v->dtype), at = (size_t)i * size;
        bool same = memcmp((const char *)got + at, (const char *)want + at, size) == 0;

        if (k->exact ? !same : !is_close(k, v->dtype, a, b))
            driver_die(k->w,
                       "%s of kernel '%s', element %" PRId64 ": %.9g, %s has %.9g, may be off by "
                       "%.3g",
                       k->what, k->kernel, i, a, k->against, b,
                       k->exact ? 0 : driver_tolerance(k->w->c, k->n_reduced, v->dtype, b));
    }
}

/* All outputs of the operator, and the gradients of its sources where they were built. */
static void compare_runs(const driver_compare *how, const driver_eval *got, const driver_eval *want)
{
    const driver_world *w = how->w;
    driver_compare k = *how;
    char what[16];

    k.what = what;
    k.n_reduced = w->c->n_reduced;
    for (int i = 0; i < w->node->n_out; i++) {
        const gr_value *v = &w->node->out[i];

        snprintf(what, sizeof(what), "out%d", i);
        if (gr_value_root(v)->space != GR_SPACE_NONE)
            driver_compare_all(&k, v, driver_eval_get(got, v), driver_eval_get(want, v));
    }
    for (int i = 0; i < w->c->n_src; i++) {
        const gr_value *v = w->d_src[i];

        snprintf(what, sizeof(what), "dsrc%d", i);
        k.n_reduced = driver_grad_length(w, i);
        k.exact = k.exact && !k.is_reference; /* gradients may be sums */
        if (v)
            driver_compare_all(&k, v, driver_eval_get(got, v), driver_eval_get(want, v));
    }
}

/* ---- kernels ---- */

static driver_eval *must_run(driver_world *w, const driver_how *how)
{
    driver_eval *e;

    if (driver_eval_run(&e, w, how) != GR_OK)
        driver_die(w, "kernel '%s': %s", how->only, gr_error_message());
    return e;
}

/* One kernel: twice with other poison, which may not show; on two threads, which may not
 * show unless the case says so; and against the reference. */
static void check_kernel(driver_world *w, const char *kernel, const driver_target *t,
                         const driver_eval *reference)
{
    driver_how how = { .only = kernel, .n_threads = 1, .poison = 0xff, .target = t };
    driver_how other = { .only = kernel, .n_threads = 2, .poison = 0xab, .target = t };
    driver_compare k = { .w = w, .kernel = kernel };
    driver_eval *one = must_run(w, &how), *two = must_run(w, &other);

    k.against = "the same kernel on two threads, with other poison,";
    k.exact = !(w->c->flags & DRIVER_THREADS_DIFFER);
    compare_runs(&k, two, one);
    k.against = "the reference";
    k.is_reference = true;
    k.exact = (w->c->flags & DRIVER_EXACT) != 0;
    compare_runs(&k, one, reference);
    driver_eval_destroy(one);
    driver_eval_destroy(two);
}

static void check_faults(driver_world *w, const char *kernel, const driver_target *t)
{
    driver_how how = { .only = kernel, .n_threads = 1, .poison = 0xff, .target = t };
    driver_eval *e;

    if (driver_eval_run(&e, w, &how) == GR_OK)
        driver_die(w, "kernel '%s' takes bad data without a word", kernel);
    driver_eval_destroy(e);
}

static void check_as(const driver_case *c, gr_dtype as, const driver_target *t)
{
    static const driver_how plain = { .only = "reference", .n_threads = 1, .poison = 0xff };
    driver_world w;
    const gr_kernel *k;
    driver_eval *reference = NULL;

    driver_world_init(&w, c, as);
    if (!w.node)
        driver_die(&w, "cannot be built: %s", gr_error_message());
    if (gr_graph_verify(w.graph, "building") != GR_OK)
        driver_die(&w, "%s", gr_error_message());
    if (c->grad && !(c->flags & (DRIVER_FAULTS | DRIVER_SPECIAL)))
        driver_world_grad(&w);
    if (!(c->flags & DRIVER_FAULTS))
        reference = must_run(&w, &plain);
    if (!w.node->op->kernels)
        check_kernel(&w, "reference", t, reference);
    for (int i = 0; (k = gr_kernel_at(t ? t->kernels : NULL, w.node, i)); i++) {
        if (gr_kernel_refusal(k, w.node))
            continue;
        if (c->flags & DRIVER_FAULTS)
            check_faults(&w, k->name, t);
        else
            check_kernel(&w, k->name, t, reference);
    }
    driver_eval_destroy(reference);
    driver_world_fini(&w);
}

/* ---- the shape rule ---- */

static void must_contain(const driver_world *w, const char *part)
{
    if (!strstr(gr_error_message(), part))
        driver_die(w, "the message '%s' does not say '%s'", gr_error_message(), part);
}

/* Message: what is wrong, the operator, each source's shape, the place in the table. */
static void check_refusal(const driver_case *c)
{
    char text[GR_SHAPE_TEXT];
    driver_world w;

    driver_world_init(&w, c, GR_F32);
    if (w.node || gr_graph_status(w.graph) != GR_ERR_ARG)
        driver_die(&w, "must be refused, but it was built");
    must_contain(&w, c->want);
    must_contain(&w, c->op);
    for (int i = 0; i < c->n_src && !(c->flags & DRIVER_NO_SHAPES); i++)
        must_contain(&w, gr_shape_text(&c->src[i].shape, text, sizeof(text)));
    must_contain(&w, "case");
    driver_world_fini(&w);
}

/* ---- families ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static void run_case(const driver_case *c, const driver_golden *d, const driver_target *t)
{
    static const gr_dtype floats[] = { GR_F32, GR_F64, GR_BF16, GR_F16 };

    if (c->want) {
        check_refusal(c);
        return;
    }
    if (IS_SANITIZED && (c->flags & DRIVER_LARGE))
        return;
    for (int i = 0; i < (c->flags & DRIVER_FLOATS ? DRIVER_COUNT(floats) : 1); i++)
        check_as(c, floats[i], t);
    if (c->grad && !(c->flags & (DRIVER_FAULTS | DRIVER_SPECIAL | DRIVER_LARGE)))
        driver_check_grad(c);
    if (c->flags & DRIVER_GOLDEN)
        driver_check_golden(d, c, t);
}

typedef struct one_case {
    const driver_case *c;
    driver_golden *golden;
    const driver_target *t;
} one_case;

static void run_one(void *arg)
{
    one_case *o = arg;

    run_case(o->c, o->golden, o->t);
}

void driver_run_family(const driver_family *f, const driver_target *t)
{
    driver_golden *d = NULL;
    int n_failed = 0;

    for (int i = 0; i < f->n_cases && !d; i++)
        if (f->cases[i].flags & DRIVER_GOLDEN)
            GR_CHECK_OK(driver_golden_load(&d, f->name));
    for (int i = 0; i < f->n_cases; i++)
        n_failed += !driver_survives(run_one, &(one_case){ &f->cases[i], d, t });
    driver_golden_destroy(d);
    if (n_failed > 0) {
        fprintf(stderr, "%s: %d of %d cases failed\n", f->name, n_failed, f->n_cases);
        exit(1);
    }
}
