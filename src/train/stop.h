/*
 * A request to stop. The first SIGINT, SIGTERM, SIGHUP or SIGUSR1 is only noted: the loop ends
 * after its step and saves. What follows within 3 s is the same request come twice; a later one
 * ends the process at once, as without us. A SIGHUP that was ignored (nohup) stays so. One user at
 * a time.
 */
#ifndef GR_TRAIN_STOP_H
#define GR_TRAIN_STOP_H

#ifdef __cplusplus
extern "C" {
#endif

void gr_stop_watch(void);
/* The number of the signal that came, 0 for none. */
int gr_stop_signal(void);
/* Signals do again what they did before gr_stop_watch(); nothing without it. */
void gr_stop_unwatch(void);

#ifdef __cplusplus
}
#endif

#endif
