/* Settings by a table of keys: values, lists, free forms, origins, and every way to be wrong. */
#include "gradus/settings.h"

#include "check.h"

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

static const gr_key keys[] = {
    { .name = "model.name",
      .kind = GR_KEY_CHOICE,
      .preset = "resnet18",
      .choices = "resnet18=ResNet-18|unet|mlp",
      .help = "network",
      .also = "model_type|arch" },
    { .name = "model.depth", .kind = GR_KEY_INT, .preset = "3", .min = 1, .max = 100 },
    { .name = "model.drop", .kind = GR_KEY_F64, .preset = "0.1", .min = 0, .max = 1 },
    { .name = "model.pool", .kind = GR_KEY_BOOL },
    { .name = "dataset.path", .kind = GR_KEY_TEXT, .also = "data_path" },
    { .name = "sizes", .kind = GR_KEY_INTS, .preset = "32,32", .min = 1, .max = 4096 },
    { .name = "mean", .kind = GR_KEY_F64S },
    { .name = "classes", .kind = GR_KEY_TEXTS },
    { .name = "transform", .kind = GR_KEY_TREE },
};

static gr_settings *fresh(void)
{
    gr_settings *s = NULL;

    GR_CHECK_OK(gr_settings_create(&s, keys, N(keys)));
    return s;
}

static gr_status read_text(gr_settings *s, const char *text)
{
    return gr_settings_read_text(s, "a.yaml", text, strlen(text));
}

static gr_status words(gr_settings *s, const char *a, const char *b)
{
    char first[100], second[100];
    char *argv[] = { first, second };

    snprintf(first, sizeof(first), "%s", a);
    snprintf(second, sizeof(second), "%s", b ? b : "");
    return gr_settings_words(s, b ? 2 : 1, argv);
}

static void test_presets(void)
{
    gr_settings *s = fresh();

    GR_CHECK_STR(gr_settings_text(s, "model.name"), "resnet18");
    GR_CHECK_EQ(gr_settings_int(s, "model.name"), 0);
    GR_CHECK_EQ(gr_settings_int(s, "model.depth"), 3);
    GR_CHECK_NEAR(gr_settings_f64(s, "model.drop"), 0.1, 0);
    GR_CHECK(!gr_settings_bool(s, "model.pool") && !gr_settings_text(s, "dataset.path"));
    GR_CHECK_EQ(gr_settings_count(s, "sizes"), 2);
    GR_CHECK_EQ(gr_settings_int_at(s, "sizes", 1), 32);
    GR_CHECK_EQ(gr_settings_count(s, "classes"), 0);
    GR_CHECK(!gr_settings_tree(s, "transform") && !gr_settings_given(s, "sizes"));
    gr_settings_destroy(s);
}

/* Guards P16: what a key asks for decides, so 1e-1 is a number and 42 may be a text. */
static void test_file(void)
{
    static const char text[] = "# a comment\n"
                               "model:\n"
                               "  name: \"UNet\"\n"
                               "  depth: 1e1\n"
                               "  drop: 1e-1\n"
                               "  pool: Yes\n"
                               "dataset: {path: 42}\n"
                               "sizes: [64, 48, 3]\n"
                               "mean: 0.5\n"
                               "classes:\n"
                               "  - cat\n"
                               "  - \"7\"\n"
                               "transform:\n"
                               "  - resize: {size: 256, keep: true}\n"
                               "  - flip\n";
    gr_settings *s = fresh();
    const gr_tree *t, *size;
    int64_t n = 0;
    bool keep = false;
    double x = 0;

    GR_CHECK_OK(read_text(s, text));
    GR_CHECK_STR(gr_settings_text(s, "model.name"), "unet");
    GR_CHECK_EQ(gr_settings_int(s, "model.depth"), 10);
    GR_CHECK_NEAR(gr_settings_f64(s, "model.drop"), 0.1, 0);
    GR_CHECK(gr_settings_bool(s, "model.pool") && gr_settings_given(s, "model.pool"));
    GR_CHECK_STR(gr_settings_text(s, "dataset.path"), "42");
    GR_CHECK_EQ(gr_settings_count(s, "sizes"), 3);
    GR_CHECK_EQ(gr_settings_int_at(s, "sizes", 2), 3);
    GR_CHECK_EQ(gr_settings_count(s, "mean"), 1);
    GR_CHECK_NEAR(gr_settings_f64_at(s, "mean", 0), 0.5, 0);
    GR_CHECK_STR(gr_settings_text_at(s, "classes", 1), "7");

    t = gr_settings_tree(s, "transform");
    GR_CHECK_EQ(gr_tree_kind(t), GR_TREE_LIST);
    GR_CHECK_EQ(gr_tree_count(t), 2);
    GR_CHECK_STR(gr_tree_key(gr_tree_at(t, 0), 0), "resize");
    size = gr_tree_get(gr_tree_get(gr_tree_at(t, 0), "resize"), "size");
    GR_CHECK_OK(gr_tree_int(size, &n));
    GR_CHECK_EQ(n, 256);
    GR_CHECK_EQ(gr_tree_line(size), 14);
    GR_CHECK_OK(gr_tree_bool(gr_tree_get(gr_tree_get(gr_tree_at(t, 0), "resize"), "keep"), &keep));
    GR_CHECK(keep && !gr_tree_get(size, "x") && !gr_tree_get(NULL, "x"));
    GR_CHECK_STR(gr_tree_text(gr_tree_at(t, 1)), "flip");
    GR_CHECK_FAILS(gr_tree_f64(gr_tree_at(t, 1), &x), GR_ERR_ARG, "a.yaml:15: 'flip' is no number");
    GR_CHECK_FAILS(gr_tree_int(gr_tree_at(t, 0), &n), GR_ERR_ARG, "a.yaml:14: '{a map}'");
    GR_CHECK_FAILS(gr_settings_fail(s, "sizes", "%d is odd", 3), GR_ERR_ARG,
                   "a.yaml:8: 'sizes': 3 is odd");
    gr_settings_destroy(s);
}

static void test_words(void)
{
    gr_settings *s = fresh();

    GR_CHECK_OK(words(s, "--model-type", "MLP"));
    GR_CHECK_OK(read_text(s, "model: {name: unet, depth: 4}\ndata_path: x\n"));
    GR_CHECK_STR(gr_settings_text(s, "model.name"), "mlp"); /* a flag wins whatever the order */
    GR_CHECK_EQ(gr_settings_int(s, "model.depth"), 4);
    GR_CHECK_OK(words(s, "--model.depth=5", NULL));
    GR_CHECK_OK(words(s, "--model.depth", "6"));
    GR_CHECK_EQ(gr_settings_int(s, "model.depth"), 6); /* the later flag */
    GR_CHECK_OK(words(s, "--model.pool", NULL));
    GR_CHECK(gr_settings_bool(s, "model.pool"));
    GR_CHECK_OK(words(s, "--model.pool", "False"));
    GR_CHECK(!gr_settings_bool(s, "model.pool"));
    GR_CHECK_OK(words(s, "--classes", "a, b,c"));
    GR_CHECK_EQ(gr_settings_count(s, "classes"), 3);
    GR_CHECK_STR(gr_settings_text_at(s, "classes", 1), "b");
    GR_CHECK_OK(words(s, "--sizes=[7]", NULL));
    GR_CHECK_EQ(gr_settings_int_at(s, "sizes", 0), 7);
    GR_CHECK_OK(words(s, "--transform", "[flip, {crop: 3}]"));
    GR_CHECK_EQ(gr_tree_count(gr_settings_tree(s, "transform")), 2);
    GR_CHECK_FAILS(gr_settings_fail(s, "model.depth", "too deep"), GR_ERR_ARG,
                   "flag '--model.depth': too deep");
    GR_CHECK_FAILS(words(s, "--model.depht", "6"), GR_ERR_ARG,
                   "unknown flag '--model.depht'; did you mean '--model.depth'?");
    GR_CHECK_FAILS(words(s, "--model.depth", NULL), GR_ERR_ARG, "needs a value");
    GR_CHECK_FAILS(words(s, "--model.depth", "--x"), GR_ERR_ARG, "'--x' follows");
    GR_CHECK_FAILS(words(s, "--model.depth", "0"), GR_ERR_ARG,
                   "flag '--model.depth': '0' is not between 1 and 100");
    GR_CHECK_FAILS(words(s, "word", NULL), GR_ERR_ARG, "unexpected word 'word'");
    gr_settings_destroy(s);
}

/* Guards P17 and P19. Every message has file, line and key. */
static void test_wrong(void)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        { "model:\n  depth: 3\n  depth: 4\n",
          "a.yaml:3: key 'depth' is there twice; the first is in line 2" },
        { "model: {name: mlp}\nmodel_type: unet\n",
          "a.yaml:2: 'model_type' is the setting that line 1 gave as 'model.name'" },
        { "model:\n  nmae: mlp\n",
          "a.yaml:2: unknown key 'model.nmae'; did you mean 'model.name'?" },
        { "depth: 3\n", "a.yaml:1: unknown key 'depth'; did you mean 'model.depth'?" },
        { "modle:\n  name: mlp\n", "a.yaml:1: unknown key 'modle'; did you mean 'model'?" },
        { "qqqqq: 1\n", "a.yaml:1: unknown key 'qqqqq'; 'gradus help keys'" },
        { "model:\n  depth: deep\n", "a.yaml:2: 'model.depth': 'deep' is no whole number" },
        { "model:\n  depth: 2.5\n", "a.yaml:2: 'model.depth': '2.5' is no whole number" },
        { "model:\n  depth: \"4\"\n", "'4' is a text; write it without quotes" },
        { "model:\n  depth: [4]\n", "'[a list]' is given where one value is expected" },
        { "model:\n  depth: {a: 4}\n", "'{a map}' is given where one value is expected" },
        { "model:\n  depth: 99999999999999999999\n", "does not fit in 64 bits" },
        { "model:\n  drop: nan\n", "'nan' is no number" },
        { "model:\n  drop: 1e999\n", "'1e999' is not finite" },
        { "model:\n  drop: 1.5\n", "a.yaml:2: 'model.drop': '1.5' is not between 0 and 1" },
        { "model:\n  drop:\n", "a.yaml:2: 'model.drop': has no value" },
        { "model:\n  pool: maybe\n", "'maybe' is neither 'true' nor 'false'" },
        { "model:\n  name: vgg\n", "a.yaml:2: 'model.name': 'vgg' is none of resnet18|unet|mlp" },
        { "model:\n  name: resnt18\n", "is none of resnet18|unet|mlp; did you mean 'resnet18'?" },
        { "model: mlp\n", "a.yaml:1: 'model: mlp': 'model' is a group of settings" },
        { "sizes: [1, x]\n", "a.yaml:1: 'sizes': 'x' is no whole number" },
        { "sizes: [1, 0]\n", "'0' is not between 1 and 4096" },
        { "classes: [a, null]\n", "a.yaml:1: 'classes': has no value" },
        { "- 1\n", "a.yaml:1: a configuration begins with 'name: value'" },
        { "42\n", "begins with 'name: value'" },
        { "a: 1\n---\nb: 2\n", "a.yaml:2: a second document begins" },
        { "a: [1\n", "a.yaml:2: did not find expected" },
        { "a: !!python/object:os.system x\n", "tag is not allowed" },
        { "a: *b\n", "a.yaml:1: there is no anchor 'b'" },
        { "a: &a [*a]\n", "an anchor is used inside itself: 'a'" },
        { "? [1]\n: 2\n", "a key must be a word" },
        { "huggingface:\n  token: hf_abc\n", "a.yaml:2: 'huggingface.token': is a secret" },
        { "wandb_api_key: abc\n", "is a secret" },
        { "hf-token: abc\n", "set HF_TOKEN in the environment" },
        { "classes: \"a\\0b\"\n", "NUL" },
    };

    for (int i = 0; i < N(cases); i++) {
        gr_settings *s = fresh();

        GR_CHECK_FAILS(read_text(s, cases[i].text), GR_ERR_ARG, cases[i].part);
        GR_CHECK(!strstr(gr_error_message(), "abc")); /* a secret is never shown */
        gr_settings_destroy(s);
    }
}

/* What is allowed and easily refused by mistake. */
static void test_lenient(void)
{
    static const char *const cases[] = {
        "",
        "# nothing\n",
        "---\n",
        "model:\n",
        "model: {}\n",
        "model:\n  name: ~\n",
        "dataset: {path: null}\n",
        "model.depth: 4\n",
        "sizes: !!seq [1]\n",
        "sizes: []\n",
        "%YAML 1.1\n---\nmodel: {drop: +0.5}\n...\n",
        "\xef\xbb\xbfmodel: {drop: .5}\n",
    };
    gr_settings *s;

    for (int i = 0; i < N(cases); i++) {
        s = fresh();
        GR_CHECK_OK(read_text(s, cases[i]));
        gr_settings_destroy(s);
    }
    s = fresh();
    GR_CHECK_OK(read_text(s, "model: {name: null, depth: 9}\n"));
    GR_CHECK_STR(gr_settings_text(s, "model.name"), "resnet18"); /* null leaves the preset */
    gr_settings_destroy(s);
}

