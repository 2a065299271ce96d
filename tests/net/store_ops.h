/* Every call of the store's client, with what it must give: against our server, and against
 * PyTorch's in tests/interop. */
#ifndef GR_TESTS_NET_STORE_OPS_H
#define GR_TESTS_NET_STORE_OPS_H

/* Ends the process when something is wrong. The store must be a new one. */
void store_ops_check(const char *host, int port);

#endif
