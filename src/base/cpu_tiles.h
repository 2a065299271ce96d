/* Whether AMX works here: asked and tried. For cpu.c, which calls it once. */
#ifndef GR_BASE_CPU_TILES_H
#define GR_BASE_CPU_TILES_H

#include <stdbool.h>

/* Requests the tile registers for this process and multiplies two tiles. False when any
 * step fails; never a fault. Not by two threads at once: SIGILL is caught meanwhile. */
bool gr_cpu_try_tiles(void);

#endif
