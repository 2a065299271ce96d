/* Requests and their answers. */
#include "net/store_hub.h"

#include "base/alloc.h"
#include "net/store_table.h"
#include "net/store_wire.h"

#include <string.h>

#define MUCH_OUT ((size_t)1 << 20) /* with more to send, further requests wait */

/* Bytes that come in at the end and leave at the front. */
typedef struct queue {
    uint8_t *mem;
    size_t first, len, cap;
} queue;

typedef enum wait_kind { WAIT_NONE, WAIT_KEYS, WAIT_BARRIER } wait_kind;

struct gr_store_session {
    gr_store_hub *hub;
    gr_store_session *prev, *next;
    bool is_valid; /* the magic number has come */
    queue in, out;
    wait_kind wait;
    uint64_t wait_since; /* order of waits, for fairness */
    uint8_t *wait_mem;   /* owned copy of the keys */
    gr_span wait_left;   /* keys from the first missing one on; or the barrier's key */
    int64_t wait_world;  /* of a barrier */
};

struct gr_store_hub {
    gr_store_table *table;
    gr_store_session *sessions; /* newest first */
    uint64_t n_waits;
};

static gr_status append(queue *q, const void *src, size_t n)
{
    if (q->first > 0 && q->first + q->len + n > q->cap) {
        memmove(q->mem, q->mem + q->first, q->len);
        q->first = 0;
    }
    if (q->first + q->len + n > q->cap) {
        size_t cap = 2 * (q->len + n);
        uint8_t *grown = (uint8_t *)gr_realloc(q->mem, cap);

        if (!grown)
            return GR_ERR_NOMEM;
        q->mem = grown;
        q->cap = cap;
    }
    if (n > 0)
        memcpy(q->mem + q->first + q->len, src, n);
    q->len += n;
    return GR_OK;
}

static void consume(queue *q, size_t n)
{
    q->first += n;
    q->len -= n;
    if (q->len == 0)
        q->first = 0;
}

static gr_status reply_i64(gr_store_session *s, int64_t v)
{
    return append(&s->out, &v, sizeof(v));
}

static gr_status reply_u8(gr_store_session *s, uint8_t v)
{
    return append(&s->out, &v, sizeof(v));
}

static gr_status reply_span(gr_store_session *s, gr_span v)
{
    uint64_t len = v.len;

    GR_TRY(append(&s->out, &len, sizeof(len)));
    return append(&s->out, v.mem, v.len);
}

/* ---- waiting ---- */

static void stop_waiting(gr_store_session *s)
{
    gr_free(s->wait_mem);
    s->wait_mem = NULL;
    s->wait = WAIT_NONE;
}

/* Keys before `wait_left` were there when looked at; deleting one while others wait for
 * more is no use of a store that this has to serve better. */
static bool all_there(gr_store_session *s)
{
    while (s->wait_left.len > 0) {
        gr_span rest = s->wait_left, key;

        gr_store_next(&rest, &key, NULL);
        if (!gr_store_table_has(s->hub->table, key))
            return false;
        s->wait_left = rest;
    }
    return true;
}

static gr_status begin_wait(gr_store_session *s, wait_kind kind, gr_span keys)
{
    stop_waiting(s);
    s->wait_mem = (uint8_t *)gr_malloc(keys.len);
    if (!s->wait_mem)
        return GR_ERR_NOMEM;
    if (keys.len > 0)
        memcpy(s->wait_mem, keys.mem, keys.len);
    s->wait_left = (gr_span){ s->wait_mem, keys.len };
    s->wait_since = s->hub->n_waits++;
    s->wait = kind;
    return GR_OK;
}

/* Answers sessions whose keys have come. One value in a queue serves one of them: the one
 * that has waited longest. */
static gr_status wake(gr_store_hub *h, bool only_one)
{
    gr_store_session *longest = NULL;

    for (gr_store_session *s = h->sessions; s; s = s->next) {
        if (s->wait != WAIT_KEYS || !all_there(s))
            continue;
        if (!only_one) {
            stop_waiting(s);
            GR_TRY(reply_u8(s, GR_STORE_STOP_WAITING));
        } else if (!longest || s->wait_since < longest->wait_since) {
            longest = s;
        }
    }
    if (!longest)
        return GR_OK;
    stop_waiting(longest);
    return reply_u8(longest, GR_STORE_STOP_WAITING);
}

