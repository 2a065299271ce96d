/* The cases of map through the driver; test_ops.c has the other families. */
#include "op/driver.h"
#include "op/families.h"

int main(void)
{
    driver_run_family(&driver_map, NULL);
    return 0;
}
