/* Ranks as processes, in the middle of calls: one is killed, one is stopped. */
#ifndef GR_TESTS_COMM_FAULTS_H
#define GR_TESTS_COMM_FAULTS_H

/* For every kind of call: kills each rank in turn (the others must fail within a second or
 * so and name it), then stops each (the others must fail at the deadline and name it). */
void faults_run(const char *transport, int n_ranks);
/* Kill and stop in sums and in sends that are longer than the system's buffers. */
void faults_run_long(const char *transport, int n_ranks);
/* The same in reductions in the exchange space, and in the calls that hand long blocks around. */
void faults_run_started(const char *transport, int n_ranks);
/* The same where ranks take pieces of each other's rows. */
void faults_run_rows(const char *transport, int n_ranks);
/* The whole grid of calls, ranks as processes. */
void faults_grid(const char *transport, int n_ranks);

#endif
