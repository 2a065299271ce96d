/* Guards the device whose results are late: a download arrives at the wait that covers it, not
 * before, and what was queued after a mark arrives at a later one. */
#include "check.h"

#include "backend/backend.h"

int main(void)
{
    const gr_backend_ops *ops = &gr_backend_late;
    int src = 1, a = 0, b = 0, c = 0;
    gr_device *d;

    GR_CHECK(!ops->runs_at_once && gr_backend_cpu.runs_at_once);
    GR_CHECK_EQ(ops->open(&d, 1), GR_ERR_ARG);
    GR_CHECK_OK(ops->open(&d, 0));
    GR_CHECK_OK(ops->slot_wait(d, 3)); /* never marked */
    GR_CHECK_OK(ops->download(d, &a, &src, sizeof(src)));
    GR_CHECK_OK(ops->slot_mark(d, 2, GR_STREAM_COMPUTE));
    src = 2;
    GR_CHECK_OK(ops->download(d, &b, &src, sizeof(src)));
    GR_CHECK_OK(ops->slot_mark(d, 4, GR_STREAM_COMPUTE));
    src = 3;
    GR_CHECK_OK(ops->download(d, &c, &src, sizeof(src)));
    GR_CHECK(a == 0 && b == 0 && c == 0);
    GR_CHECK_OK(ops->slot_wait(d, 2));
    GR_CHECK(a == 1 && b == 0 && c == 0);
    GR_CHECK_OK(ops->slot_wait(d, 4));
    GR_CHECK(a == 1 && b == 2 && c == 0);
    GR_CHECK_OK(ops->sync(d));
    GR_CHECK_EQ(c, 3);
    GR_CHECK_OK(ops->download(d, &c, &src, sizeof(src))); /* nobody waits for it */
    ops->close(d);
    return 0;
}
