/*
 * What the trackers share: a run's parameters, and strings as the records want them. Readers
 * refuse a whole record for one byte that is no UTF-8, and paths or names may hold any byte.
 */
#ifndef GR_TRACK_VALUE_H
#define GR_TRACK_VALUE_H

#include <stddef.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_param_kind { GR_PARAM_NUMBER, GR_PARAM_TEXT, GR_PARAM_BOOL } gr_param_kind;

/* A setting of the run: learning rate, model, amp. The strings are borrowed. */
typedef struct gr_param {
    const char *name;
    gr_param_kind kind;
    double number;    /* of a number; a bool is 0 or not 0 */
    const char *text; /* of a text */
} gr_param;

/* Appends `s` with every byte that is no UTF-8 replaced by '?'. */
void gr_utf8_add(gr_text *out, const char *s);
/* `s` as a JSON string in quotes; a number as JSON, NaN and infinities as W&B spells them:
 * strings "NaN", "Infinity", "-Infinity". */
void gr_json_add_string(gr_text *out, const char *s);
void gr_json_add_number(gr_text *out, double value);
void gr_json_add_param(gr_text *out, const gr_param *p);

/* Seconds since 1970. */
double gr_wall_time(void);
/* This machine's name, "localhost" when it has none. */
void gr_host_name(char *out, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif
