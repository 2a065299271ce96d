/* How long a host may be silent. */
#include "net/silence.h"

#include <errno.h>
#include <stdlib.h>

#define MORE_MS  2000
#define LEAST_MS 5000 /* of a timeout: who waits for less says so before a host is to blame */
#define MAX_S    2000000.0

gr_status gr_silence_limit(int timeout_ms, int *limit_ms)
{
    const char *text = getenv("GR_HEARTBEAT_TIMEOUT");
    double s;
    char *end;

    *limit_ms = (timeout_ms > LEAST_MS ? timeout_ms : LEAST_MS) + MORE_MS;
    if (!text || !*text)
        return GR_OK;
    errno = 0;
    s = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(s >= 1 && s <= MAX_S))
        return gr_fail(GR_ERR_ARG,
                       "GR_HEARTBEAT_TIMEOUT is '%.40s'; it must be a number of seconds from 1 on",
                       text);
    if ((int)(s * 1000) + MORE_MS < *limit_ms)
        *limit_ms = (int)(s * 1000) + MORE_MS;
    return GR_OK;
}
