/*
 * Files of a folder that several processes build together, each once. Who builds one holds a claim
 * on it: a file beside it that says who, that is locked, and in which a count goes up while its
 * builder lives. The part itself is written under a name of its builder's and renamed when it is
 * whole, so a builder that is killed leaves no half file; its claim is taken over by whoever sees
 * that it is dead:
 *
 *     at once          where the file system has the claim's lock and the builder was on this host
 *     after 5 s        where the lock is free and the count stands still
 *     after 60 s       where only the count can tell: no locks, or none between hosts
 *
 * A builder that is alive and could not count for so long is outrun, which costs time and no more:
 * each writes under a name of its own. No clock of another host is looked at, and nobody waits
 * for less than a builder needs.
 */
#ifndef GR_TRAIN_SHARE_H
#define GR_TRAIN_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_CLAIMS_FOLDER ".building" /* of claims and of what is being written, in the cache's */

/* What a waiter has seen of a claim. All 0 at first. */
typedef struct gr_claim_watch {
    uint64_t seen;    /* of its text */
    int64_t since_ns; /* 0: never seen */
} gr_claim_watch;

/* A claim that is held, or (fd -1) none. */
typedef struct gr_claim {
    int fd;
    int64_t beats;
    char *path, *aside; /* of the claim, and to build into */
} gr_claim;
#define GR_CLAIM_INIT     \
    {                     \
        -1, 0, NULL, NULL \
    }

/* Claims `name` of the folder, if nobody alive has it: *c is held then. Makes the folder. */
gr_status gr_claim_try(gr_claim *c, const char *folder, const char *name,
                       gr_claim_watch *w) GR_MUST_CHECK;
/* Every second or so, by any thread while nobody ends the claim. */
void gr_claim_beat(gr_claim *c);
/* What was built becomes `path`, and the claim ends; it ends in any case. */
gr_status gr_claim_keep(gr_claim *c, const char *path) GR_MUST_CHECK;
/* Ends the claim and removes what was built; nothing for one that is not held. */
void gr_claim_drop(gr_claim *c);

#ifdef __cplusplus
}
#endif

#endif
