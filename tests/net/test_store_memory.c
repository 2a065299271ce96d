/* Every allocation of the store fails once: no leak, no lost failure. */
#include "alloc_fail.h"
#include "net/store_hub.h"
#include "net/store_server.h"

/* A set, a wait that another session ends, a queue, an append. */
static gr_status talk(gr_store_session *a, gr_store_session *b)
{
    static const uint8_t hello[] = { 0, 0xce, 0xf7, 0x85, 0x3c };
    static const uint8_t wait[] = { 6, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'k' };
    static const uint8_t set[] = {
        1, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 2, 0, 0, 0, 0, 0, 0, 0, 'v', 'w'
    };
    static const uint8_t push[] = { 14, 1, 0, 0, 0, 0, 0, 0, 0, 'q', 1, 0, 0, 0, 0, 0, 0, 0, 'x' };
    static const uint8_t add[] = { 9, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 1, 0, 0, 0, 0, 0, 0, 0, '!' };

    GR_TRY(gr_store_session_feed(a, hello, sizeof(hello)));
    GR_TRY(gr_store_session_feed(b, hello, sizeof(hello)));
    GR_TRY(gr_store_session_feed(a, wait, sizeof(wait)));
    GR_TRY(gr_store_session_feed(b, set, sizeof(set)));
    GR_TRY(gr_store_session_feed(b, push, sizeof(push)));
    return gr_store_session_feed(b, add, sizeof(add));
}

static gr_status use_hub(void *arg)
{
    gr_store_session *a, *b;
    gr_store_hub *hub;
    gr_status st;

    (void)arg;
    GR_TRY(gr_store_hub_create(&hub));
    st = gr_store_session_open(&a, hub);
    if (st == GR_OK)
        st = gr_store_session_open(&b, hub);
    if (st == GR_OK)
        st = talk(a, b);
    gr_store_hub_destroy(hub);
    return st;
}

static gr_status use_server(void *arg)
{
    gr_store_server *server;

    (void)arg;
    GR_TRY(gr_store_server_create(&server, "127.0.0.1", 0));
    gr_store_server_destroy(server);
    return GR_OK;
}

int main(void)
{
    GR_CHECK(gr_alloc_fail_each(use_hub, NULL) > 5);
    GR_CHECK(gr_alloc_fail_each(use_server, NULL) > 2);
    return 0;
}
