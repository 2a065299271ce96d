/* Runs of the toy recipe, for tests that are themselves the program that they test. */
#ifndef GR_TESTS_MULTI_TOY_RUNS_H
#define GR_TESTS_MULTI_TOY_RUNS_H

#include "base/text.h"
#include "multi/job.h"

/* From main(): with words, runs the program and ends; without, goes to a scratch folder. */
void toy_runs_begin(int argc, char **argv);

/* Words separated by single spaces, after those that start n ranks; n 0: no gradrun. */
void toy_begin(job *j, int n_ranks, const char *line);
/* To its end. The exit code must be 0; or another, and the output has `why` in it. */
void toy_run(int n_ranks, const char *line);
void toy_refuse(int n_ranks, const char *line, const char *why);
/* To its end, for who looks at what it said. Ended with job_fini(). */
job toy_output(int n_ranks, const char *line);

#endif
