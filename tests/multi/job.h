/* Running programs from a test: output and end of a process, with a limit. */
#ifndef GR_TESTS_MULTI_JOB_H
#define GR_TESTS_MULTI_JOB_H

#include "base/text.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct job {
    pid_t pid;
    int fd;         /* its stdout and stderr together */
    gr_text output; /* what has been read of it */
    int exit_code;  /* 128 + signal when killed */
} job;

/* words ends with NULL. env: "NAME=value" words beyond the own environment, or NULL. */
void job_start(job *j, char *const *words, char *const *env);
/* Reads until the text appears; ends the test when it does not within two minutes. */
void job_expect(job *j, const char *part);
/* Reads to the end; ends the test when that takes longer than two minutes. */
void job_finish(job *j);
/* Starts gradrun with n ranks of this program in the given mode. Who is told to end has a minute
 * for it; with `grace_s` that many seconds. */
void job_gradrun(job *j, const char *self, int n_ranks, const char *mode);
void job_gradrun_grace(job *j, const char *self, int n_ranks, const char *mode, int grace_s);
void job_fini(job *j);

/* Ends the test unless the process is gone within a minute. */
void job_check_gone(pid_t pid);
/* The number after `name` in the output: "child 4711". */
pid_t job_number(const job *j, const char *name);

#endif
