/*
 * What the toy recipe prepares and keeps: a cache of numbered parts and an index of them, which
 * open() must find whole; and state that a training settles and its checkpoints hand back.
 */
#include "train/toy_keep.h"

#include "gradus/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the cache ---- */

enum { N_VALUES = 1000, NAME = 32 };

typedef struct job {
    const char *folder;
    int64_t n_parts, ms, broken;
    char (*text)[NAME];
    const char **names;
} job;

static void end(void *arg)
{
    job *j = arg;

    free(j->text);
    free(j->names);
    free(j);
}

static gr_status begin(void **out, const gr_recipe_config *config, gr_prepared *plan)
{
    const gr_settings *s = config->settings;
    job *j = calloc(1, sizeof(*j));
    size_t n;

    *plan = (gr_prepared){ 0 };
    if (!j)
        return gr_fail(GR_ERR_NOMEM, "no memory for the cache");
    j->folder = gr_settings_text(s, "toy.cache");
    j->n_parts = j->folder ? gr_settings_int(s, "toy.parts") : 0;
    j->ms = gr_settings_int(s, "toy.part_ms");
    j->broken = gr_settings_int(s, "toy.broken_part");
    n = (size_t)j->n_parts;
    j->text = calloc(n + 1, sizeof(*j->text));
    j->names = calloc(n + 1, sizeof(*j->names));
    if (!j->text || !j->names) {
        end(j);
        return gr_fail(GR_ERR_NOMEM, "no memory for the cache");
    }
    for (size_t i = 0; i <= n; i++) {
        snprintf(j->text[i], NAME, i < n ? "part%zu.bin" : "index.bin", i);
        j->names[i] = j->text[i];
    }
    if (j->folder)
        *plan = (gr_prepared){
            .folder = j->folder, .names = j->names, .n_parts = j->n_parts + 1, .n_last = 1
        };
    *out = j;
    return GR_OK;
}

/* Who built what, a line each. */
static void note(const job *j, int64_t part)
{
    char path[4200];
    FILE *f;

    snprintf(path, sizeof(path), "%s/built.%ld", j->folder, (long)getpid());
    f = fopen(path, "ae");
    if (f) {
        fprintf(f, "%" PRId64 "\n", part);
        fclose(f);
    }
}

static gr_status write_part(const job *j, int64_t part, FILE *f)
{
    for (int64_t i = 0; i < N_VALUES; i++) {
        int64_t value = part * N_VALUES + i;

        if (fwrite(&value, sizeof(value), 1, f) != 1)
            return gr_fail(GR_ERR_IO, "part %" PRId64 " cannot be written", part);
        if (i == N_VALUES / 2) { /* half of it is on the disk for as long as this */
            fflush(f);
            usleep((useconds_t)j->ms * 1000);
        }
    }
    return GR_OK;
}

static gr_status build(void *arg, int64_t part, const char *path)
{
    const job *j = arg;
    FILE *f;
    gr_status st;

    if (part == j->broken)
        return gr_fail(GR_ERR_FORMAT, "the source of part %" PRId64 " is broken", part);
    for (int64_t i = 0; part == j->n_parts && i < j->n_parts; i++) {
        char other[4200];

        snprintf(other, sizeof(other), "%s/%s", j->folder, j->names[i]);
        if (access(other, R_OK) != 0)
            return gr_fail(GR_ERR_IO, "the index comes before '%s'", other);
    }
    f = fopen(path, "we");
    if (!f)
        return gr_fail(GR_ERR_IO, "'%s' cannot be written", path);
    st = write_part(j, part, f);
    if (fclose(f) != 0 && st == GR_OK)
        st = gr_fail(GR_ERR_IO, "'%s' cannot be written", path);
    note(j, part);
    return st;
}

/* A part says itself which it is; a changed one is built again. */
static bool is_current(const void *arg, int64_t part, const char *path)
{
    int64_t first = -1;
    FILE *f = fopen(path, "re");

    (void)arg;
    if (f && fread(&first, sizeof(first), 1, f) != 1)
        first = -1;
    if (f)
        fclose(f);
    return first == part * N_VALUES;
}

const gr_preparation toy_preparation = { begin, end, build, is_current };

gr_status toy_check_cache(const gr_recipe_config *config)
{
    const char *folder = gr_settings_text(config->settings, "toy.cache");
    int64_t n = folder ? gr_settings_int(config->settings, "toy.parts") : -1;

    for (int64_t i = 0; i <= n; i++) {
        char path[4200];
        FILE *f;
        long size = -1;

        snprintf(path, sizeof(path), i < n ? "%s/part%" PRId64 ".bin" : "%s/index.bin", folder, i);
        f = fopen(path, "re");
        if (f && fseek(f, 0, SEEK_END) == 0)
            size = ftell(f);
        if (f)
            fclose(f);
        if (size != N_VALUES * (long)sizeof(int64_t))
            return gr_fail(GR_ERR_FORMAT, "'%s' has %ld bytes when the data are opened", path,
                           size);
    }
    return GR_OK;
}

/* ---- state ---- */

gr_status toy_open_state(toy_state *s, const gr_recipe_config *config)
{
    const gr_named *means = config->state ? gr_snapshot_find(config->state, "means") : NULL;
    const char *word = config->state ? gr_snapshot_get(config->state, "word") : NULL;
    const char *given = gr_settings_text(config->settings, "toy.word");

    *s = (toy_state){ 0 };
    if (!given)
        return GR_OK;
    if (config->state && (!means || !word || means->dtype != GR_F64 || means->shape.n_dims != 1))
        return gr_fail(GR_ERR_FORMAT, "the checkpoint has not all of this recipe's state");
    if (!config->state && config->task != GR_TASK_TRAIN)
        return gr_fail(GR_ERR_ARG, "there is no state of a training");
    if (means)
        memcpy(s->means, means->mem, sizeof(s->means));
    else
        for (int i = 0; i < TOY_MEANS; i++)
            s->means[i] = (double)config->seed + i * 0.25;
    snprintf(s->word, sizeof(s->word), "%s", word ? word : given);
    if (gr_settings_bool(config->settings, "toy.differs"))
        s->means[1] += (double)getpid();
    return GR_OK;
}

gr_status toy_save_state(const toy_state *s, gr_snapshot *into)
{
    gr_shape shape = { 1, { TOY_MEANS } };
    void *mem;

    if (!s->word[0])
        return GR_OK;
    GR_TRY(gr_snapshot_add(into, "means", GR_F64, shape, &mem));
    memcpy(mem, s->means, sizeof(s->means));
    return gr_snapshot_set(into, "word", s->word);
}
