/* Schedules: writing and running them. */
#include "comm/sched.h"

#include "base/alloc.h"

#include <string.h>

#define PIECE ((size_t)1 << 20) /* of long messages: they share the streams of a wire */

gr_status gr_sched_init(gr_sched *s, int n_ranks)
{
    memset(s, 0, sizeof(*s));
    s->n_ranks = n_ranks;
    s->n_out = (uint32_t *)gr_calloc(2 * (size_t)n_ranks, sizeof(*s->n_out));
    s->n_in = (uint32_t *)gr_calloc(2 * (size_t)n_ranks, sizeof(*s->n_in));
    return s->n_out && s->n_in ? GR_OK : GR_ERR_NOMEM;
}

void gr_sched_fini(gr_sched *s)
{
    gr_free(s->steps);
    gr_free(s->folds);
    gr_free(s->addresses);
    gr_free(s->n_out);
    gr_free(s->n_in);
    gr_free(s->scratch);
    memset(s, 0, sizeof(*s));
}

void gr_sched_clear(gr_sched *s)
{
    s->n_steps = s->n_folds = s->n_addresses = 0;
    memset(s->n_out, 0, 2 * (size_t)s->n_ranks * sizeof(*s->n_out));
    memset(s->n_in, 0, 2 * (size_t)s->n_ranks * sizeof(*s->n_in));
    s->status = GR_OK;
    s->n_loose = s->loose_open = s->n_done = s->first_open = 0;
}

void gr_sched_rewind(gr_sched *s)
{
    for (int i = 0; i < s->n_steps; i++) {
        s->steps[i].state = GR_STEP_TO_DO;
        s->steps[i].msg.is_done = false;
    }
    s->n_done = s->loose_open = 0;
    s->first_open = s->n_loose;
}

char *gr_sched_scratch(gr_sched *s, size_t n_bytes)
{
    if (n_bytes <= s->scratch_bytes && s->scratch)
        return s->scratch;
    gr_free(s->scratch);
    s->scratch = (char *)gr_malloc_aligned(n_bytes ? n_bytes : 1);
    s->scratch_bytes = s->scratch ? n_bytes : 0;
    if (!s->scratch)
        s->status = GR_ERR_NOMEM;
    return s->scratch;
}

static int add_step(gr_sched *s, const gr_step *step)
{
    gr_status st = gr_grow((void **)&s->steps, &s->cap_steps, s->n_steps + 1, sizeof(*s->steps));

    if (st != GR_OK)
        s->status = st;
    if (s->status != GR_OK)
        return GR_NONE;
    s->steps[s->n_steps] = *step;
    return s->n_steps++;
}

/* Piece i of a long message follows piece i of what it needs: of a receive of the same
 * length, that is. */
static int add_messages(gr_sched *s, gr_step *step, uint32_t *n, size_t n_bytes)
{
    static char nothing; /* empty messages have an address, too */
    int n_pieces = (int)(n_bytes ? (n_bytes + PIECE - 1) / PIECE : 1), last = GR_NONE;

    if (n_bytes == 0)
        step->msg.mem = &nothing;
    if (step->need != GR_NONE)
        step->need -= n_pieces - 1;
    for (int i = 0; i < n_pieces; i++) {
        size_t piece = n_bytes < PIECE ? n_bytes : PIECE;

        step->msg.slot = (*n)++;
        step->msg.n_bytes = piece;
        last = add_step(s, step);
        step->msg.mem += piece;
        step->need += step->need != GR_NONE;
        n_bytes -= piece;
    }
    return last;
}

int gr_sched_send(gr_sched *s, int peer, const void *mem, size_t n_bytes, int need)
{
    gr_step step = { .kind = GR_STEP_SEND,
                     .need = need,
                     .msg = { .peer = peer, .mem = (char *)(uintptr_t)mem } };

    return add_messages(s, &step, &s->n_out[peer], n_bytes);
}

int gr_sched_recv(gr_sched *s, int peer, void *mem, size_t n_bytes, int need)
{
    gr_step step = { .kind = GR_STEP_RECV,
                     .need = need,
                     .msg = { .peer = peer, .mem = (char *)(uintptr_t)mem } };

    return add_messages(s, &step, &s->n_in[peer], n_bytes);
}

static int add_patient(gr_sched *s, gr_step *step, uint32_t *n)
{
    step->msg.slot = n[s->n_ranks + step->msg.peer]++ | GR_SLOT_PATIENT;
    return add_step(s, step);
}

int gr_sched_send_patient(gr_sched *s, int peer, const void *mem, size_t n_bytes)
{
    gr_step step = { .kind = GR_STEP_SEND,
                     .need = GR_NONE,
                     .msg = { .peer = peer, .mem = (char *)(uintptr_t)mem, .n_bytes = n_bytes } };

    return add_patient(s, &step, s->n_out);
}

int gr_sched_recv_patient(gr_sched *s, int peer, void *mem, size_t n_bytes, int need)
{
    gr_step step = { .kind = GR_STEP_RECV,
                     .is_gate = need != GR_NONE,
                     .need = need,
                     .msg = { .peer = peer, .mem = (char *)mem, .n_bytes = n_bytes } };

    return add_patient(s, &step, s->n_in);
}

void gr_sched_loosen(gr_sched *s)
{
    s->n_loose = s->first_open = s->n_steps;
}

