/* A plot of curves as a PNG file: axes with numbers, a grid, a legend. Any thread. */
#ifndef GR_TRACK_PLOT_H
#define GR_TRACK_PLOT_H

#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_series {
    const char *name;
    const double *x, *y; /* n each; points that are not finite interrupt the line */
    int n;
} gr_series;

typedef struct gr_plot {
    const char *title, *x_label; /* NULL: none */
    const gr_series *series;
    int n_series;
    bool log_y; /* points that are not above 0 are left out */
    int width, height;
} gr_plot;

/* Appends the file's bytes. Sides are 200 to 8192 pixels; without any point the axes are empty. */
gr_status gr_plot_png(const gr_plot *p, gr_text *out) GR_MUST_CHECK;
/* Into a file that is old or new, never half. */
gr_status gr_plot_write(const gr_plot *p, const char *path) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
