/*
 * The schedule of a run that is resumed with another length, as plain numbers. All of them count
 * optimiser steps from the run's first sample, as the ranks of the moment count them.
 */
#ifndef GR_TRAIN_RESCHEDULE_H
#define GR_TRAIN_RESCHEDULE_H

#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_lr_on_resume { GR_LR_STRETCH, GR_LR_CONTINUE, GR_LR_RESTART } gr_lr_on_resume;

typedef struct gr_schedule_span {
    int64_t from;   /* where it begins: 0, or where it was restarted */
    int64_t length; /* over which it is planned; a decline ends there, and stays */
    int64_t run;    /* the length of the run that it was planned for */
    double lr;      /* of the latest step; 0: none, or not known */
} gr_schedule_span;

/* What becomes of it when the run, at `place`, goes on with a length of `run`. Without a change of
 * that it is as it was, whatever `how` says. */
gr_schedule_span gr_schedule_resume(const gr_schedule_span *then, gr_lr_on_resume how,
                                    int64_t place, int64_t run);
/* The same in epochs, where an epoch had `before` steps and has `now`. */
gr_schedule_span gr_schedule_rescale(const gr_schedule_span *s, int64_t before, int64_t now);

/* What a checkpoint keeps of it, exact, and back. GR_ERR_FORMAT. */
void gr_schedule_print(const gr_schedule_span *s, gr_text *out);
gr_status gr_schedule_parse(gr_schedule_span *s, const char *text) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
