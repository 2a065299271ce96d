/* The timeout as the environment says it. */
#include "comm/timeout.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

#define DEFAULT_MS 300000
#define MAX_S      2000000.0

gr_status gr_timeout_from_env(int *timeout_ms)
{
    static const char *const names[] = { "GR_TIMEOUT", "NCCL_TIMEOUT",
                                         "TORCH_DISTRIBUTED_TIMEOUT" };

    *timeout_ms = DEFAULT_MS;
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(names[i]);
        char *end;
        double s;

        if (!text || !*text)
            continue;
        errno = 0;
        s = strtod(text, &end);
        if (errno != 0 || end == text || *end != '\0' || !(s >= 0.001 && s <= MAX_S))
            return gr_fail(GR_ERR_ARG, "%s is '%.40s'; it must be a number of seconds", names[i],
                           text);
        *timeout_ms = (int)(s * 1000);
        if (i > 0)
            gr_log(COMM, INFO, "%s=%s is taken as the timeout, %.6g s; GR_TIMEOUT is its own name",
                   names[i], text, s);
        return GR_OK;
    }
    return GR_OK;
}
