/* One client goes through everything that a store can do. */
#include "net/store_ops.h"

#include "base/alloc.h"
#include "check.h"
#include "net/store.h"

static void check_values(gr_store *s, gr_deadline d)
{
    static const char *const keys[] = { "one", "two" };
    static const char *const values[] = { "1", "22" };
    char *text, *texts[2];
    bool yes;
    size_t n;

    GR_CHECK_OK(gr_store_set_many(s, keys, values, 2, d));
    GR_CHECK_OK(gr_store_get_many(s, keys, 2, texts, d));
    GR_CHECK_STR(texts[0], "1");
    GR_CHECK_STR(texts[1], "22");
    gr_free(texts[0]);
    gr_free(texts[1]);
    GR_CHECK_OK(gr_store_append(s, "two", "2", 1, d));
    GR_CHECK_OK(gr_store_get(s, "two", &text, &n, d));
    GR_CHECK_STR(text, "222");
    GR_CHECK_EQ(n, 3);
    gr_free(text);
    GR_CHECK_OK(gr_store_check(s, keys, 2, &yes, d));
    GR_CHECK(yes);
    GR_CHECK_OK(gr_store_delete(s, "one", &yes, d));
    GR_CHECK(yes);
    GR_CHECK_OK(gr_store_delete(s, "one", &yes, d));
    GR_CHECK(!yes);
    GR_CHECK_OK(gr_store_check(s, keys, 2, &yes, d));
    GR_CHECK(!yes);
}

static void check_compare_set(gr_store *s, gr_deadline d)
{
    static const struct {
        const char *expected, *desired, *now;
    } rows[] = {
        { "something", "x", "something" }, /* missing: the expectation comes back */
        { "", "first", "first" },
        { "other", "second", "first" },
        { "first", "second", "second" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *now;

        GR_CHECK_OK(gr_store_compare_set(s, "cas", rows[i].expected, rows[i].desired, &now, d));
        GR_CHECK_STR(now, rows[i].now);
        gr_free(now);
    }
}

static void check_queues(gr_store *s, gr_deadline d)
{
    char *text;
    int64_t n;

    GR_CHECK_OK(gr_store_push(s, "queue", "a", 1, d));
    GR_CHECK_OK(gr_store_push(s, "queue", "b", 1, d));
    GR_CHECK_OK(gr_store_queued(s, "queue", &n, d));
    GR_CHECK_EQ(n, 2);
    for (int i = 0; i < 2; i++) {
        GR_CHECK_OK(gr_store_pop(s, "queue", &text, NULL, d));
        GR_CHECK_STR(text, i ? "b" : "a");
        gr_free(text);
    }
    GR_CHECK_FAILS(gr_store_pop(s, "queue", &text, NULL, gr_deadline_in_ms(30)), GR_ERR_TIMEOUT,
                   "'queue'");
}

void store_ops_check(const char *host, int port)
{
    gr_deadline d = gr_deadline_in_ms(120000);
    int64_t before, n;
    char **names;
    bool found = false;
    gr_store *s;
    int n_names;

    GR_CHECK_OK(gr_store_connect(&s, host, port, d));
    GR_CHECK_OK(gr_store_count(s, &before, d));
    check_values(s, d);
    check_compare_set(s, d);
    check_queues(s, d);
    GR_CHECK_OK(gr_store_add(s, "counter", 5, &n, d));
    GR_CHECK_OK(gr_store_add(s, "counter", -2, &n, d));
    GR_CHECK_EQ(n, 3);
    GR_CHECK_OK(gr_store_count(s, &n, d));
    GR_CHECK_EQ(n - before, 3); /* two, cas, counter */
    GR_CHECK_OK(gr_store_list(s, &names, &n_names, d));
    GR_CHECK(n_names >= 3);
    for (int i = 0; i < n_names; i++) {
        found = found || strcmp(names[i], "counter") == 0;
        gr_free(names[i]);
    }
    gr_free(names);
    GR_CHECK(found);
    GR_CHECK_OK(gr_store_barrier(s, "gate", 1, d));
    gr_store_close(s);
}
