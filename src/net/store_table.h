/* The store's contents: keys with values, queues and barriers. One thread. */
#ifndef GR_NET_STORE_TABLE_H
#define GR_NET_STORE_TABLE_H

#include "net/store_wire.h"

typedef struct gr_store_table gr_store_table;

gr_status gr_store_table_create(gr_store_table **out) GR_MUST_CHECK;
void gr_store_table_destroy(gr_store_table *t);

/* A span from these points into the table and is good until the next change. */
gr_status gr_store_table_set(gr_store_table *t, gr_span key, gr_span value) GR_MUST_CHECK;
gr_status gr_store_table_append(gr_store_table *t, gr_span key, gr_span value) GR_MUST_CHECK;
gr_span gr_store_table_get(const gr_store_table *t, gr_span key); /* empty when missing */
/* A missing key takes `desired` if `expected` is empty, and else gives `expected` back. */
gr_status gr_store_table_compare_set(gr_store_table *t, gr_span key, gr_span expected,
                                     gr_span desired, gr_span *now) GR_MUST_CHECK;
/* Values of counters are decimal text; GR_ERR_FORMAT when it is none. */
gr_status gr_store_table_add(gr_store_table *t, gr_span key, int64_t by,
                             int64_t *now) GR_MUST_CHECK;
bool gr_store_table_delete(gr_store_table *t, gr_span key);
int64_t gr_store_table_count(const gr_store_table *t); /* plain keys */
/* Calls fn for every plain key, in no particular order. */
void gr_store_table_each(const gr_store_table *t, void (*fn)(void *arg, gr_span key), void *arg);

/* True for a plain key and for a queue that is not empty. */
bool gr_store_table_has(const gr_store_table *t, gr_span key);

gr_status gr_store_table_push(gr_store_table *t, gr_span key, gr_span value) GR_MUST_CHECK;
int64_t gr_store_table_queued(const gr_store_table *t, gr_span key);
gr_span gr_store_table_front(const gr_store_table *t, gr_span key);
void gr_store_table_pop(gr_store_table *t, gr_span key);

/* Counts one arrival at a barrier; *n says how many have come. */
gr_status gr_store_table_arrive(gr_store_table *t, gr_span key, int64_t *n) GR_MUST_CHECK;

#endif
