/*
 * A folder for the files of a test. CTest starts each test in a folder of its own, but who runs
 * one by hand stands anywhere, usually in the source tree.
 */
#ifndef GR_TESTS_SCRATCH_H
#define GR_TESTS_SCRATCH_H

/*
 * Makes a folder in $TMPDIR (or /tmp) the current one. It goes when the process that called this
 * ends with 0 (or 77, for skipped), and stays to be looked at, with its name on stderr, when a
 * check fails. Once per process, before threads; paths of the command line are to be opened before.
 */
void gr_test_scratch(void);

#endif
