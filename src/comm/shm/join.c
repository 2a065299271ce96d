/*
 * How processes of one host become a group, once they know each other's numbers:
 *
 *     rank 0       makes the control segment,  <key> = "ok <pid> <fd> <token>" to the store
 *     the others   open /proc/<pid>/fd/<fd>, check the token
 *     all          meet in the segment; the store is not needed any more
 */
#include "comm/shm/join.h"

#include "base/alloc.h"
#include "comm/field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LINE_TEXT 512

gr_status shm_make_control(shm_world *w)
{
    shm_head *head;
    uint64_t token;

    GR_TRY(shm_segment_create(&w->control, shm_control_bytes(w->n_ranks), SHM_SMALL_PAGES));
    if (getrandom(&token, sizeof(token), 0) != (ssize_t)sizeof(token))
        return gr_fail(GR_ERR_IO, "getrandom: %s", strerror(errno));
    head = (shm_head *)w->control.mem;
    head->magic = SHM_MAGIC;
    head->token = token;
    head->n_ranks = (uint64_t)w->n_ranks;
    return GR_OK;
}

/* Rank 0's failure goes to the store too: the others would wait for a key in vain. */
static gr_status publish_control(const shm_joining *j, shm_world *w)
{
    char line[LINE_TEXT];
    gr_status st = shm_make_control(w), sent;

    if (st == GR_OK)
        snprintf(line, sizeof(line), "ok %d %d %" PRIu64, (int)getpid(), w->control.fd,
                 ((shm_head *)w->control.mem)->token);
    else
        snprintf(line, sizeof(line), "failed %s", gr_error_message());
    sent = gr_store_set(j->store, j->key, line, strlen(line), j->deadline);
    return st != GR_OK ? st : sent;
}

static gr_status open_control(const shm_joining *j, shm_world *w, const char *line)
{
    const shm_head *head;
    const char *at = line + 3;
    uint64_t pid, fd, token;

    if (strncmp(line, "failed ", 7) == 0)
        return gr_fail(GR_ERR_PEER, "rank 0 could not make the group: %s", line + 7);
    if (strncmp(line, "ok ", 3) != 0 || !gr_field_number(&at, INT32_MAX, &pid) ||
        !gr_field_number(&at, INT32_MAX, &fd) || !gr_field_number(&at, UINT64_MAX, &token) ||
        (int)pid != j->pids[0])
        return gr_fail(GR_ERR_FORMAT, "rank 0 told the store '%.80s' about the shared memory",
                       line);
    GR_TRY(shm_segment_open(&w->control, (int)pid, (int)fd, shm_control_bytes(w->n_ranks),
                            SHM_SMALL_PAGES));
    head = (const shm_head *)w->control.mem;
    if (head->magic != SHM_MAGIC || head->token != token || head->n_ranks != (uint64_t)w->n_ranks)
        return gr_fail(GR_ERR_FORMAT,
                       "descriptor %d of process %d is not this job's shared memory: "
                       "do all ranks run the same version in one container?",
                       (int)fd, (int)pid);
    return GR_OK;
}

static gr_status map_control(const shm_joining *j, shm_world *w)
{
    gr_status st;
    char *line;

    w->owner_pid = j->pids[0];
    if (j->job->rank == 0)
        return publish_control(j, w);
    GR_TRY(gr_store_get(j->store, j->key, &line, NULL, j->deadline));
    st = open_control(j, w, line);
    gr_free(line);
    return st;
}

gr_status shm_join(gr_pg **out, const shm_joining *j)
{
    gr_what what = { .kind = GR_WHAT_JOIN };
    shm_world *w = shm_world_create(j->job->n_ranks);
    gr_shm *s = NULL;
    gr_status st;

    if (!w)
        return GR_ERR_NOMEM;
    st = map_control(j, w);
    if (st != GR_OK) {
        shm_world_unref(w);
        return st;
    }
    GR_TRY(shm_create(&s, w, j->job->rank, j->config, j->pids));
    s->pg.local_rank = j->job->local_rank;
    st = shm_round(s, &what, NULL, 0);
    if (st != GR_OK) {
        gr_error e;

        gr_error_take(&e, st);
        shm_abort(&s->pg, e.text);
        shm_destroy(&s->pg);
        return gr_error_raise(&e);
    }
    shm_segment_hide(&w->control); /* all have mapped it */
    *out = &s->pg;
    return GR_OK;
}
