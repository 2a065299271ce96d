/* The cases of conv through the driver; test_ops.c has the other families. */
#include "op/driver.h"
#include "op/families.h"

int main(void)
{
    driver_run_family(&driver_conv, NULL);
    return 0;
}
