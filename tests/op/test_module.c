/* Loading modules: what is said when there is none, and when a file is no module. */
#include "check.h"
#include "op/module.h"

#include <unistd.h>

int main(void)
{
    const gr_module *m;
    char folder[4096];
    FILE *f;

    GR_CHECK(getcwd(folder, sizeof(folder)));
    setenv("GR_MODULE_PATH", folder, 1);
    GR_CHECK_FAILS(gr_module_load("nonsense", &m), GR_ERR_DEVICE, "module 'nonsense'");
    GR_CHECK(strstr(gr_error_message(), "libgradus-nonsense.so") && !m);
    GR_CHECK(strstr(gr_error_message(), folder)); /* what was tried is listed */

    f = fopen("libgradus-broken.so", "w");
    GR_CHECK(f && fputs("no ELF file", f) >= 0 && fclose(f) == 0);
    GR_CHECK_FAILS(gr_module_load("broken", &m), GR_ERR_DEVICE, "module 'broken'");
    GR_CHECK(strstr(gr_error_message(), "file too short") ||
             strstr(gr_error_message(), "invalid ELF header"));
    GR_CHECK(unlink("libgradus-broken.so") == 0);
    return 0;
}