int gr_sched_copy(gr_sched *s, void *dst, const void *src, size_t n_bytes, int need)
{
    gr_step step = { .kind = GR_STEP_COPY,
                     .need = need,
                     .from = (const char *)src,
                     .msg = { .mem = (char *)dst, .n_bytes = n_bytes } };

    return n_bytes == 0 || dst == src ? GR_NONE : add_step(s, &step);
}

int gr_sched_fold(gr_sched *s, const gr_fold *f, int lo, int hi)
{
    gr_step step = { .kind = GR_STEP_FOLD, .need = GR_NONE, .need_lo = lo, .need_hi = hi };
    int n = f->n_src + f->n_dst;
    gr_status st = gr_grow((void **)&s->folds, &s->cap_folds, s->n_folds + 1, sizeof(*s->folds));

    if (st == GR_OK)
        st = gr_grow((void **)&s->addresses, &s->cap_addresses, s->n_addresses + n,
                     sizeof(*s->addresses));
    if (st != GR_OK) {
        s->status = st;
        return GR_NONE;
    }
    step.fold = s->n_folds;
    s->folds[s->n_folds++] = (gr_fold_entry){ .f = *f, .at = s->n_addresses };
    for (int i = 0; i < f->n_src; i++)
        s->addresses[s->n_addresses++] = (void *)(uintptr_t)f->src[i];
    for (int i = 0; i < f->n_dst; i++)
        s->addresses[s->n_addresses++] = f->dst[i];
    return add_step(s, &step);
}

void gr_sched_need(gr_sched *s, int step, int lo, int hi)
{
    if (step == GR_NONE || s->status != GR_OK)
        return;
    s->steps[step].need_lo = lo;
    s->steps[step].need_hi = hi;
}

void gr_sched_name(gr_sched *s, uint64_t seq, const gr_what *what, const char *label)
{
    for (int i = 0; i < s->n_steps; i++) {
        s->steps[i].msg.seq = seq;
        s->steps[i].msg.what = what;
        s->steps[i].msg.label = label;
    }
}

static bool is_ready(const gr_sched *s, const gr_step *step)
{
    if (step->need != GR_NONE && s->steps[step->need].state != GR_STEP_DONE)
        return false;
    for (int i = step->need_lo > s->first_open ? step->need_lo : s->first_open; i < step->need_hi;
         i++)
        if (s->steps[i].state != GR_STEP_DONE)
            return false;
    return true;
}

static void run_fold(gr_sched *s, const gr_fold_entry *one)
{
    gr_fold f = one->f;

    f.src = (const void *const *)(s->addresses + one->at);
    f.dst = s->addresses + one->at + f.n_src;
    s->fn(&f);
}

static gr_status begin(gr_sched *s, gr_step *step, gr_wire *w)
{
    step->state = GR_STEP_UNDER_WAY;
    switch (step->kind) {
    case GR_STEP_SEND: w->ops->send(w, &step->msg); return GR_OK;
    case GR_STEP_RECV: return w->ops->recv(w, &step->msg);
    case GR_STEP_FOLD: run_fold(s, &s->folds[step->fold]); break;
    case GR_STEP_COPY: memmove(step->msg.mem, step->from, step->msg.n_bytes); break;
    }
    gr_msg_end(&step->msg);
    return GR_OK;
}

static gr_status move_loose(gr_sched *s, gr_wire *w)
{
    if (s->n_loose > 0 && s->steps[0].state == GR_STEP_TO_DO)
        for (int i = 0; i < s->n_loose; i++)
            GR_TRY(begin(s, &s->steps[i], w));
    for (; s->loose_open < s->n_loose && gr_msg_has_ended(&s->steps[s->loose_open].msg);
         s->loose_open++) {
        s->steps[s->loose_open].state = GR_STEP_DONE;
        s->n_done++;
    }
    return GR_OK;
}

/* Needs are earlier steps, so one pass finds everything that has become ready. */
gr_status gr_sched_move(gr_sched *s, gr_wire *w)
{
    GR_TRY(move_loose(s, w));
    for (int i = s->first_open; i < s->n_steps; i++) {
        gr_step *step = &s->steps[i];

        if (step->state == GR_STEP_TO_DO && is_ready(s, step))
            GR_TRY(begin(s, step, w));
        else if (step->state == GR_STEP_TO_DO && step->is_gate)
            break;
        if (step->state == GR_STEP_UNDER_WAY && gr_msg_has_ended(&step->msg)) {
            step->state = GR_STEP_DONE;
            s->n_done++;
        }
    }
    while (s->first_open < s->n_steps && s->steps[s->first_open].state == GR_STEP_DONE)
        s->first_open++;
    return GR_OK;
}

bool gr_sched_is_done(const gr_sched *s)
{
    return s->n_done == s->n_steps;
}

bool gr_sched_waits_for(const gr_sched *s, int rank)
{
    for (int i = s->loose_open < s->n_loose ? s->loose_open : s->first_open; i < s->n_steps; i++) {
        const gr_step *step = &s->steps[i];

        if (step->state == GR_STEP_UNDER_WAY && !gr_msg_has_ended(&step->msg) &&
            step->kind <= GR_STEP_RECV && step->msg.peer == rank)
            return true;
    }
    return false;
}
