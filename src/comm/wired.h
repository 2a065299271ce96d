/*
 * A process group over a wire: every call is a schedule that the engine carries out. Its
 * exchange space is plain memory; reductions there are schedules that are written once and
 * run again each step.
 */
#ifndef GR_COMM_WIRED_H
#define GR_COMM_WIRED_H

#include "comm/engine.h"
#include "comm/meet.h"

/* Makes a wire between the ranks that meet. Collective over them. */
typedef gr_status gr_wire_factory(gr_wire **out, gr_meet *m, const gr_pg_config *config);

/* What kind of group, and how its sub-groups are made. Static. */
typedef struct gr_wired_kind {
    gr_pg_ops ops; /* gr_wired_ops() with a name */
    gr_wire_factory *make_wire;
} gr_wired_kind;

/* Collective over the ranks of `m`. local_rank: as the launcher said. */
gr_status gr_wired_create(gr_pg **out, const gr_wired_kind *kind, gr_meet *m,
                          const gr_pg_config *config, int local_rank) GR_MUST_CHECK;

gr_status gr_wired_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base);
gr_status gr_wired_start(gr_pg *pg, const gr_coll *c, void *stream);
gr_status gr_wired_finish(gr_pg *pg, const gr_coll *c, void *stream);
gr_status gr_wired_poll(gr_pg *pg);
gr_status gr_wired_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out,
                                size_t *sizes);
gr_status gr_wired_run(gr_pg *pg, const gr_pg_call *c);
gr_status gr_wired_begin(gr_pg *pg, const gr_pg_call *c, gr_work **out);
gr_status gr_wired_test(gr_work *w, bool *is_done);
gr_status gr_wired_finish_work(gr_work *w);
gr_status gr_wired_split(gr_pg *pg, const gr_part *part, gr_pg **out);
void gr_wired_describe(const gr_pg *pg, gr_text *text);
void gr_wired_abort(gr_pg *pg, const char *why);
void gr_wired_destroy(gr_pg *pg);

#define GR_WIRED_OPS(text)                                                                        \
    {                                                                                             \
        .name = (text), .has_shares = true, .exchange = gr_wired_exchange,                        \
        .start = gr_wired_start, .finish = gr_wired_finish, .poll = gr_wired_poll,                \
        .gather_bytes = gr_wired_gather_bytes, .run = gr_wired_run, .begin = gr_wired_begin,      \
        .work_test = gr_wired_test, .work_finish = gr_wired_finish_work, .split = gr_wired_split, \
        .describe = gr_wired_describe, .abort = gr_wired_abort, .destroy = gr_wired_destroy,      \
    }

#endif
