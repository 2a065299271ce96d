/*
 * Scalars and inputs on their way to a device that needs copies of them.
 *
 *     host        pinned slot, written by the caller's thread
 *     copy        pinned slot ─► device slot          while an earlier step computes
 *     compute                     device slot ─► the entry's inputs, where kernels read
 *
 * (1) There are two slots of each kind, which take turns. A pinned one is written again when
 *     it went up, a device's when it was read.
 * (2) Kernels read fixed addresses, so that a recorded step can be replayed: hence the second
 *     copy, which takes a hundredth of the first.
 * (3) A device with one stream has no device slots: there is nothing to overlap with.
 */
#include <string.h>

#include "step/private.h"

static gr_status make_events(gr_step *s)
{
    gr_staging *g = &s->staging;
    const gr_backend_ops *ops = s->device->ops;

    if (g->has_events)
        return GR_OK;
    for (int i = 0; i < 2; i++)
        if (!g->was_read[i])
            GR_TRY(ops->event_create(s->device, &g->was_read[i]));
    if (!g->is_up)
        GR_TRY(ops->event_create(s->device, &g->is_up));
    g->has_events = true;
    return GR_OK;
}

static void free_slots(gr_step *s)
{
    for (int i = 0; i < 2; i++) {
        s->device->ops->host_free(s->device, s->staging.pinned[i]);
        s->device->ops->free(s->device, s->staging.ahead[i]);
        s->staging.pinned[i] = s->staging.ahead[i] = NULL;
    }
    s->staging.n_bytes = 0;
}

gr_status gr_step_grow_staging(gr_step *s, size_t n_bytes)
{
    const gr_backend_ops *ops = s->device->ops;

    if (!ops->needs_copies || n_bytes <= s->staging.n_bytes)
        return GR_OK;
    GR_TRY(ops->sync(s->device));
    free_slots(s);
    for (int i = 0; i < 2; i++) {
        GR_TRY(ops->host_alloc(s->device, n_bytes, &s->staging.pinned[i]));
        if (ops->has_streams)
            GR_TRY(ops->alloc(s->device, n_bytes, &s->staging.ahead[i]));
    }
    if (ops->has_streams)
        GR_TRY(make_events(s));
    s->staging.n_bytes = n_bytes; /* not before all are there */
    return GR_OK;
}

void gr_step_free_staging(gr_step *s)
{
    gr_staging *g = &s->staging;

    free_slots(s);
    for (int i = 0; i < 2; i++)
        s->device->ops->event_destroy(s->device, g->was_read[i]);
    s->device->ops->event_destroy(s->device, g->is_up);
    *g = (gr_staging){ .n_bytes = 0 };
}

static gr_status send_ahead(gr_step *s, const gr_entry *e, int slot)
{
    const gr_backend_ops *ops = s->device->ops;
    gr_staging *g = &s->staging;

    GR_TRY(ops->event_wait(s->device, g->was_read[slot], GR_STREAM_COPY));
    GR_TRY(ops->upload_ahead(s->device, g->ahead[slot], g->pinned[slot], e->input_bytes));
    GR_TRY(ops->slot_mark(s->device, slot, GR_STREAM_COPY));
    GR_TRY(ops->event_record(s->device, g->is_up, GR_STREAM_COPY));
    GR_TRY(ops->event_wait(s->device, g->is_up, GR_STREAM_COMPUTE));
    GR_TRY(ops->copy(s->device, e->input_mem, g->ahead[slot], e->input_bytes));
    return ops->event_record(s->device, g->was_read[slot], GR_STREAM_COMPUTE);
}

static gr_status send_in_order(gr_step *s, const gr_entry *e, int slot)
{
    const gr_backend_ops *ops = s->device->ops;

    GR_TRY(ops->upload(s->device, e->input_mem, s->staging.pinned[slot], e->input_bytes));
    return ops->slot_mark(s->device, slot, GR_STREAM_COMPUTE);
}

gr_status gr_step_send_copies(gr_step *s, gr_entry *e, const gr_named *feeds, const gr_scalars *v)
{
    int slot = s->staging.next;
    char *mem = (char *)s->staging.pinned[slot];

    GR_TRY(s->device->ops->slot_wait(s->device, slot));
    memcpy(mem, v, sizeof(*v));
    for (int i = 0; i < gr_plan_n_inputs(e->plan); i++) {
        size_t n_bytes = gr_value_bytes(gr_plan_input(e->plan, i));
        size_t at = (size_t)((char *)e->inputs[i] - (char *)e->input_mem);

        if (n_bytes > 0)
            memcpy(mem + at, feeds[e->feed_of[i]].mem, n_bytes);
    }
    s->staging.next = 1 - slot;
    return s->device->ops->has_streams ? send_ahead(s, e, slot) : send_in_order(s, e, slot);
}