static gr_status barrier(gr_store_session *s, const gr_store_request *q)
{
    int64_t n;

    GR_TRY(gr_store_table_arrive(s->hub->table, q->key, &n));
    for (gr_store_session *o = s->hub->sessions; o; o = o->next)
        if (o->wait == WAIT_BARRIER && n >= o->wait_world && o->wait_left.len == q->key.len &&
            memcmp(o->wait_left.mem, q->key.mem, q->key.len) == 0) {
            stop_waiting(o);
            GR_TRY(reply_u8(o, GR_STORE_STOP_WAITING));
        }
    if (n >= q->number)
        return reply_u8(s, GR_STORE_STOP_WAITING);
    s->wait_world = q->number;
    return begin_wait(s, WAIT_BARRIER, q->key);
}

/* ---- requests ---- */

static gr_status check(gr_store_session *s, const gr_store_request *q)
{
    bool all = true;
    gr_span items = q->items;

    for (uint64_t i = 0; i < q->n_items && all; i++) {
        gr_span key;

        gr_store_next(&items, &key, NULL);
        all = gr_store_table_has(s->hub->table, key);
    }
    return reply_u8(s, all ? GR_STORE_READY : GR_STORE_NOT_READY);
}

static gr_status wait_keys(gr_store_session *s, const gr_store_request *q)
{
    GR_TRY(begin_wait(s, WAIT_KEYS, q->items));
    if (!all_there(s))
        return GR_OK;
    stop_waiting(s);
    return reply_u8(s, GR_STORE_STOP_WAITING);
}

static gr_status multi_get(gr_store_session *s, const gr_store_request *q)
{
    gr_span items = q->items;

    for (uint64_t i = 0; i < q->n_items; i++) {
        gr_span key;

        gr_store_next(&items, &key, NULL);
        GR_TRY(reply_span(s, gr_store_table_get(s->hub->table, key)));
    }
    return GR_OK;
}

static gr_status multi_set(gr_store_session *s, const gr_store_request *q)
{
    gr_span items = q->items;

    for (uint64_t i = 0; i < q->n_items; i++) {
        gr_span key, value;

        gr_store_next(&items, &key, &value);
        GR_TRY(gr_store_table_set(s->hub->table, key, value));
    }
    return wake(s->hub, false);
}

static gr_status pop(gr_store_session *s, gr_span key)
{
    int64_t n = gr_store_table_queued(s->hub->table, key);

    GR_TRY(reply_i64(s, n));
    if (n == 0)
        return GR_OK;
    GR_TRY(reply_span(s, gr_store_table_front(s->hub->table, key)));
    gr_store_table_pop(s->hub->table, key);
    return GR_OK;
}

typedef struct key_list {
    gr_store_session *session;
    gr_status status;
} key_list;

static void list_key(void *arg, gr_span key)
{
    key_list *l = (key_list *)arg;

    if (l->status == GR_OK)
        l->status = reply_span(l->session, key);
}

static gr_status list_keys(gr_store_session *s)
{
    key_list l = { .session = s };

    GR_TRY(reply_i64(s, gr_store_table_count(s->hub->table)));
    gr_store_table_each(s->hub->table, list_key, &l);
    return l.status;
}

static gr_status add(gr_store_session *s, const gr_store_request *q)
{
    int64_t now;

    GR_TRY(gr_store_table_add(s->hub->table, q->key, q->number, &now));
    GR_TRY(reply_i64(s, now));
    return wake(s->hub, false);
}

static gr_status compare_set(gr_store_session *s, const gr_store_request *q)
{
    gr_span now;

    GR_TRY(gr_store_table_compare_set(s->hub->table, q->key, q->value, q->value2, &now));
    GR_TRY(reply_span(s, now));
    return wake(s->hub, false);
}

static gr_status cancel_wait(gr_store_session *s)
{
    stop_waiting(s);
    return reply_u8(s, GR_STORE_WAIT_CANCELED);
}

