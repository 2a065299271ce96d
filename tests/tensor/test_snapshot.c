/* Snapshots: order, names, texts, memory that stays where it is, and no memory at all. */
#include "alloc_fail.h"
#include "check.h"
#include "gradus/tensor.h"

static void tensors(void)
{
    gr_snapshot *s;
    const gr_named *first;
    void *mem = NULL;

    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_EQ(gr_snapshot_count(s), 0);
    GR_CHECK(gr_snapshot_find(s, "a") == NULL);
    GR_CHECK_OK(gr_snapshot_add(s, "fc.weight", GR_F32, GR_SHAPE(3, 4), &mem));
    GR_CHECK_EQ((uintptr_t)mem % 64, 0);
    for (int i = 0; i < 12; i++)
        GR_CHECK_EQ(((float *)mem)[i], 0);
    ((float *)mem)[11] = 2.5f;
    first = gr_snapshot_at(s, 0);
    GR_CHECK_OK(gr_snapshot_add(s, "step", GR_I64, GR_SCALAR, &mem));
    GR_CHECK_OK(gr_snapshot_add(s, "", GR_BF16, GR_SHAPE(0, 5), &mem));
    GR_CHECK(mem != NULL);
    GR_CHECK_FAILS(gr_snapshot_add(s, "step", GR_F32, GR_SCALAR, &mem), GR_ERR_ARG,
                   "tensor 'step' is already in the snapshot");
    GR_CHECK_FAILS(gr_snapshot_add(s, NULL, GR_F32, GR_SCALAR, &mem), GR_ERR_ARG, "NULL");
    GR_CHECK_FAILS(gr_snapshot_set(s, "key", NULL), GR_ERR_ARG, "NULL");
    GR_CHECK_FAILS(gr_snapshot_add(s, "bad", GR_F32, GR_SHAPE(-1), &mem), GR_ERR_ARG,
                   "tensor 'bad': shape [-1]: dimension 0 is negative");
    GR_CHECK_EQ(gr_snapshot_count(s), 3);
    GR_CHECK_STR(gr_snapshot_at(s, 1)->name, "step");
    GR_CHECK(gr_snapshot_find(s, "fc.weight") == first);
    GR_CHECK(((float *)first->mem)[11] >= 2.5f && first->shape.dim[1] == 4);
    GR_CHECK(gr_snapshot_find(s, "bad") == NULL);
    gr_snapshot_destroy(s);
    gr_snapshot_destroy(NULL);
}

/* Enough names for the table to grow several times; what was lent must not move. */
static void many(void)
{
    const gr_named *early = NULL;
    gr_snapshot *s;
    char name[40];
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&s));
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "blocks.%d.weight", i);
        GR_CHECK_OK(gr_snapshot_add(s, name, GR_I32, GR_SHAPE(1), &mem));
        *(int32_t *)mem = i;
        if (i == 5)
            early = gr_snapshot_find(s, name);
    }
    GR_CHECK(early == gr_snapshot_at(s, 5));
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "blocks.%d.weight", i);
        GR_CHECK_EQ(*(const int32_t *)gr_snapshot_find(s, name)->mem, i);
        GR_CHECK_STR(gr_snapshot_at(s, i)->name, name);
    }
    GR_CHECK(gr_snapshot_find(s, "blocks.3000.weight") == NULL);
    gr_snapshot_destroy(s);
}

static void texts(void)
{
    const char *key, *text;
    gr_snapshot *s;

    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK(gr_snapshot_get(s, "gradus.step") == NULL);
    GR_CHECK_OK(gr_snapshot_set(s, "gradus.step", "119"));
    GR_CHECK_OK(gr_snapshot_set(s, "format", "pt"));
    GR_CHECK_OK(gr_snapshot_set(s, "gradus.step", "120"));
    GR_CHECK_EQ(gr_snapshot_n_texts(s), 2);
    GR_CHECK_STR(gr_snapshot_get(s, "gradus.step"), "120");
    /* A value that comes from the entry it replaces. */
    GR_CHECK_OK(gr_snapshot_set(s, "gradus.step", gr_snapshot_get(s, "gradus.step") + 1));
    GR_CHECK_STR(gr_snapshot_get(s, "gradus.step"), "20");
    gr_snapshot_text_at(s, 1, &key, &text);
    GR_CHECK_STR(key, "format");
    GR_CHECK_STR(text, "pt");
    gr_snapshot_destroy(s);
}

static gr_status fill(gr_snapshot *s)
{
    char name[20];
    void *mem;

    for (int i = 0; i < 40; i++) { /* grows every table once */
        gr_status st;
        int before = gr_snapshot_count(s);

        snprintf(name, sizeof(name), "t%d", i);
        st = gr_snapshot_add(s, name, GR_F32, GR_SHAPE(100, 2), &mem);
        GR_CHECK_EQ(gr_snapshot_count(s), before + (st == GR_OK));
        GR_CHECK((gr_snapshot_find(s, name) != NULL) == (st == GR_OK));
        GR_TRY(st);
        GR_TRY(gr_snapshot_set(s, name, "text"));
        GR_TRY(gr_snapshot_set(s, name, "other"));
    }
    return GR_OK;
}

static gr_status body(void *arg)
{
    gr_snapshot *s;
    gr_status st;

    (void)arg;
    GR_TRY(gr_snapshot_create(&s));
    st = fill(s);
    gr_snapshot_destroy(s);
    return st;
}

int main(void)
{
    tensors();
    many();
    texts();
    GR_CHECK(gr_alloc_fail_each(body, NULL) > 160);
    return 0;
}
