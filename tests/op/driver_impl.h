/* What the parts of the driver share among themselves. */
#ifndef GR_TESTS_OP_DRIVER_IMPL_H
#define GR_TESTS_OP_DRIVER_IMPL_H

#include "check.h"
#include "op/driver.h"

/* Random data of a source; the same for the same seed. */
void driver_fill(const driver_src *s, gr_dtype t, uint64_t seed, bool special, void *mem);

/* Ends the process with "case 'x', as bf16: ..." */
__attribute__((noreturn)) void driver_die(const driver_world *w, const char *fmt, ...)
    GR_PRINTF(2, 3);
/* Runs it. With GR_DRIVER_ALL in the environment a case that fails does not end the program: false,
 * and its memory is lost. For machines on which time is short: all failures in one run. */
bool driver_survives(void (*run)(void *arg), void *arg);

/* How results are compared: what was run and against what, for messages. */
typedef struct driver_compare {
    const driver_world *w;
    const char *kernel;  /* that made `got` */
    const char *against; /* "reference", "PyTorch" */
    const char *what;    /* "out0", "dsrc1" */
    bool exact;
    bool is_reference; /* compared to another kernel's results */
    int64_t n_reduced;
} driver_compare;

/* Ends the process at the first element that is too far off. */
void driver_compare_all(const driver_compare *k, const gr_value *v, const void *got,
                        const void *want);

/* Terms that are summed into one element of a source's gradient, at most. */
int64_t driver_grad_length(const driver_world *w, int source);

void driver_check_grad(const driver_case *c);
void driver_check_golden(const driver_golden *d, const driver_case *c, const driver_target *t);

#endif
