/*
 * Configuration files of arbitrary bytes, for the trainer and a recipe with keys of every kind.
 * Reading must not crash, and fails with a message. What is accepted can be recorded, and the
 * record read again is the same. The bytes are settings of a checkpoint, too.
 */
#include "src/base/status.h"
#include "src/train/config/settings.h"
#include "src/train/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const gr_key keys[] = {
    { .name = "depth", .kind = GR_KEY_INT, .min = 1, .max = 1e6, .also = "deep" },
    { .name = "drop", .kind = GR_KEY_F64, .preset = "0.1", .min = 0, .max = 10 },
    { .name = "model.name", .kind = GR_KEY_CHOICE, .choices = "mlp|unet=Adam2" },
    { .name = "sizes", .kind = GR_KEY_INTS, .preset = "1,2" },
    { .name = "mean", .kind = GR_KEY_F64S },
    { .name = "classes", .kind = GR_KEY_TEXTS },
    { .name = "transform", .kind = GR_KEY_TREE },
};

static const gr_preset presets[] = {
    { "train.lr", "0.1", NULL },
    { "train.optimizer.name", "sgd", NULL },
    { "drop", "0.2", "model.name=unet" },
};

static const gr_recipe recipe = { .abi = GR_RECIPE_ABI,
                                  .name = "fuzz",
                                  .presets = presets,
                                  .n_presets = (int)(sizeof(presets) / sizeof(presets[0])),
                                  .keys = keys,
                                  .n_keys = (int)(sizeof(keys) / sizeof(keys[0])) };

/* As gr_train_options_parse() reads a file, but from memory. */
static gr_status read_text(gr_train_options *o, const char *text, size_t n_bytes)
{
    GR_BUG_IF(gr_train_options_init(o, &recipe) != GR_OK);
    GR_TRY(gr_settings_read_text(o->settings, "fuzz.yaml", text, n_bytes));
    return gr_train_options_parse(o, 0, NULL);
}

/* Everything in it can be reached; the depth is bounded. */
static int count(const gr_tree *t)
{
    int n = 1;

    GR_BUG_IF(gr_tree_kind(t) == GR_TREE_TEXT && !gr_tree_text(t));
    for (int i = 0; i < gr_tree_count(t); i++) {
        GR_BUG_IF(gr_tree_kind(t) == GR_TREE_MAP && !gr_tree_key(t, i));
        n += count(gr_tree_at(t, i));
    }
    return n;
}

static void check_record(const gr_train_options *o)
{
    gr_text first = GR_TEXT_INIT, second = GR_TEXT_INIT;
    gr_train_options again;

    gr_train_options_record(o, GR_RECORD_YAML, &first);
    GR_BUG_IF(gr_text_status(&first) != GR_OK);
    GR_BUG_IF(read_text(&again, gr_text_str(&first), first.len) != GR_OK);
    gr_train_options_record(&again, GR_RECORD_YAML, &second);
    GR_BUG_IF(strcmp(gr_text_str(&first), gr_text_str(&second)) != 0);
    gr_train_options_fini(&again);
    gr_text_fini(&first);
    gr_text_fini(&second);
}

/* The same bytes as the settings of a stranger's checkpoint: none of them says where to write. */
static void check_saved(const uint8_t *data, size_t n_bytes)
{
    char *lines = malloc(n_bytes + 1);
    gr_saved saved = { .lines = lines, .is_own = n_bytes & 1 };
    gr_train_options o;

    GR_BUG_IF(!lines);
    memcpy(lines, data, n_bytes);
    lines[n_bytes] = '\0';
    GR_BUG_IF(gr_train_options_init(&o, &recipe) != GR_OK);
    if (gr_train_options_resume(&o, &recipe, &saved, 0, NULL) != GR_OK)
        GR_BUG_IF(gr_error_message()[0] == '\0');
    GR_BUG_IF(o.dump_dot || o.config || o.output_dir || o.output || o.run_id || o.master_addr);
    GR_BUG_IF(!saved.is_own && (o.pretrained || o.use_wandb));
    gr_train_options_fini(&o);
    free(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    gr_train_options o;
    const gr_tree *t;

    if (read_text(&o, (const char *)data, n_bytes) != GR_OK) {
        GR_BUG_IF(gr_error_message()[0] == '\0');
    } else {
        GR_BUG_IF(!(o.lr >= 0 && o.lr <= 1e6) || o.epochs < 1 || o.batch_size < 1);
        t = gr_settings_tree(o.settings, "transform");
        GR_BUG_IF(t && count(t) > 200000);
        check_record(&o);
    }
    gr_train_options_fini(&o);
    if (memmem(data, n_bytes, " = ", 3))
        check_saved(data, n_bytes);
    return 0;
}
