/* Groups over wires whose ranks are threads of one process: for tests, and to try things. */
#include "base/alloc.h"
#include "comm/create.h"
#include "comm/tcp/tcp.h"

#include <pthread.h>
#include <string.h>

typedef struct member {
    pthread_t thread;
    gr_meet meet;
    gr_meet_room *room;
    const gr_wired_kind *kind;
    const gr_pg_config *config;
    gr_pg *pg;
    gr_error error;
} member;

static void *join(void *arg)
{
    member *m = (member *)arg;
    gr_status st = gr_wired_create(&m->pg, m->kind, &m->meet, m->config, m->meet.rank);

    if (st != GR_OK)
        gr_meet_room_give_up(m->room);
    gr_error_take(&m->error, st);
    return NULL;
}

static gr_status start(member *m, int n, gr_meet_room *room, const gr_pg_config *config)
{
    bool is_hosts = strncmp(config->transport, "hosts", 5) == 0;
    int n_started = 0;
    gr_status st = GR_OK;

    for (int r = 0; r < n && st == GR_OK; r++) {
        m[r].kind = is_hosts ? &gr_wired_hosts : &gr_wired_tcp;
        m[r].config = config;
        m[r].room = room;
        m[r].meet.deadline = gr_deadline_in_ms(config->timeout_ms);
        gr_meet_in_room(&m[r].meet, room, r);
        if (pthread_create(&m[r].thread, NULL, join, &m[r]) != 0)
            st = gr_fail(GR_ERR_NOMEM, "no thread for rank %d", r);
        n_started += st == GR_OK;
    }
    if (st != GR_OK)
        gr_meet_room_give_up(room);
    for (int r = 0; r < n_started; r++)
        pthread_join(m[r].thread, NULL);
    return st;
}

gr_status gr_wired_create_threads(gr_pg **out, int n, const gr_pg_config *config)
{
    member *m = (member *)gr_calloc((size_t)n, sizeof(*m));
    gr_meet_room *room = NULL;
    gr_status st = m ? gr_meet_room_create(&room, n) : GR_ERR_NOMEM;

    if (st == GR_OK)
        st = start(m, n, room, config);
    for (int r = 0; r < n && st == GR_OK; r++)
        if (m[r].error.status != GR_OK)
            st = gr_error_raise(&m[r].error);
    for (int r = 0; r < n && m; r++) {
        out[r] = m[r].pg;
        if (st != GR_OK) {
            gr_pg_destroy(m[r].pg);
            out[r] = NULL;
        }
    }
    gr_meet_room_destroy(room);
    gr_free(m);
    return st;
}
