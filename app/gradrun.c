/* gradrun: starts a program once per device or core, on one host or many, and watches it. */
#include "base/shown.h"
#include "base/streams.h"
#include "launch/launch.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    gr_launch_result result = { 0, GR_TEXT_INIT };
    gr_text out = GR_TEXT_INIT;
    gr_status st = gr_streams_open();

    if (st == GR_OK)
        st = gr_launch_program(false, argc, argv, &out, &result);
    if (st == GR_OK && out.len > 0) {
        fputs(gr_text_str(&out), stdout);
        st = gr_stream_flush(stdout);
    }
    if (st != GR_OK) {
        fprintf(stderr, "gradrun: %s: %s\n", gr_status_text(st), gr_error_message());
        result.exit_code = st == GR_ERR_ARG ? 2 : 1;
    } else if (result.report.len > 0) {
        gr_shown_printf(stderr, GR_SHOWN_LINES, "gradrun: %s", gr_text_str(&result.report));
    }
    gr_text_fini(&result.report);
    gr_text_fini(&out);
    return result.exit_code;
}
