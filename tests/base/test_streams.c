/* The standard streams: closed ones are filled, and lost text is an error. */
#include "base/streams.h"

#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

/* What is left of descriptors 0 to 2 when those in `closed` are gone: the next file's number. */
static int next_after(const char *closed)
{
    pid_t pid = fork();
    int status;

    GR_CHECK(pid >= 0);
    if (pid == 0) {
        for (; *closed; closed++)
            close(*closed - '0');
        if (gr_streams_open() != GR_OK)
            _exit(99);
        if (write(1, "", 0) != 0 || write(2, "", 0) != 0)
            _exit(98);
        _exit(dup(0));
    }
    GR_CHECK_EQ(waitpid(pid, &status, 0), pid);
    GR_CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(void)
{
    static const char *const closed[] = { "", "0", "1", "2", "01", "12", "012" };
    FILE *full = fopen("/dev/full", "w");

    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
        GR_CHECK(next_after(closed[i]) >= 3 && next_after(closed[i]) < 90);

    GR_CHECK_OK(gr_stream_flush(stdout));
    GR_CHECK(full);
    fputs("text", full);
    GR_CHECK_FAILS(gr_stream_flush(full), GR_ERR_IO, "No space left");
    fclose(full);
    return 0;
}
