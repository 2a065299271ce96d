/* The progress line. A live one is cut to the terminal's width: a wrapped line could not
 * be drawn over. */
#include "track/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/nan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>

#define REDRAW_NS 100000000

void gr_progress_time(double s, gr_text *out)
{
    int64_t t;

    if (!(s >= 0) || s > 1e9) {
        gr_text_add(out, "-:--");
        return;
    }
    t = (int64_t)(s + 0.5);
    if (t >= 3600)
        gr_text_addf(out, "%" PRId64 ":%02d:%02d", t / 3600, (int)(t / 60 % 60), (int)(t % 60));
    else
        gr_text_addf(out, "%d:%02d", (int)(t / 60), (int)(t % 60));
}

/* What is neither waiting for data nor exchange is computing; the three add up to 100. */
static void add_shares(const gr_progress_view *v, gr_text *out)
{
    int data = (int)lround(100 * v->data), exchange = (int)lround(100 * v->exchange);
    int compute = 100 - data - exchange;

    gr_text_addf(out, "  data %d%% compute %d%% exchange %d%%", data, compute > 0 ? compute : 0,
                 exchange);
}

void gr_progress_format(const gr_progress_view *v, gr_text *out)
{
    gr_text_addf(out, "epoch %" PRId64 "/%" PRId64 "  step %" PRId64 "/%" PRId64, v->epoch,
                 v->n_epochs, v->step, v->n_steps);
    gr_text_addf(out, "  loss %.4f  lr %.1e", gr_plain_nan(v->loss), v->lr);
    if (v->samples_per_s > 0)
        gr_text_addf(out, "  %.0f samples/s", v->samples_per_s);
    gr_text_add(out, "  ETA ");
    gr_progress_time(v->left_s, out);
    if (v->samples_per_s > 0)
        add_shares(v, out);
    if (v->n_skipped > 0)
        gr_text_addf(out, "  skipped %" PRId64, v->n_skipped);
    if (v->scale > 0)
        gr_text_addf(out, "  scale %g", v->scale);
}

void gr_progress_init(gr_progress *p, FILE *out, bool live)
{
    *p = (gr_progress){ .out = out, .live = live, .drawn_at_ns = gr_now_ns() - REDRAW_NS };
}

bool gr_progress_due(const gr_progress *p)
{
    return p->live && gr_now_ns() - p->drawn_at_ns >= REDRAW_NS;
}

static int terminal_width(FILE *out)
{
    struct winsize size = { 0 };

    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

void gr_progress_flush(gr_progress *p)
{
    int error = fflush(p->out) == 0 ? 0 : errno;

    if (error == 0 || p->broken)
        return;
    p->broken = true;
    if (error != EPIPE)
        gr_log(TRAIN, WARN, "cannot write the run's output: %s; the run goes on without it",
               strerror(error));
}

void gr_progress_show(gr_progress *p, const gr_progress_view *v)
{
    gr_text line = GR_TEXT_INIT;

    gr_progress_format(v, &line);
    if (p->live)
        fprintf(p->out, "\r%.*s\033[K", terminal_width(p->out) - 1, gr_text_str(&line));
    else
        fprintf(p->out, "%s\n", gr_text_str(&line));
    gr_progress_flush(p);
    p->line_open = p->live;
    p->drawn_at_ns = gr_now_ns();
    gr_text_fini(&line);
}

void gr_progress_clear(gr_progress *p)
{
    if (!p->line_open)
        return;
    fputs("\r\033[K", p->out);
    gr_progress_flush(p);
    p->line_open = false;
}
