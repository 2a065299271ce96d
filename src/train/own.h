/* Whose run a folder is: this user's, begun here, or that of somebody else. Any thread. */
#ifndef GR_TRAIN_OWN_H
#define GR_TRAIN_OWN_H

#include <stdbool.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_CKPT_FOLDER "checkpoints" /* in the folder of a run */
#define GR_HOME_FILE   "home"        /* in it too, as is this: */
#define GR_LAUNCH_FILE "launch"      /* the name of the launch that began the run */

/* A run begins in the folder: it is this user's own from here on. */
gr_status gr_run_settle(const char *folder) GR_MUST_CHECK;
bool gr_run_is_own(const char *folder);
/* inside.c: GR_ERR_IO when a name that a run uses leads out of its folder, or to no file. */
gr_status gr_run_check_inside(const char *run) GR_MUST_CHECK;
/* Whether the file is the record (config.yaml) of a run that is not one's own. */
bool gr_config_is_foreign(const char *path);

#ifdef __cplusplus
}
#endif

#endif