static void test_anchors(void)
{
    static const char text[] = "transform:\n"
                               "  - &base {a: 1, b: 2}\n"
                               "  - {<<: *base, b: 3}\n"
                               "  - *base\n"
                               "  - {<<: [*base, {c: 4}]}\n";
    gr_settings *s = fresh();
    const gr_tree *t;

    GR_CHECK_OK(read_text(s, text));
    t = gr_settings_tree(s, "transform");
    GR_CHECK_STR(gr_tree_text(gr_tree_get(gr_tree_at(t, 1), "a")), "1");
    GR_CHECK_STR(gr_tree_text(gr_tree_get(gr_tree_at(t, 1), "b")), "3");
    GR_CHECK_STR(gr_tree_text(gr_tree_get(gr_tree_at(t, 2), "b")), "2");
    GR_CHECK_EQ(gr_tree_count(gr_tree_at(t, 3)), 3);
    gr_settings_destroy(s);
}

/* Files that are made to be large when they are followed. */
static void test_bombs(void)
{
    char *text = calloc(1, (size_t)5 << 20);
    size_t n = 0, room = (size_t)5 << 20;
    gr_settings *s = fresh();

    GR_CHECK(text);
    n += (size_t)snprintf(text, room, "transform:\n- &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 10; i++)
        n += (size_t)snprintf(text + n, room - n,
                              "- &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i - 1,
                              i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    GR_CHECK_FAILS(gr_settings_read_text(s, "a.yaml", text, n), GR_ERR_ARG,
                   "more than 100000 values");
    memset(text, '[', 1000);
    GR_CHECK_FAILS(gr_settings_read_text(s, "a.yaml", text, 1000), GR_ERR_ARG, "32 deep");
    memset(text, '#', (size_t)5 << 20);
    GR_CHECK_FAILS(gr_settings_read_text(s, "a.yaml", text, (size_t)5 << 20), GR_ERR_ARG,
                   "more than 4 MiB");
    n = 0;
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(text + n, room - n, "k%d: 1\n", i);
    GR_CHECK_FAILS(gr_settings_read_text(s, "a.yaml", text, n), GR_ERR_ARG, "more than 4096 keys");
    free(text);
    gr_settings_destroy(s);
}

static void test_tables(void)
{
    static const gr_key twice[] = { { .name = "a", .kind = GR_KEY_INT },
                                    { .name = "b", .kind = GR_KEY_INT, .also = "c|a" } };
    static const gr_key bad = { .name = "a", .kind = GR_KEY_INT, .preset = "x" };
    static const gr_key no_choices = { .name = "a", .kind = GR_KEY_CHOICE };
    gr_settings *s = NULL;

    GR_CHECK_FAILS(gr_settings_create(&s, twice, 2), GR_ERR_ARG,
                   "the name 'a' of setting 'b' is one of 'a' already");
    GR_CHECK_FAILS(gr_settings_create(&s, &bad, 1), GR_ERR_ARG,
                   "setting 'a': 'x' is no whole number");
    GR_CHECK_FAILS(gr_settings_create(&s, &no_choices, 1), GR_ERR_ARG, "choices");
    s = fresh();
    GR_CHECK_FAILS(gr_settings_read(s, "/nowhere/a.yaml"), GR_ERR_ARG,
                   "cannot open the configuration '/nowhere/a.yaml'");
    GR_CHECK_FAILS(gr_settings_read(s, "/"), GR_ERR_ARG, "no regular file");
    GR_CHECK_FAILS(gr_settings_read(s, NULL), GR_ERR_ARG, "NULL");
    GR_CHECK_FAILS(gr_settings_read_text(s, "a.yaml", NULL, 1), GR_ERR_ARG, "NULL");
    gr_settings_destroy(s);
}

int main(void)
{
    test_presets();
    test_file();
    test_words();
    test_wrong();
    test_lenient();
    test_anchors();
    test_bombs();
    test_tables();
    return 0;
}
