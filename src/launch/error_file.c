/*
 * {"message": {"message": "RuntimeError: ...", "extraInfo": {"py_callstack": "...",
 *              "timestamp": "..."}}}, or with a plain text as the outer message.
 */
#include "launch/error_file.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MAX_BYTES ((off_t)1 << 20)
#define MAX_TEXT  4000 /* of a message or a call stack in the report */

/* Long texts keep their end, where Python says what it was. */
static void add_text(gr_text *out, const char *text)
{
    size_t len = strlen(text);

    if (len > MAX_TEXT) {
        gr_text_add(out, "... ");
        text += len - MAX_TEXT;
        len = MAX_TEXT;
    }
    while (len > 0 && text[len - 1] == '\n')
        len--;
    gr_text_addn(out, text, len);
}

bool gr_error_file_parse(const char *json, size_t n_bytes, gr_text *out)
{
    json_t *root = json_loadb(json, n_bytes, 0, NULL);
    const json_t *outer = json_object_get(root, "message");
    const json_t *inner = json_is_object(outer) ? json_object_get(outer, "message") : outer;
    const json_t *stack = json_object_get(json_object_get(outer, "extraInfo"), "py_callstack");
    bool found = json_is_string(inner);

    if (found) {
        const char *text = json_string_value(inner), *trace = json_string_value(stack);

        /* The stack of PyTorch's own handler ends with the message. */
        if (trace && strstr(trace, text)) {
            add_text(out, trace);
        } else {
            add_text(out, text);
            if (trace) {
                gr_text_add(out, "\n");
                add_text(out, trace);
            }
        }
    }
    json_decref(root);
    return found;
}

bool gr_error_file_read(const char *path, gr_text *out)
{
    struct stat about;
    char *json;
    size_t n;
    bool found;

    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > MAX_BYTES ||
        gr_file_read(path, &json, &n) != GR_OK)
        return false;
    found = gr_error_file_parse(json, n, out);
    gr_free(json);
    return found;
}

void gr_error_file_leave(const char *text)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    char now[32];
    gr_outfile *file;
    json_t *root;
    char *json;

    if (!path || !*path)
        return;
    snprintf(now, sizeof(now), "%lld", (long long)time(NULL));
    root = json_pack("{s:{s:s, s:{s:s, s:s}}}", "message", "message", text, "extraInfo",
                     "py_callstack", text, "timestamp", now);
    json = root ? json_dumps(root, 0) : NULL; /* none where the text is no UTF-8 */
    json_decref(root);
    if (json && gr_outfile_open(&file, path) == GR_OK) {
        gr_outfile_write(file, json, strlen(json));
        GR_IGNORE(gr_outfile_commit(file)); /* told on stderr */
    }
    free(json);
}
