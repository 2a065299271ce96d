/*
 * Configuration files of arbitrary bytes. Reading must not crash, fails with a message, and
 * what it accepts has values of the kinds that the keys ask for.
 */
#include "gradus/settings.h"
#include "src/base/status.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const gr_key keys[] = {
    { .name = "train.epochs", .kind = GR_KEY_INT, .min = 1, .max = 1e6, .also = "epoch" },
    { .name = "train.optimizer.lr", .kind = GR_KEY_F64, .preset = "0.1", .min = 0, .max = 10 },
    { .name = "train.optimizer.name", .kind = GR_KEY_CHOICE, .choices = "sgd|adam=Adam2" },
    { .name = "ddp.enabled", .kind = GR_KEY_BOOL },
    { .name = "device", .kind = GR_KEY_TEXT },
    { .name = "sizes", .kind = GR_KEY_INTS, .preset = "1,2" },
    { .name = "classes", .kind = GR_KEY_TEXTS },
    { .name = "transform", .kind = GR_KEY_TREE },
};

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    gr_settings *s = NULL;
    const gr_tree *t;

    GR_BUG_IF(gr_settings_create(&s, keys, (int)(sizeof(keys) / sizeof(keys[0]))) != GR_OK);
    if (gr_settings_read_text(s, "fuzz.yaml", (const char *)data, n_bytes) != GR_OK) {
        GR_BUG_IF(gr_error_message()[0] == '\0');
    } else {
        double lr = gr_settings_f64(s, "train.optimizer.lr");

        GR_BUG_IF(!(lr >= 0 && lr <= 10));
        GR_BUG_IF(gr_settings_int(s, "train.epochs") < 0);
        for (int i = 0; i < gr_settings_count(s, "classes"); i++)
            GR_BUG_IF(!gr_settings_text_at(s, "classes", i));
        t = gr_settings_tree(s, "transform");
        GR_BUG_IF(t && count(t) > 200000);
    }
    gr_settings_destroy(s);
    return 0;
}
