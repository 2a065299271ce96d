/* The driver's cases of the toy operator, with fusions of every kind. */
#ifndef GR_TESTS_TOY_CASES_H
#define GR_TESTS_TOY_CASES_H

#include "op/driver.h"

extern const driver_family driver_toy;

#endif
