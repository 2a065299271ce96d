/* Slurm's lists. They come from the environment, so they may be anything. */
#include "net/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 *     node[05-09,12]  the first host is the text before the bracket and the first number as it
 *                     is written, zeros included, and what follows the bracket
 *     rack[1-2]n[0-3] each bracket gives its first number
 */
gr_status gr_slurm_first_host(const char *list, char *out, size_t out_bytes)
{
    size_t n = 0;
    const char *at = list;
    bool closed = true;

    while (closed && *at && *at != ',' && n + 1 < out_bytes) {
        if (*at != '[') {
            out[n++] = *at++;
            continue;
        }
        at++;
        closed = isdigit((unsigned char)*at);
        while (isdigit((unsigned char)*at) && n + 1 < out_bytes)
            out[n++] = *at++;
        at += strcspn(at, "]");
        closed = closed && *at == ']';
        at += *at == ']';
    }
    out[n] = '\0';
    if (n == 0 || !closed || (*at && *at != ','))
        return gr_fail(GR_ERR_FORMAT, "'%.80s' is no list of hosts", list);
    return GR_OK;
}

static int take_number(const char **at)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(*at, &end, 10);
    if (!isdigit((unsigned char)**at) || errno != 0 || v < 1 || v > INT_MAX)
        return 0;
    *at = end;
    return (int)v;
}

gr_status gr_slurm_tasks_on(const char *text, int node, int *out)
{
    const char *at = text;

    while (*at) {
        int tasks = take_number(&at), nodes = 1;

        if (tasks == 0)
            break;
        if (strncmp(at, "(x", 2) == 0) {
            at += 2;
            nodes = take_number(&at);
            if (nodes == 0 || *at != ')')
                break;
            at++;
        }
        if (node < nodes) {
            *out = tasks;
            return GR_OK;
        }
        node -= nodes;
        if (*at != ',')
            break;
        at++;
    }
    return gr_fail(GR_ERR_FORMAT, "'%.80s' does not say how many tasks a node has", text);
}
