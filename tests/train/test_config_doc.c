/*
 * docs/config.md says what the table says: everything from "## All settings" on is made from it.
 *
 *     test_train_config_doc FILE    writes that part anew
 */
#include "train/options.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"

#define MARK "## All settings\n\n"

int main(int argc, char **argv)
{
    const char *source = getenv("GR_SOURCE");
    char path[4096];
    char *text = NULL, *mark;
    size_t n = 0;
    gr_text made = GR_TEXT_INIT;
    gr_train_options o;

    snprintf(path, sizeof(path), "%s/docs/config.md", source ? source : ".");
    GR_CHECK_OK(gr_file_read(argc > 1 ? argv[1] : path, &text, &n));
    mark = strstr(text, MARK);
    GR_CHECK(mark);
    GR_CHECK_OK(gr_train_options_init(&o, NULL));
    gr_train_options_markdown(&o, &made);
    GR_CHECK_OK(gr_text_status(&made));
    if (argc > 1) {
        gr_outfile *f;

        GR_CHECK_OK(gr_outfile_open(&f, argv[1]));
        gr_outfile_write(f, text, (size_t)(mark + strlen(MARK) - text));
        gr_outfile_write(f, made.str, made.len);
        GR_CHECK_OK(gr_outfile_commit(f));
    } else if (strcmp(mark + strlen(MARK), gr_text_str(&made)) != 0) {
        fprintf(stderr, "docs/config.md is not what the table says; run %s docs/config.md\n",
                argv[0]);
        return 1;
    }
    gr_train_options_fini(&o);
    gr_text_fini(&made);
    gr_free(text);
    return 0;
}
