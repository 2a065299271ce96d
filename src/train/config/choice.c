/* Lists of words, and names: finding and comparing. */
#include "train/config/choice.h"

#include "base/option.h"

#include <ctype.h>
#include <string.h>

#define MAX_OFFERED 32

bool gr_same_name_n(const char *a, const char *b, size_t n_b)
{
    for (size_t i = 0; i < n_b; i++)
        if (!a[i] || (a[i] == '-' ? '_' : a[i]) != (b[i] == '-' ? '_' : b[i]))
            return false;
    return a[n_b] == '\0';
}

bool gr_same_name(const char *a, const char *b)
{
    return gr_same_name_n(a, b, strlen(b));
}

uint32_t gr_name_hash(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *name; name++)
        h = (h ^ (unsigned char)(*name == '-' ? '_' : *name)) * 16777619u;
    return h;
}

static int folded(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static bool is_word(const char *word, const char *choice, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!word[i] || folded(word[i]) != folded(choice[i]))
            return false;
    return word[n] == '\0';
}

int gr_choice_find(const char *choices, const char *word)
{
    int number = 0;

    while (*choices) {
        size_t n = strcspn(choices, "|=");

        if (is_word(word, choices, n))
            return number;
        number += choices[n] == '|';
        choices += n + (choices[n] != '\0');
    }
    return -1;
}

static const char *skip_choices(const char *choices, int number)
{
    for (; number > 0 && *choices; number--) {
        choices += strcspn(choices, "|");
        choices += *choices == '|';
    }
    return choices;
}

const char *gr_choice_name(gr_arena *a, const char *choices, int number)
{
    choices = skip_choices(choices, number);
    return gr_arena_printf(a, "%.*s", (int)strcspn(choices, "|="), choices);
}

void gr_choice_print(const char *choices, gr_text *out)
{
    for (const char *at = choices; *at; at = skip_choices(at, 1)) {
        gr_text_add(out, at == choices ? "" : "|");
        gr_text_addn(out, at, strcspn(at, "|="));
    }
}

/* Other words for the same are offered, too; choices beyond the room are not. Returns what lies in
 * `room`, or NULL. */
static const char *nearest_choice(const char *choices, const char *word, char room[512])
{
    const char *names[MAX_OFFERED + 1] = { NULL };
    char *rest = room;

    if (strlen(choices) >= 512)
        return NULL;
    memcpy(room, choices, strlen(choices) + 1);
    for (int n = 0; n < MAX_OFFERED && *rest; n++) {
        char *end = rest + strcspn(rest, "|=");

        names[n] = rest;
        rest = *end ? end + 1 : end;
        *end = '\0';
    }
    return gr_nearest(word, names);
}

gr_status gr_choice_fail(const char *choices, const char *word)
{
    gr_text shown = GR_TEXT_INIT;
    char room[512];
    const char *near = nearest_choice(choices, word, room);
    gr_status st;

    gr_choice_print(choices, &shown);
    st = gr_fail(GR_ERR_ARG, "'%.200s' is none of %s%s%s%s", word, gr_text_str(&shown),
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    gr_text_fini(&shown);
    return st;
}
