/* Named JSON values of a W&B record: a row, a summary, a config. One thread at a time. */
#ifndef GR_TRACK_WANDB_ITEMS_H
#define GR_TRACK_WANDB_ITEMS_H

#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct GrWb__Item;
typedef struct gr_named_json gr_named_json;

typedef struct gr_items {
    gr_named_json *list; /* owned, in the order of their first setting */
    int n, cap;
    struct GrWb__Item **packed; /* owned: what gr_items_pack() gave */
    int packed_cap;
} gr_items;

/* A value of the same name is replaced. Both strings are copied. */
gr_status gr_items_set(gr_items *items, const char *name, const char *json) GR_MUST_CHECK;
/* As messages, `n` of them; `nested`: the name stands in nested_key, where rows have it. Valid
 * until the next call on these items. */
gr_status gr_items_pack(gr_items *items, bool nested, struct GrWb__Item ***out) GR_MUST_CHECK;
void gr_items_clear(gr_items *items); /* keeps the memory */
void gr_items_fini(gr_items *items);

#ifdef __cplusplus
}
#endif

#endif
