/*
 * A request to stop. The first SIGINT, SIGTERM, SIGHUP or SIGUSR1 is only noted: the loop ends
 * after its step and saves. A later one ends the process at once, as without us; what follows
 * within a second under a launcher, or 0.1 s without one, is the same request come twice. A SIGHUP
 * that was ignored (nohup) stays so. One user at a time.
 */
#ifndef GR_TRAIN_STOP_H
#define GR_TRAIN_STOP_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

void gr_stop_watch(bool has_launcher);
/* The number of the signal that came, 0 for none. */
int gr_stop_signal(void);
/* Signals do again what they did before gr_stop_watch(); nothing without it. */
void gr_stop_unwatch(void);

#ifdef __cplusplus
}
#endif

#endif
