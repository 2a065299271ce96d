/* What this program is made of. */
#ifndef GR_TRAIN_VERSION_H
#define GR_TRAIN_VERSION_H

#include "train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "gradus 0.1.0", then a line for every library: its version, or that it is absent and what
 * that means. Modules are loaded for it. */
void gr_version_print(const gr_command *c, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif
