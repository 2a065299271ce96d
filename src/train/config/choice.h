/*
 * Lists of words: "none|bf16=bfloat16|fp16=float16". Words after '=' mean the one before.
 * Case does not count, and '-' and '_' are alike.
 */
#ifndef GR_TRAIN_CONFIG_CHOICE_H
#define GR_TRAIN_CONFIG_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of the choice that `word` names; -1: none. */
int gr_choice_find(const char *choices, const char *word);
/* GR_ERR_ARG: 'word' is none of a, b, c. */
gr_status gr_choice_fail(const char *choices, const char *word) GR_MUST_CHECK;
/* The first word of choice `number`. NULL: no memory. */
const char *gr_choice_name(gr_arena *a, const char *choices, int number);
/* "none|bf16|fp16", for help. */
void gr_choice_print(const char *choices, gr_text *out);

/* Names, of any kind: '-' and '_' are alike. */
bool gr_same_name(const char *a, const char *b);
bool gr_same_name_n(const char *a, const char *b, size_t n_b);
/* Equal for names that are the same. */
uint32_t gr_name_hash(const char *name);

#ifdef __cplusplus
}
#endif

#endif
