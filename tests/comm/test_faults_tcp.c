/* TCP, and pretended hosts, between processes: the grid, then kill and stop. P1 P2 P6 P10. */
#include "comm/faults.h"

int main(void)
{
    for (int n = 2; n <= 4; n++)
        faults_grid("tcp", n);
    faults_grid("hosts:2", 4);
    faults_run("tcp", 3);
    faults_run("hosts:2", 3);
    return 0;
}
