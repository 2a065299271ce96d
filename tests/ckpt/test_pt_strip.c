/* Picking the model out of checkpoints of several makings (trouble P40: names with and
 * without the wrapper's prefix). */
#include "gradus/ckpt.h"

#include "check.h"

#include <stdarg.h>

/* A snapshot with those tensors, one byte each: 1, 2, 3 ... */
static gr_snapshot *make(const char *first, ...)
{
    gr_snapshot *s;
    va_list names;
    unsigned char n = 0;

    GR_CHECK_OK(gr_snapshot_create(&s));
    va_start(names, first);
    for (const char *name = first; name; name = va_arg(names, const char *)) {
        void *mem;

        GR_CHECK_OK(gr_snapshot_add(s, name, GR_U8, GR_SCALAR, &mem));
        *(unsigned char *)mem = ++n;
    }
    va_end(names);
    return s;
}

/* The names that are left, with their bytes: "a=1 b=2 ". */
static void check_strip(gr_snapshot *s, const char *part, const char *want)
{
    char got[200] = "";
    gr_snapshot *m;

    GR_CHECK_OK(gr_ckpt_strip(s, part, &m));
    for (int i = 0; i < gr_snapshot_count(m); i++) {
        const gr_named *t = gr_snapshot_at(m, i);
        size_t n = strlen(got);

        snprintf(got + n, sizeof(got) - n, "%s=%d ", t->name, *(unsigned char *)t->mem);
    }
    GR_CHECK_STR(got, want);
    gr_snapshot_destroy(m);
    gr_snapshot_destroy(s);
}

static void test_file(void)
{
    gr_snapshot *s, *m;

    GR_CHECK_OK(gr_ckpt_read(GR_TESTS_DIR "/golden/pt/trained.pt", &s));
    GR_CHECK(gr_snapshot_find(s, "model.module.0.weight") != NULL);
    GR_CHECK(gr_snapshot_find(s, "optimizer.state.0.exp_avg") != NULL);
    GR_CHECK_STR(gr_snapshot_get(s, "optimizer.param_groups.0.lr"), "0.003");
    GR_CHECK_OK(gr_snapshot_set(s, "model.module.note", "kept"));
    GR_CHECK_FAILS(gr_ckpt_strip(s, "weights.", &m), GR_ERR_ARG, "begins with 'weights.'");
    GR_CHECK(m == NULL);
    /* "raw" and "no bytes" lie beside it and are known to nobody, so it must be asked for. */
    GR_CHECK_OK(gr_ckpt_strip(s, "model.", &m));
    GR_CHECK_EQ(gr_snapshot_count(m), 7);
    GR_CHECK(gr_snapshot_find(m, "0.weight") && gr_snapshot_find(m, "1.num_batches_tracked"));
    GR_CHECK_STR(gr_snapshot_get(m, "note"), "kept");
    GR_CHECK_EQ(gr_snapshot_n_texts(m), 1);
    gr_snapshot_destroy(m);
    gr_snapshot_destroy(s);
}

int main(void)
{
    gr_snapshot *s, *m;

    check_strip(make("a", "b.c", NULL), NULL, "a=1 b.c=2 ");
    check_strip(make("module.a", "module.module.b", NULL), NULL, "a=1 b=2 ");
    check_strip(make("model._orig_mod.module.a", "optimizer.state.0.x", NULL), NULL, "a=1 ");
    check_strip(make("epoch_times", "model_state_dict.a", NULL), "model_state_dict.", "a=2 ");
    check_strip(make("optim.x", "model_state_dict.a", "scaler.s", NULL), NULL, "a=2 ");
    check_strip(make("state_dict.model.a", "optimizer_states.0.x", NULL), NULL, "model.a=1 ");
    /* A model that has a part called "model" beside others. */
    check_strip(make("model.a", "lm_head.weight", NULL), NULL, "model.a=1 lm_head.weight=2 ");
    check_strip(make("model.a", "model.b", NULL), "", "model.a=1 model.b=2 ");
    check_strip(make("model.a", "model.b", NULL), NULL, "a=1 b=2 ");
    s = make("a", "module.a", NULL);
    GR_CHECK_FAILS(gr_ckpt_strip(s, NULL, &m), GR_ERR_ARG, "'a' is already");
    gr_snapshot_destroy(s);
    test_file();
    return 0;
}