static gr_status handle(gr_store_session *s, const gr_store_request *q)
{
    gr_store_table *t = s->hub->table;

    if (!s->is_valid && (q->op != GR_STORE_VALIDATE || q->word != GR_STORE_MAGIC))
        return gr_fail(GR_ERR_FORMAT, "the client does not speak the store's language");
    switch (q->op) {
    case GR_STORE_VALIDATE: s->is_valid = true; return GR_OK;
    case GR_STORE_PING: return append(&s->out, &q->word, sizeof(q->word));
    case GR_STORE_SET: GR_TRY(gr_store_table_set(t, q->key, q->value)); return wake(s->hub, false);
    case GR_STORE_APPEND:
        GR_TRY(gr_store_table_append(t, q->key, q->value));
        return wake(s->hub, false);
    case GR_STORE_COMPARE_SET: return compare_set(s, q);
    case GR_STORE_GET: return reply_span(s, gr_store_table_get(t, q->key));
    case GR_STORE_ADD: return add(s, q);
    case GR_STORE_CHECK: return check(s, q);
    case GR_STORE_WAIT: return wait_keys(s, q);
    case GR_STORE_CANCEL_WAIT: return cancel_wait(s);
    case GR_STORE_GETNUMKEYS: return reply_i64(s, gr_store_table_count(t));
    case GR_STORE_DELETE_KEY: return reply_i64(s, gr_store_table_delete(t, q->key));
    case GR_STORE_MULTI_GET: return multi_get(s, q);
    case GR_STORE_MULTI_SET: return multi_set(s, q);
    case GR_STORE_QUEUE_PUSH:
        GR_TRY(gr_store_table_push(t, q->key, q->value));
        return wake(s->hub, true);
    case GR_STORE_QUEUE_POP: return pop(s, q->key);
    case GR_STORE_QUEUE_LEN: return reply_i64(s, gr_store_table_queued(t, q->key));
    case GR_STORE_LIST_KEYS: return list_keys(s);
    case GR_STORE_BARRIER: return barrier(s, q);
    case GR_STORE_OP_COUNT: break;
    }
    return gr_fail(GR_ERR_FORMAT, "unknown operation %d", (int)q->op);
}

static gr_status handle_all(gr_store_session *s)
{
    while (s->in.len > 0 && s->out.len < MUCH_OUT) {
        gr_store_request q;
        size_t n_used;

        GR_TRY(gr_store_parse(s->in.mem + s->in.first, s->in.len, &q, &n_used));
        if (n_used == 0)
            return GR_OK;
        GR_TRY(handle(s, &q));
        consume(&s->in, n_used);
    }
    return GR_OK;
}

/* ---- sessions ---- */

gr_status gr_store_hub_create(gr_store_hub **out)
{
    gr_store_hub *h = (gr_store_hub *)gr_calloc(1, sizeof(*h));

    if (!h)
        return GR_ERR_NOMEM;
    if (gr_store_table_create(&h->table) != GR_OK) {
        gr_free(h);
        return GR_ERR_NOMEM;
    }
    *out = h;
    return GR_OK;
}

void gr_store_hub_destroy(gr_store_hub *h)
{
    if (!h)
        return;
    while (h->sessions)
        gr_store_session_close(h->sessions);
    gr_store_table_destroy(h->table);
    gr_free(h);
}

gr_status gr_store_session_open(gr_store_session **out, gr_store_hub *h)
{
    gr_store_session *s = (gr_store_session *)gr_calloc(1, sizeof(*s));

    if (!s)
        return GR_ERR_NOMEM;
    s->hub = h;
    s->next = h->sessions;
    if (s->next)
        s->next->prev = s;
    h->sessions = s;
    *out = s;
    return GR_OK;
}

void gr_store_session_close(gr_store_session *s)
{
    if (!s)
        return;
    if (s->prev)
        s->prev->next = s->next;
    else
        s->hub->sessions = s->next;
    if (s->next)
        s->next->prev = s->prev;
    gr_free(s->wait_mem);
    gr_free(s->in.mem);
    gr_free(s->out.mem);
    gr_free(s);
}

gr_status gr_store_session_feed(gr_store_session *s, const void *src, size_t n_bytes)
{
    GR_TRY(append(&s->in, src, n_bytes));
    return handle_all(s);
}

const uint8_t *gr_store_session_pending(const gr_store_session *s, size_t *n_bytes)
{
    *n_bytes = s->out.len;
    return s->out.len ? s->out.mem + s->out.first : NULL;
}

gr_status gr_store_session_sent(gr_store_session *s, size_t n_bytes)
{
    GR_BUG_IF(n_bytes > s->out.len);
    consume(&s->out, n_bytes);
    return handle_all(s);
}

bool gr_store_session_wants_input(const gr_store_session *s)
{
    return s->out.len < MUCH_OUT;
}
