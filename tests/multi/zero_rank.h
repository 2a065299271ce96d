/* A rank of test_zero.c; apart from it because both sides have jobs of their own. */
#ifndef GR_TESTS_MULTI_ZERO_RANK_H
#define GR_TESTS_MULTI_ZERO_RANK_H

/* Trains with whole state, with state cut up, and from one to the other; the exit code. */
int zero_rank(void);

#endif
