/* The device whose streams run later: order within a stream, events between them, and what it
 * refuses to record. */
#include "backend/null/null.h"

#include "check.h"

typedef struct trail {
    char text[64];
    int n;
} trail;

typedef struct step {
    trail *t;
    char letter;
} step;

static void leave(void *arg)
{
    step *s = (step *)arg;

    s->t->text[s->t->n++] = s->letter;
    s->t->text[s->t->n] = '\0';
}

static gr_device *d;
static const gr_backend_ops *const ops = &gr_backend_replay;
static trail t;
static step steps[26];

static void queue(gr_stream_kind stream, char letter)
{
    steps[letter - 'a'] = (step){ &t, letter };
    GR_CHECK_OK(gr_replay_queue(ops->stream(d, stream), leave, &steps[letter - 'a']));
}

static int at(char letter)
{
    const char *p = strchr(t.text, letter);

    GR_CHECK(p);
    return (int)(p - t.text);
}

static void open_seed(int seed)
{
    GR_CHECK_OK(ops->open(&d, seed));
    t = (trail){ .n = 0 };
}

/* a b | c d on two streams; d waits for b: six orders without the wait, three with it. */
static void test_orders(bool waits, int want)
{
    char seen[32][sizeof(t.text)];
    int n_seen = 0;

    for (int seed = 0; seed < 300; seed++) {
        void *event;
        int i = 0;

        open_seed(seed);
        GR_CHECK_OK(ops->event_create(d, &event));
        queue(GR_STREAM_COMPUTE, 'a');
        queue(GR_STREAM_COMPUTE, 'b');
        GR_CHECK_OK(ops->event_record(d, event, GR_STREAM_COMPUTE));
        queue(GR_STREAM_EXCHANGE, 'c');
        if (waits)
            GR_CHECK_OK(ops->event_wait(d, event, GR_STREAM_EXCHANGE));
        queue(GR_STREAM_EXCHANGE, 'd');
        GR_CHECK_EQ(t.n, 0);
        GR_CHECK_OK(ops->sync(d));
        GR_CHECK_EQ(t.n, 4);
        GR_CHECK(at('a') < at('b') && at('c') < at('d'));
        GR_CHECK(!waits || at('b') < at('d'));
        while (i < n_seen && strcmp(seen[i], t.text) != 0)
            i++;
        if (i == n_seen)
            snprintf(seen[n_seen++], sizeof(seen[0]), "%s", t.text);
        ops->event_destroy(d, event);
        ops->close(d);
    }
    GR_CHECK_EQ(n_seen, want);
}

static void test_recording(void)
{
    void *event, *recorded;

    open_seed(1);
    GR_CHECK_OK(ops->event_create(d, &event));
    GR_CHECK_OK(ops->capture_begin(d));
    queue(GR_STREAM_COMPUTE, 'a');
    GR_CHECK_OK(ops->event_record(d, event, GR_STREAM_COMPUTE));
    GR_CHECK_OK(ops->event_wait(d, event, GR_STREAM_EXCHANGE));
    queue(GR_STREAM_EXCHANGE, 'b');
    GR_CHECK_OK(ops->event_record(d, event, GR_STREAM_EXCHANGE));
    GR_CHECK_OK(ops->event_wait(d, event, GR_STREAM_COMPUTE));
    queue(GR_STREAM_COMPUTE, 'c');
    GR_CHECK_OK(ops->capture_end(d, &recorded));
    GR_CHECK_OK(ops->sync(d));
    GR_CHECK_EQ(t.n, 0);
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(ops->capture_launch(d, recorded));
    GR_CHECK_OK(ops->sync(d));
    GR_CHECK_STR(t.text, "abcabcabc");
    ops->capture_free(d, recorded);
    ops->event_destroy(d, event);
    ops->close(d);
}

static void test_refusals(void)
{
    void *event, *recorded;

    open_seed(1);
    GR_CHECK_OK(ops->event_create(d, &event));
    GR_CHECK_OK(ops->event_record(d, event, GR_STREAM_COMPUTE));
    GR_CHECK_OK(ops->capture_begin(d));
    GR_CHECK_FAILS(gr_replay_queue(ops->stream(d, GR_STREAM_EXCHANGE), leave, &steps[0]),
                   GR_ERR_DEVICE, "takes no part");
    GR_CHECK_FAILS(ops->event_wait(d, event, GR_STREAM_COMPUTE), GR_ERR_DEVICE,
                   "before the recording");
    GR_CHECK_OK(ops->event_record(d, event, GR_STREAM_COMPUTE));
    GR_CHECK_OK(ops->event_wait(d, event, GR_STREAM_EXCHANGE));
    queue(GR_STREAM_EXCHANGE, 'a');
    GR_CHECK_FAILS(ops->capture_end(d, &recorded), GR_ERR_DEVICE, "has not joined");
    ops->event_destroy(d, event);
    ops->close(d);
}

/* The host waits for a slot, and for nothing behind it. */
static void test_slots(void)
{
    open_seed(1);
    queue(GR_STREAM_COPY, 'a');
    GR_CHECK_OK(ops->slot_mark(d, 0, GR_STREAM_COPY));
    queue(GR_STREAM_COPY, 'b');
    GR_CHECK_OK(ops->slot_wait(d, 1)); /* never marked */
    GR_CHECK_EQ(t.n, 0);
    GR_CHECK_OK(ops->slot_wait(d, 0));
    GR_CHECK_STR(t.text, "a");
    GR_CHECK_OK(ops->sync(d));
    GR_CHECK_STR(t.text, "ab");
    ops->close(d);
}

int main(void)
{
    test_orders(false, 6);
    test_orders(true, 3);
    test_recording();
    test_refusals();
    test_slots();
    return 0;
}
