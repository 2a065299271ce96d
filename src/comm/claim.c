/* Who is which rank. */
#include "comm/claim.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_TEXT   96
#define CLAIM_LINE (GR_HOST_LINE + 24)
#define REASON     768

static void who_key(const gr_job *job, char key[KEY_TEXT])
{
    snprintf(key, KEY_TEXT, "gradus/%d/who/%d", job->restart, job->rank);
}

static void trouble_key(const gr_job *job, int64_t n, char key[KEY_TEXT])
{
    snprintf(key, KEY_TEXT, "gradus/%d/%" PRId64 "/trouble", job->restart, n);
}

/* "<number> <line>" */
static gr_status read_claim(gr_store *s, const gr_job *job, gr_host *h, int64_t *n, gr_deadline d)
{
    char key[KEY_TEXT], *text, *line;
    size_t n_bytes;
    gr_status st;

    who_key(job, key);
    GR_TRY(gr_store_get(s, key, &text, &n_bytes, d)); /* who counted before us is about to tell */
    *n = strtoll(text, &line, 10);
    st = gr_host_parse(*line == ' ' ? line + 1 : line, job->rank, h);
    gr_free(text);
    return st;
}

/* A process elsewhere cannot be looked for: nobody moves while a job runs. */
static bool is_other(const gr_host *me, const gr_host *h)
{
    if (!gr_host_sees(me, h))
        return true;
    return (h->pid != me->pid || h->born != me->born) && gr_host_is_alive(h);
}

static gr_status refuse(gr_store *s, const gr_job *job, const gr_host *me, const gr_host *h,
                        int64_t n, gr_deadline d)
{
    char key[KEY_TEXT], why[REASON];

    snprintf(why, sizeof(why),
             "two processes are rank %d: process %d on '%s' and process %d on '%s'; give each a "
             "RANK of its own",
             job->rank, h->pid, h->name, me->pid, me->name);
    trouble_key(job, n, key);
    GR_TRY(gr_store_set(s, key, why, strlen(why), d));
    return gr_fail(GR_ERR_ARG, "%s", why);
}

gr_status gr_claim_rank(gr_store *s, const gr_job *job, const gr_host *me, int64_t n, gr_deadline d)
{
    char key[KEY_TEXT], claim[CLAIM_LINE], line[GR_HOST_LINE];
    gr_host other = { .pid = 0 };
    int64_t other_n;

    if (n > 1) {
        GR_TRY(read_claim(s, job, &other, &other_n, d));
        if (is_other(me, &other))
            return refuse(s, job, me, &other, other_n, d);
    }
    gr_host_write(me, line);
    snprintf(claim, sizeof(claim), "%" PRId64 " %s", n, line);
    who_key(job, key);
    return gr_store_set(s, key, claim, strlen(claim), d);
}

gr_status gr_claim_trouble(gr_store *s, const gr_job *job, int64_t n, gr_deadline d)
{
    char key[KEY_TEXT], *text;
    const char *keys[1] = { key };
    bool is_there = false;
    size_t n_bytes;
    gr_status st;

    trouble_key(job, n, key);
    GR_TRY(gr_store_check(s, keys, 1, &is_there, d));
    if (!is_there)
        return GR_OK;
    GR_TRY(gr_store_get(s, key, &text, &n_bytes, d));
    st = gr_fail(GR_ERR_PEER, "%s", text);
    gr_free(text);
    return st;
}
