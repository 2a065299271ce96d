/* Named JSON values. Each carries its message, so that packing a row allocates nothing once
 * the list has grown to the number of names. */
#include "track/wandb_items.h"

#include "base/alloc.h"
#include "track/value.h"
#include "track/wandb.pb-c.h"

#include <string.h>

/* The generated initialisers cast a const away. */
#pragma GCC diagnostic ignored "-Wcast-qual"

struct gr_named_json {
    gr_text name, json;
    char *keys[1]; /* nested_key is a list */
    GrWb__Item item;
};

static gr_named_json *find(gr_items *items, const char *name)
{
    for (int i = 0; i < items->n; i++)
        if (strcmp(gr_text_str(&items->list[i].name), name) == 0)
            return &items->list[i];
    return NULL;
}

gr_status gr_items_set(gr_items *items, const char *name, const char *json)
{
    gr_named_json *v;
    gr_text clean = GR_TEXT_INIT;
    int had = items->cap;
    gr_status st;

    gr_text_add(&clean, "");
    gr_utf8_add(&clean, name);
    GR_TRY_GOTO(st, gr_text_status(&clean), out);
    v = find(items, clean.str);
    if (!v) {
        GR_TRY_GOTO(st, gr_grow((void **)&items->list, &items->cap, items->n + 1, sizeof(*v)), out);
        /* New places are empty texts; old ones keep theirs after a clear. */
        memset(items->list + had, 0, (size_t)(items->cap - had) * sizeof(*v));
        v = &items->list[items->n++];
        v->name.len = 0;
        gr_text_add(&v->name, clean.str);
    }
    v->json.len = 0;
    gr_text_add(&v->json, json);
    st = gr_text_status(&v->name);
    if (st == GR_OK)
        st = gr_text_status(&v->json);

out:
    gr_text_fini(&clean);
    return st;
}

gr_status gr_items_pack(gr_items *items, bool nested, struct GrWb__Item ***out)
{
    GR_TRY(
        gr_grow((void **)&items->packed, &items->packed_cap, items->n + 1, sizeof(*items->packed)));
    for (int i = 0; i < items->n; i++) {
        gr_named_json *v = &items->list[i];

        gr_wb__item__init(&v->item);
        v->keys[0] = v->name.str;
        if (nested) {
            v->item.n_nested_key = 1;
            v->item.nested_key = v->keys;
        } else {
            v->item.key = v->name.str;
        }
        v->item.value_json = v->json.str;
        items->packed[i] = &v->item;
    }
    *out = items->packed;
    return GR_OK;
}

void gr_items_clear(gr_items *items)
{
    items->n = 0;
}

void gr_items_fini(gr_items *items)
{
    for (int i = 0; i < items->cap; i++) {
        gr_text_fini(&items->list[i].name);
        gr_text_fini(&items->list[i].json);
    }
    gr_free(items->list);
    gr_free(items->packed);
    *items = (gr_items){ 0 };
}
