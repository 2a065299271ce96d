/*
 * Golden data: numbers made with PyTorch by tests/golden/make.py.
 *
 * A text file, one item a line:
 *     # comment
 *     record NAME
 *     src0 f32 [2,3] -0x1.8p+0 0x1p-1 ...      C99 hexadecimal, so nothing is rounded
 *     out0 f32 [2] ...
 *     dout0 ..., dsrc0 ...                      gradients, where the case has them
 */
#include "op/driver_impl.h"

#include "base/alloc.h"

typedef struct item {
    char record[64], tensor[16];
    gr_named named; /* mem owned */
} item;

struct driver_golden {
    item *items;
    int n, cap;
};

static bool parse_dtype(const char *name, gr_dtype *t)
{
    for (int i = 0; i < GR_DTYPE_COUNT; i++)
        if (strcmp(gr_dtype_name((gr_dtype)i), name) == 0) {
            *t = (gr_dtype)i;
            return true;
        }
    return false;
}

/* "[2,3]" or "[]"; returns where it ends, NULL when it is no shape. */
static char *parse_shape(char *p, gr_shape *s)
{
    *s = (gr_shape){ 0 };
    if (*p++ != '[')
        return NULL;
    while (*p != ']') {
        if (s->n_dims == GR_MAX_DIMS)
            return NULL;
        s->dim[s->n_dims++] = strtoll(p, &p, 10);
        if (*p == ',')
            p++;
        else if (*p != ']')
            return NULL;
    }
    return p + 1;
}

static gr_status parse_tensor(char *line, item *it)
{
    char dtype[8];
    int used = 0;
    char *p, *end;
    int64_t n;

    if (sscanf(line, "%15s %7s %n", it->tensor, dtype, &used) != 2 ||
        !parse_dtype(dtype, &it->named.dtype))
        return gr_fail(GR_ERR_FORMAT, "golden data: no tensor in '%.40s'", line);
    p = parse_shape(line + used, &it->named.shape);
    if (!p)
        return gr_fail(GR_ERR_FORMAT, "golden data: no shape in '%.40s'", line);
    n = gr_shape_count(&it->named.shape);
    it->named.mem = gr_malloc_aligned((size_t)n * gr_dtype_bytes(it->named.dtype));
    if (!it->named.mem)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++, p = end) {
        driver_set(it->named.dtype, it->named.mem, i, strtod(p, &end));
        if (end == p)
            return gr_fail(GR_ERR_FORMAT, "golden data: '%s' of '%s' ends early", it->tensor,
                           it->record);
    }
    return GR_OK;
}

static gr_status parse_line(driver_golden *d, char *line, char *record)
{
    void *items = d->items;
    item *it;

    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '#' || line[0] == '\0')
        return GR_OK;
    if (strncmp(line, "record ", 7) == 0) {
        snprintf(record, sizeof(it->record), "%s", line + 7);
        return GR_OK;
    }
    GR_TRY(gr_grow(&items, &d->cap, d->n + 1, sizeof(*d->items)));
    d->items = (item *)items;
    it = &d->items[d->n++];
    *it = (item){ .named = { .name = "" } };
    snprintf(it->record, sizeof(it->record), "%s", record);
    return parse_tensor(line, it);
}

gr_status driver_golden_load(driver_golden **out, const char *family)
{
    driver_golden *d = gr_calloc(1, sizeof(*d));
    char path[512], record[64] = "";
    char *line = NULL;
    size_t cap = 0;
    gr_status st = GR_OK;
    FILE *f;

    GR_CHECK(d);
    *out = d;
    snprintf(path, sizeof(path), "%s/golden/%s.txt", GR_TESTS_DIR, family);
    f = fopen(path, "r");
    if (!f)
        return gr_fail(GR_ERR_IO, "cannot open '%s'", path);
    while (st == GR_OK && getline(&line, &cap, f) >= 0)
        st = parse_line(d, line, record);
    free(line);
    fclose(f);
    return st;
}

void driver_golden_destroy(driver_golden *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n; i++)
        gr_free(d->items[i].named.mem);
    gr_free(d->items);
    gr_free(d);
}

const gr_named *driver_golden_find(const driver_golden *d, const char *record, const char *tensor)
{
    for (int i = 0; i < d->n; i++)
        if (strcmp(d->items[i].record, record) == 0 && strcmp(d->items[i].tensor, tensor) == 0)
            return &d->items[i].named;
    return NULL;
}

/* ---- checking ---- */

static void take(const driver_world *w, const driver_golden *d, const char *kind, int i,
                 gr_named *into)
{
    char name[16];
    const gr_named *have;

    snprintf(name, sizeof(name), "%s%d", kind, i);
    have = driver_golden_find(d, w->c->name, name);
    if (!have)
        driver_die(w, "golden data has no '%s'", name);
    if (have->dtype != into->dtype || !gr_shape_equal(&have->shape, &into->shape))
        driver_die(w, "golden '%s' has another shape or type", name);
    memcpy(into->mem, have->mem,
           (size_t)gr_shape_count(&have->shape) * gr_dtype_bytes(have->dtype));
}

static void compare(const driver_eval *e, const driver_golden *d, driver_compare *k, int i,
                    const gr_value *v)
{
    char name[16];
    const gr_named *want;

    snprintf(name, sizeof(name), "%s%d", k->what, i);
    want = driver_golden_find(d, k->w->c->name, name);
    if (!want)
        return;
    if (want->dtype != v->dtype || !gr_shape_equal(&want->shape, &v->shape))
        driver_die(k->w, "golden '%s' has another shape or type", name);
    driver_compare_all(k, v, driver_eval_get(e, v), want->mem);
}

static void check_kernel(driver_world *w, const driver_golden *d, const char *kernel,
                         const driver_target *t)
{
    driver_how how = { .only = kernel, .n_threads = 1, .poison = 0xff, .target = t };
    driver_compare k = { .w = w, .kernel = kernel, .against = "PyTorch" };
    driver_eval *e;

    if (driver_eval_run(&e, w, &how) != GR_OK)
        driver_die(w, "kernel '%s': %s", kernel, gr_error_message());
    k.what = "out";
    k.n_reduced = w->c->n_reduced;
    for (int i = 0; i < w->node->n_out; i++)
        compare(e, d, &k, i, &w->node->out[i]);
    k.what = "dsrc";
    for (int i = 0; i < w->c->n_src; i++) {
        k.n_reduced = driver_grad_length(w, i);
        if (w->d_src[i])
            compare(e, d, &k, i, w->d_src[i]);
    }
    driver_eval_destroy(e);
}

void driver_check_golden(const driver_golden *d, const driver_case *c, const driver_target *t)
{
    driver_world w;
    const gr_kernel *k;

    driver_world_init(&w, c, GR_F32);
    GR_CHECK(w.node);
    for (int i = 0; i < c->n_src; i++)
        take(&w, d, "src", i, &w.feed[i]);
    if (!driver_golden_find(d, c->name, "out0"))
        driver_die(&w, "golden data has no 'out0'");
    if (c->grad)
        driver_world_grad(&w);
    for (int i = 0; c->grad && i < w.node->n_out; i++)
        if (w.d_feed[i] >= 0)
            take(&w, d, "dout", i, &w.feed[w.d_feed[i]]);
    if (!w.node->op->kernels)
        check_kernel(&w, d, "reference", t);
    for (int i = 0; (k = gr_kernel_at(t ? t->kernels : NULL, w.node, i)); i++)
        if (!gr_kernel_refusal(k, w.node))
            check_kernel(&w, d, k->name, t);
    driver_world_fini(&w);
}
