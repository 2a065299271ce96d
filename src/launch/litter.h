/*
 * Temporary folders. The front and the agent remove theirs, whichever of them is left; a job that
 * is killed with all its processes (the end of a container, a machine out of memory) removes
 * nothing, and the next one of the same user does.
 *
 * A folder of a job that is there is locked; the lock goes with its last process. One without the
 * file `temporary` is somebody's to keep.
 */
#ifndef GR_LAUNCH_LITTER_H
#define GR_LAUNCH_LITTER_H

/* Locks the folder and marks it; returns the lock's file, which is kept open. -1: where there are
 * no locks (some network file systems) the folder has no mark and nobody else removes it. */
int gr_litter_mark(const char *folder);
/* Removes what is marked below `place`, is this user's and is not locked. */
void gr_litter_sweep(const char *place);
/* A folder and all that is in it. */
void gr_litter_remove(const char *folder);

#endif
