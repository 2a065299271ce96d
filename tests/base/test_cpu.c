/* GR_CPU caps the instruction sets. It is read once, so each value is tried by a child. */
#include "base/cpu.h"
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

/* The child's answer: 0 scalar, 1 AVX2, 2 AVX-512, 3 AVX512_BF16, 4 AMX. */
static int level_with(const char *word)
{
    pid_t pid = fork();
    int status;

    GR_CHECK(pid >= 0);
    if (pid == 0) {
        if (word)
            setenv("GR_CPU", word, 1);
        else
            unsetenv("GR_CPU");
        _exit(gr_cpu_has_avx2() + gr_cpu_has_avx512() + gr_cpu_has_avx512_bf16() +
              gr_cpu_has_amx());
    }
    GR_CHECK_EQ(waitpid(pid, &status, 0), pid);
    GR_CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(void)
{
    int best = level_with(NULL);

    GR_CHECK_EQ(level_with(""), best);
    GR_CHECK_EQ(level_with("amx"), best);
    GR_CHECK_EQ(level_with("avx512_bf16"), best < 3 ? best : 3);
    GR_CHECK_EQ(level_with("avx512"), best < 2 ? best : 2);
    GR_CHECK_EQ(level_with("avx2"), best < 1 ? best : 1);
    GR_CHECK_EQ(level_with("scalar"), 0);
    GR_CHECK_EQ(level_with("abacus"), 0);
    GR_CHECK(gr_cpu_count() >= 1);
    return 0;
}
