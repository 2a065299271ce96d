/* The command `gradus pack`: a data set of any format becomes shards. */
#ifndef GR_TRAIN_PACK_H
#define GR_TRAIN_PACK_H

#include "base/text.h"
#include "train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `pack FROM OUT [--shard-size N] [--resize S] ...`: writes the shards and one line about them to
 * c->out. One process; not collective. */
gr_status gr_pack_command(const gr_command *c) GR_MUST_CHECK;
void gr_pack_help(gr_text *out);

#ifdef __cplusplus
}
#endif

#endif
