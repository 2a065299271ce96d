/* `gradus pack`: words to a gr_pack_config, and what was done in one line. */
#include "train/pack.h"

#include "base/log.h"
#include "base/option.h"
#include "base/shown.h"
#include "gradus/data.h"

#include <inttypes.h>

typedef struct pack_words {
    const char *from, *to;
    const char *format, *split, *labels, *root;
    int64_t shard_size, resize;
    int mask_as, on_bad;
} pack_words;

#define N_OPTIONS 9
#define N_TOLD    10 /* samples that are left out, by name */

enum { ON_BAD_ERROR, ON_BAD_SKIP }; /* as in the option */

static void make_table(pack_words *w, gr_option table[N_OPTIONS])
{
    const gr_option rows[N_OPTIONS] = {
        { "shard-size", GR_OPTION_INT, &w->shard_size, 1, 1e9, NULL, "N", "samples in a file" },
        { "resize", GR_OPTION_INT, &w->resize, 0, 65535, NULL, "S",
          "make the shorter side S pixels if it is longer (0: files as they are)" },
        { "format", GR_OPTION_TEXT, &w->format, 0, 0, NULL, "NAME",
          "folder, images, pairs, drive, list, csv, idx, cifar10, cifar100, npy, shards" },
        { "split", GR_OPTION_TEXT, &w->split, 0, 0, NULL, "PART", "train, valid or test" },
        { "labels", GR_OPTION_TEXT, &w->labels, 0, 0, NULL, "PATH", "masks or labels kept apart" },
        { "root", GR_OPTION_TEXT, &w->root, 0, 0, NULL, "PATH", "what a list's names begin at" },
        { "mask-as", GR_OPTION_CHOICE, &w->mask_as, 0, 0, "labels|gray", "KIND",
          "masks of classes, or of any numbers" },
        { "on_bad_sample", GR_OPTION_CHOICE, &w->on_bad, 0, 0, "error|skip", "error|skip",
          "what a missing or broken file does; skip: it is left out, counted" },
        { 0 },
    };

    for (int i = 0; i < N_OPTIONS; i++)
        table[i] = rows[i];
}

/* Options may stand before, between and after the two paths. */
static gr_status parse(const gr_command *c, pack_words *w)
{
    gr_option table[N_OPTIONS];
    int at = 0;

    make_table(w, table);
    while (at < c->argc) {
        int n_used = 0;

        GR_TRY(gr_option_parse(table, c->argc - at, c->argv + at, &n_used));
        at += n_used;
        if (at == c->argc)
            break;
        if (w->to)
            return gr_fail(GR_ERR_ARG, "pack takes two paths; '%s' is a third", c->argv[at]);
        *(w->from ? &w->to : &w->from) = c->argv[at++];
    }
    if (!w->to)
        return gr_fail(GR_ERR_ARG, "say what to pack and where to: gradus pack FROM OUT");
    return GR_OK;
}

static void left_out(void *arg, int64_t index, const char *name, const char *why)
{
    int *n = arg;

    if (++*n <= N_TOLD)
        gr_log(TRAIN, WARN, "left out: sample %" PRId64 " '%s': %s%s", index, name, why,
               *n == N_TOLD ? "; more are counted and not told" : "");
}

gr_status gr_pack_command(const gr_command *c)
{
    gr_pack_config config = GR_PACK_CONFIG_INIT;
    gr_pack_result result;
    pack_words w = { .shard_size = 10000 };
    int n_told = 0;

    GR_TRY(parse(c, &w));
    config.source.path = w.from;
    config.source.split = w.split;
    config.source.labels = w.labels;
    config.source.root = w.root;
    config.source.mask_as = w.mask_as == 0 ? GR_IMAGE_LABELS : GR_IMAGE_GRAY;
    if (w.format)
        GR_TRY(gr_format_find(w.format, &config.source.format));
    config.out = w.to;
    config.shard_size = w.shard_size;
    config.resize = (int)w.resize;
    config.left_out = w.on_bad == ON_BAD_SKIP ? left_out : NULL;
    config.arg = &n_told;
    GR_TRY(gr_pack(&config, &result));
    gr_shown_printf(c->out, GR_SHOWN_LINES,
                    "packed %" PRId64 " sample%s into %" PRId64 " file%s in '%s': %.1f MB",
                    result.n_samples, gr_plural(result.n_samples), result.n_shards,
                    gr_plural(result.n_shards), w.to, (double)result.n_bytes / 1e6);
    if (config.left_out)
        fprintf(c->out, "; %" PRId64 " left out", result.n_skipped);
    gr_shown_printf(
        c->out, GR_SHOWN_LINES,
        "\nto train on it: gradus train vision --dataset.train_path %s (valid_path, test_path)\n",
        w.to);
    return GR_OK;
}

void gr_pack_help(gr_text *out)
{
    pack_words w = { .shard_size = 10000 };
    gr_option table[N_OPTIONS];

    make_table(&w, table);
    gr_text_add(
        out, "usage: gradus pack FROM OUT [OPTION...]\n\n"
             "Writes a data set as shards: a few large files that open at once and are shared\n"
             "in memory by all ranks of a host. FROM is a folder, a list or another data file\n"
             "(its format is recognised, or given); OUT is a folder that is new or empty. Every\n"
             "image is decoded once: a broken one ends the packing with its name, or is left out\n"
             "and counted with --on_bad_sample skip, as in training (all are decoded twice then).\n"
             "Train on OUT as on any other data.\n\n");
    gr_option_help(table, out);
    gr_text_add(out, "\n  gradus pack photos/train shards/train --resize 256\n"
                     "  gradus pack voc shards/train --format list --split train\n"
                     "  gradus pack photos shards --on_bad_sample skip\n");
}
