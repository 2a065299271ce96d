/*
 * The process and its ranks: flags that stand over the launcher's variables, and starting
 * the ranks when nobody has.
 */
#ifndef GR_TRAIN_CONFIG_PROCESS_H
#define GR_TRAIN_CONFIG_PROCESS_H

#include "train/options.h"
#include "train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Writes --world_size, --rank, --local_rank, --master_addr, --master_port and --dist_url into
 * this process's environment, where rank discovery reads them; what a file says only where the
 * environment says nothing. With another place than the launcher's, rank 0 serves the store
 * there. Before any thread. GR_ERR_ARG, with the flag or line: half of what is needed (what is
 * missing is named, with the gradrun line), numbers that cannot be, several ranks with ddp.enabled
 * false, --nproc that differs from the launcher's number, or, where ranks meet at the store of
 * gradrun, --world_size or --rank that differs from what it said.
 */
gr_status gr_train_options_process(const gr_train_options *o) GR_MUST_CHECK;

/*
 * With --nproc (--gpus) and without a launcher, and with no --rank or other --world_size beside
 * it: becomes `gradrun --nproc-per-node N gradus
 * COMMAND words`, with the gradrun beside this program, else the one on PATH. Does not return
 * then. GR_OK: there is nothing to start.
 */
gr_status gr_process_relaunch(const gr_command *c, const char *name) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
