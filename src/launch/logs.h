/*
 * Files of a job, in torchrun's layout:
 *     <log dir>/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}
 */
#ifndef GR_LAUNCH_LOGS_H
#define GR_LAUNCH_LOGS_H

#include "launch/config.h"

typedef struct gr_logs gr_logs;

/* Without a log dir a temporary one, which is removed at the end unless output goes into it;
 * with "/dev/null" there are no files at all. */
gr_status gr_logs_create(gr_logs **out, const gr_launch_config *c) GR_MUST_CHECK;
/* Folders for another attempt. */
gr_status gr_logs_begin(gr_logs *l, int attempt) GR_MUST_CHECK;
/* "<...>/attempt_<n>/<local rank>/<name>"; without a rank for -1; "" when there are no files. */
void gr_logs_path(const gr_logs *l, int local_rank, const char *name, gr_text *out);
/* Opens such a file for appending. */
gr_status gr_logs_open(const gr_logs *l, int local_rank, const char *name, int *fd) GR_MUST_CHECK;
void gr_logs_destroy(gr_logs *l); /* NULL is fine */

#endif
