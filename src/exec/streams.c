/*
 * Forks and joins, by clocks: a clock says for each stream how many of the nodes queued on it
 * have run for certain. A stream has a clock, which grows with what it is given and what it
 * waits for, and so has each node: what has run once that node has.
 *
 * A node that calls no kernel has run when all that it waits for has.
 */
#include "exec/streams.h"

typedef struct clock {
    int n[GR_N_STREAMS];
} clock;

typedef struct maker {
    const gr_streams_input *in;
    gr_streams *out;
    clock *done;              /* by place: what has run when it has */
    clock seen[GR_N_STREAMS]; /* what has run when the next node of the stream begins */
    int queued[GR_N_STREAMS]; /* nodes so far */
    int *list[GR_N_STREAMS];  /* their places */
    int joined[GR_N_STREAMS]; /* so many of them have their `until` */
    bool is_in[GR_N_STREAMS]; /* the stream takes part in the segment */
    int n_waits, n_joins;
} maker;

static void take_in(clock *into, const clock *c)
{
    for (int s = 0; s < GR_N_STREAMS; s++)
        if (into->n[s] < c->n[s])
            into->n[s] = c->n[s];
}

/* What has to have run before the node at `place`. */
static clock needs(const maker *m, int place)
{
    clock c = { { 0 } };
    const gr_depend *b = m->in->before;

    for (int i = b->first[place]; i < b->first[place + 1]; i++)
        take_in(&c, &m->done[b->pred[i]]);
    return c;
}

/* The event behind the last of the first n nodes of the stream; its clock goes into `seen`. */
static int event_of(maker *m, int stream, int n, clock *seen)
{
    int place = m->list[stream][n - 1];

    if (m->out->event[place] < 0)
        m->out->event[place] = m->out->n_events++;
    take_in(seen, &m->done[place]);
    return m->out->event[place];
}

/* At `place` the compute stream has waited for what its clock says. */
static void note_joined(maker *m, int place)
{
    const clock *c = &m->seen[GR_STREAM_COMPUTE];

    for (int s = 0; s < GR_N_STREAMS; s++)
        for (; s != GR_STREAM_COMPUTE && m->joined[s] < c->n[s]; m->joined[s]++)
            m->out->until[m->list[s][m->joined[s]]] = place;
}

static void fork(maker *m, int s, int place)
{
    clock tail = m->seen[GR_STREAM_COMPUTE];

    if (s == GR_STREAM_COMPUTE)
        return;
    tail.n[GR_STREAM_COMPUTE] = m->queued[GR_STREAM_COMPUTE];
    m->out->forks[place] =
        !m->is_in[s] || m->seen[s].n[GR_STREAM_COMPUTE] < tail.n[GR_STREAM_COMPUTE];
    m->is_in[s] = true;
    if (m->out->forks[place])
        take_in(&m->seen[s], &tail);
}

static void queue(maker *m, int place)
{
    int s = (int)m->in->of[place];
    clock need = needs(m, place);

    fork(m, s, place);
    for (int t = 0; t < GR_N_STREAMS; t++)
        if (t != s && need.n[t] > m->seen[s].n[t])
            m->out->waits.item[m->n_waits++] = event_of(m, t, need.n[t], &m->seen[s]);
    m->list[s][m->queued[s]++] = place;
    m->seen[s].n[s] = m->queued[s];
    m->done[place] = m->seen[s];
    m->out->until[place] = place;
    if (s == GR_STREAM_COMPUTE)
        note_joined(m, place);
}

/* What joins here is done from the next place on: the node here may run beside it. */
static void end_segment(maker *m, int place)
{
    clock *c = &m->seen[GR_STREAM_COMPUTE];

    for (int s = 0; s < GR_N_STREAMS; s++) {
        if (s != GR_STREAM_COMPUTE && m->queued[s] > c->n[s])
            m->out->joins.item[m->n_joins++] = event_of(m, s, m->queued[s], c);
        m->is_in[s] = false;
    }
    note_joined(m, place + 1);
}

static gr_status make_room(maker *m, gr_arena *scratch, gr_arena *arena)
{
    size_t n = (size_t)m->in->n_places, n_pairs = n * GR_N_STREAMS;
    gr_streams *o = m->out;

    o->of = m->in->of;
    o->forks = (bool *)gr_arena_array(arena, n, sizeof(bool));
    o->event = (int *)gr_arena_array(arena, n, sizeof(int));
    o->until = (int *)gr_arena_array(arena, n, sizeof(int));
    o->waits.first = (int *)gr_arena_array(arena, n + 1, sizeof(int));
    o->waits.item = (int *)gr_arena_array(arena, n_pairs, sizeof(int));
    o->joins.first = (int *)gr_arena_array(arena, n + 1, sizeof(int));
    o->joins.item = (int *)gr_arena_array(arena, n_pairs, sizeof(int));
    m->done = (clock *)gr_arena_array(scratch, n, sizeof(clock));
    for (int s = 0; s < GR_N_STREAMS; s++) {
        m->list[s] = (int *)gr_arena_array(scratch, n, sizeof(int));
        if (!m->list[s])
            return GR_ERR_NOMEM;
    }
    return o->forks && o->event && o->until && o->waits.first && o->waits.item && o->joins.first &&
                   o->joins.item && m->done
               ? GR_OK
               : GR_ERR_NOMEM;
}

static void make_all(maker *m)
{
    int n = m->in->n_places;

    for (int i = 0; i < n; i++) {
        m->out->waits.first[i] = m->n_waits;
        m->out->joins.first[i] = m->n_joins;
        m->out->event[i] = -1;
        m->out->forks[i] = false;
        if (m->in->runs[i]) {
            queue(m, i);
        } else {
            m->out->until[i] = i;
            m->done[i] = needs(m, i);
        }
        if (m->in->ends[i])
            end_segment(m, i);
    }
    m->out->waits.first[n] = m->n_waits;
    m->out->joins.first[n] = m->n_joins;
}

gr_status gr_streams_make(gr_arena *arena, const gr_streams_input *in, gr_streams *out)
{
    maker m = { .in = in, .out = out };
    gr_arena *scratch = NULL;
    gr_status st;

    *out = (gr_streams){ .n_events = 0 };
    GR_TRY(gr_arena_create(&scratch));
    GR_TRY_GOTO(st, make_room(&m, scratch, arena), done);
    make_all(&m);
done:
    gr_arena_destroy(scratch);
    return st;
}
