/*
 * Records of updates, from the device to the host:
 *
 *     stream   update 1 | record 1 down, mark | update 2 | record 2 down, mark | update 3 ...
 *     host                                                               waits for mark 1, reads
 *
 * A ring of GR_AHEAD + 1 records in pinned memory, each with a slot of the device.
 */
#include "step/vote.h"

#include <string.h>

#include "op/vote/vote.h"
#include "step/private.h"

#define N_RING       (GR_AHEAD + 1)
#define RECORD_BYTES sizeof(int32_t[GR_RECORD_COUNT])

_Static_assert(GR_N_STAGING + N_RING <= GR_N_SLOTS, "a slot for each record");

static int slot_of(int64_t record)
{
    return GR_N_STAGING + (int)(record % N_RING);
}

static int32_t *place_of(const gr_step *s, int64_t record)
{
    return s->records.mem + (record % N_RING) * GR_RECORD_COUNT;
}

gr_status gr_step_watch(gr_step *s)
{
    const gr_backend_ops *ops;
    void *mem;

    GR_TRY(gr_step_check_given(s));
    ops = s->device->ops;
    if (s->sealed)
        return gr_fail(GR_ERR_ARG, "step: a step is watched from its first plan on, or never");
    if (s->records.mem)
        return GR_OK;
    GR_TRY(ops->host_alloc(s->device, N_RING * RECORD_BYTES, &mem));
    s->records.mem = mem;
    s->update.watches = true;
    return GR_OK;
}

void gr_step_ask_to_stop(gr_step *s, int what)
{
    s->records.stop = what;
}

gr_status gr_step_check_records(const gr_step *s)
{
    if (s->records.n_made - s->records.n_taken < N_RING)
        return GR_OK;
    return gr_fail(GR_ERR_ARG,
                   "step: the records of %d updates were not taken; no more can be under way",
                   N_RING);
}

gr_status gr_step_send_record(gr_step *s)
{
    const gr_var *v = s->update.watches ? gr_vars_find(s->vars, GR_VAR_RECORD) : NULL;
    int64_t n = s->records.n_made;

    if (!v)
        return GR_OK;
    GR_TRY(s->device->ops->download(s->device, place_of(s, n),
                                    (const char *)s->bases.state + v->offset, RECORD_BYTES));
    GR_TRY(s->device->ops->slot_mark(s->device, slot_of(n), GR_STREAM_COMPUTE));
    s->records.n_made++;
    return GR_OK;
}

gr_status gr_step_clear_record(gr_step *s)
{
    const gr_var *v = s->update.watches ? gr_vars_find(s->vars, GR_VAR_RECORD) : NULL;

    if (!v)
        return GR_OK;
    GR_TRY(s->device->ops->zero(s->device, (char *)s->bases.state + v->offset, RECORD_BYTES));
    GR_TRY(s->device->ops->sync(s->device));
    s->records.n_taken = s->records.n_made; /* of a state that is gone */
    return GR_OK;
}

gr_status gr_step_next_verdict(gr_step *s, bool drain, gr_verdict *out)
{
    gr_records *r = &s->records;
    int64_t behind = r->n_made - r->n_taken - 1;
    const int32_t *record = place_of(s, r->n_taken);

    *out = (gr_verdict){ .is_there = false };
    if (behind < (drain ? 0 : GR_AHEAD))
        return GR_OK;
    GR_TRY(s->device->ops->slot_wait(s->device, slot_of(r->n_taken)));
    *out = (gr_verdict){ .is_there = true,
                         .behind = (int)behind,
                         .stop = record[GR_RECORD_STOP],
                         .loss = record[GR_RECORD_LOSS],
                         .grad = record[GR_RECORD_GRAD] != 0,
                         .halted = record[GR_RECORD_HALTED] != 0 };
    r->n_taken++;
    return GR_OK;
}
