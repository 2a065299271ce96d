/* Ports for tests that must name one before somebody listens there. */
#ifndef GR_TESTS_NET_QUIET_PORT_H
#define GR_TESTS_NET_QUIET_PORT_H

/* One that is free now, outside of the range that systems give away by themselves: no connection
 * of another program is put there meanwhile. Drawn at random: tests at the same time seldom meet.
 */
int quiet_port(void);

#endif
