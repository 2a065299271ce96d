/*
 * Gradient rules against finite differences. With L = sum over outputs of w * out, where w
 * is the gradient handed to the rule, the rule must give dL/dx. All in f64 on reference
 * kernels; L(x + h) - L(x - h) is summed from differences of outputs, so that large
 * outputs do not drown it.
 *
 * With h = 1e-5 the error of the central difference is about h^2 = 1e-10 times the third
 * derivative, and rounding adds 1e-16 / h = 1e-11 times the output: 1e-6 leaves room for
 * curved functions and still sees a wrong factor.
 */
#include "op/driver_impl.h"

#define STEP      1e-5
#define TOLERANCE 1e-6
#define N_PROBED  40 /* elements per source */

static const driver_how plain = { .only = "reference", .n_threads = 1, .poison = 0xff };

static double weighted_difference(const driver_world *w, const driver_eval *hi,
                                  const driver_eval *lo)
{
    double sum = 0;

    for (int i = 0; i < w->node->n_out; i++) {
        const gr_value *v = &w->node->out[i];
        int64_t n = gr_shape_count(&v->shape);

        for (int64_t j = 0; w->d_feed[i] >= 0 && j < n; j++)
            sum += driver_get(v->dtype, w->feed[w->d_feed[i]].mem, j) *
                   (driver_get(v->dtype, driver_eval_get(hi, v), j) -
                    driver_get(v->dtype, driver_eval_get(lo, v), j));
    }
    return sum;
}

static double numeric(driver_world *w, int source, int64_t i)
{
    gr_named *f = &w->feed[source];
    double x = driver_get(f->dtype, f->mem, i), d;
    driver_eval *hi, *lo;

    driver_set(f->dtype, f->mem, i, x + STEP);
    GR_CHECK_OK(driver_eval_run(&hi, w, &plain));
    driver_set(f->dtype, f->mem, i, x - STEP);
    GR_CHECK_OK(driver_eval_run(&lo, w, &plain));
    driver_set(f->dtype, f->mem, i, x);
    d = weighted_difference(w, hi, lo) / (2 * STEP);
    driver_eval_destroy(hi);
    driver_eval_destroy(lo);
    return d;
}

static void check_source(driver_world *w, const driver_eval *e, int source)
{
    int64_t n = gr_shape_count(&w->src[source]->shape);
    int64_t step = n / N_PROBED + 1;
    const gr_value *d = w->d_src[source];

    if (d->dtype != w->src[source]->dtype)
        driver_die(w, "the gradient of source %d is %s", source, gr_dtype_name(d->dtype));
    for (int64_t i = 0; i < n; i += step) {
        double got = driver_get(d->dtype, driver_eval_get(e, d), i);
        double want = numeric(w, source, i);

        if (!(fabs(got - want) <= TOLERANCE * fmax(1, fabs(want))))
            driver_die(w,
                       "gradient of source %d, element %" PRId64 ": the rule gives %.10g, "
                       "finite differences %.10g",
                       source, i, got, want);
    }
}

void driver_check_grad(const driver_case *c)
{
    driver_world w;
    driver_eval *e;

    driver_world_init(&w, c, GR_F64);
    GR_CHECK(w.node);
    driver_world_grad(&w);
    GR_CHECK_OK(driver_eval_run(&e, &w, &plain));
    for (int i = 0; i < c->n_src; i++)
        if (c->grad >> i & 1)
            check_source(&w, e, i);
    driver_eval_destroy(e);
    driver_world_fini(&w);
}
