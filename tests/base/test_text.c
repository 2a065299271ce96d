/* Growing strings. */
#include "alloc_fail.h"
#include "base/text.h"
#include "check.h"

static void grows(void)
{
    gr_text t = GR_TEXT_INIT;

    GR_CHECK_STR(gr_text_str(&t), "");
    gr_text_add(&t, "");
    GR_CHECK_STR(gr_text_str(&t), "");
    for (int i = 0; i < 1000; i++)
        gr_text_addf(&t, "%d,", i % 10);
    gr_text_addn(&t, "end and more", 3);
    GR_CHECK_OK(gr_text_status(&t));
    GR_CHECK_EQ(t.len, 2003);
    GR_CHECK_EQ(strlen(t.str), 2003);
    GR_CHECK(strncmp(t.str, "0,1,2,", 6) == 0);
    GR_CHECK_STR(t.str + 1998, "9,end");
    gr_text_fini(&t);
    GR_CHECK_STR(gr_text_str(&t), "");
    gr_text_fini(&t);
}

static void few_allocations(void)
{
    gr_text t = GR_TEXT_INIT;
    long before = gr_alloc_count();

    for (int i = 0; i < 100000; i++)
        gr_text_add(&t, "x");
    GR_CHECK(gr_alloc_count() - before < 20); /* doubles */
    gr_text_fini(&t);
}

static void failure_sticks(void)
{
    gr_text t = GR_TEXT_INIT;

    gr_text_add(&t, "one");
    gr_alloc_fail_after(0);
    gr_text_addf(&t, "%100d", 1);
    gr_alloc_fail_after(-1);
    gr_text_add(&t, "two");
    GR_CHECK_STR(gr_text_str(&t), "one");
    gr_fail(GR_ERR_IO, "something else");
    GR_CHECK_FAILS(gr_text_status(&t), GR_ERR_NOMEM, "3 bytes");
    gr_text_fini(&t);
    GR_CHECK_OK(gr_text_status(&t));
}

static gr_status body(void *arg)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    (void)arg;
    for (int i = 0; i < 50; i++)
        gr_text_addf(&t, "word %d ", i);
    st = gr_text_status(&t);
    gr_text_fini(&t);
    return st;
}

int main(void)
{
    grows();
    few_allocations();
    failure_sticks();
    GR_CHECK(gr_alloc_fail_each(body, NULL) >= 3);
    return 0;
}
