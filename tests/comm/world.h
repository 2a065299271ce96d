/* Ranks as threads: runs one function per rank and hands back what each returned. */
#ifndef GR_TESTS_COMM_WORLD_H
#define GR_TESTS_COMM_WORLD_H

#include "base/status.h"
#include "gradus/comm.h"

#define WORLD_MAX 16

/* What later worlds are joined by; "shm" at first. */
void world_transport(const char *name);

typedef gr_status world_fn(gr_pg *pg, void *arg);

/* Every rank must return GR_OK; else prints who did not and ends the test. */
void world_run(int n_ranks, world_fn *fn, void *arg);
/* Keeps the outcome of each rank in e[0..n_ranks-1] instead. */
void world_try(int n_ranks, int timeout_ms, world_fn *fn, void *arg, gr_error *e);

/* Threads of this process, all ranks together, that have this name. */
int world_threads(const char *name);

#endif
