/* Command lines and files for tests of the trainer's settings. */
#include "config_words.h"

#include "check.h"

#include <stdio.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

/* What the five projects have that a recipe would know. */
static const gr_key keys[] = {
    { .name = "model.name", .kind = GR_KEY_TEXT, .also = "model|model_type" },
    { .name = "model.config.input_sizes", .kind = GR_KEY_INTS },
    { .name = "model.config.num_classes", .kind = GR_KEY_INT, .also = "numclasses" },
    { .name = "model.layers", .kind = GR_KEY_INT, .also = "layers" },
    { .name = "model.hidden_dim", .kind = GR_KEY_INT, .also = "hidden_dim" },
    { .name = "model.num_encoder_layers", .kind = GR_KEY_INT, .also = "num_encoder_layers" },
    { .name = "model.num_decoder_layers", .kind = GR_KEY_INT, .also = "num_decoder_layers" },
    { .name = "model.mask_ratio", .kind = GR_KEY_F64, .also = "mask_ratio" },
    { .name = "model.freeze_vggt", .kind = GR_KEY_BOOL },
    { .name = "model.freeze_lang_encoder", .kind = GR_KEY_BOOL },
    { .name = "data.img_size", .kind = GR_KEY_INT, .also = "img_size" },
    { .name = "dataset.name", .kind = GR_KEY_TEXT },
    { .name = "dataset.train_path",
      .kind = GR_KEY_TEXT,
      .also = "data_path|pdb_path",
      .use = GR_KEY_AWAY },
    { .name = "dataset.valid_path", .kind = GR_KEY_TEXT },
    { .name = "dataset.test_path", .kind = GR_KEY_TEXT },
    { .name = "data.cache_dir", .kind = GR_KEY_TEXT, .also = "cache_dir", .use = GR_KEY_WRITES },
    { .name = "transform", .kind = GR_KEY_TREE },
    { .name = "dataset.ignore_index", .kind = GR_KEY_INT, .preset = "255" },
};

static const gr_preset presets[] = {
    { "train.epochs", "3", NULL },
    { "train.batch_size", "16", NULL },
    { "train.lr", "0.1", NULL },
    { "train.optimizer.weight_decay", "0.01", NULL },
};

const gr_recipe config_recipe = {
    .abi = GR_RECIPE_ABI,
    .name = "guides",
    .presets = presets,
    .n_presets = N(presets),
    .keys = keys,
    .n_keys = N(keys),
};

gr_train_options config_options;

int config_split(const char *line, char *argv[CONFIG_MAX_WORDS])
{
    static char text[2000];
    char *rest = text, *word;
    int n = 0;

    GR_CHECK(strlen(line) < sizeof(text));
    snprintf(text, sizeof(text), "%s", line);
    while ((word = strsep(&rest, " ")) && n < CONFIG_MAX_WORDS)
        if (*word) {
            for (char *c = word; *c; c++)
                *c = *c == '~' ? ' ' : *c;
            argv[n++] = word;
        }
    return n;
}

gr_status config_parse(const char *line)
{
    char *argv[CONFIG_MAX_WORDS];
    int argc = config_split(line, argv);

    gr_train_options_fini(&config_options);
    GR_CHECK_OK(gr_train_options_init(&config_options, &config_recipe));
    return gr_train_options_parse(&config_options, argc, argv);
}

const char *config_write(const char *text)
{
    static const char path[] = "test_config.yaml";
    FILE *f = fopen(path, "w");

    GR_CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return path;
}

gr_status config_parse_file(const char *text, const char *line)
{
    char words[2000];

    snprintf(words, sizeof(words), "--config %s %s", config_write(text), line);
    return config_parse(words);
}
