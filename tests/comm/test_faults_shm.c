/* Shared memory between processes: the grid, then kill and stop. P1 P2 P6 P10. */
#include "comm/faults.h"

int main(void)
{
    for (int n = 2; n <= 4; n++)
        faults_grid("shm", n);
    faults_run("shm", 3);
    faults_run_rows("shm", 3);
    return 0;
}
