/* Data and weights from hashes: the twin of tests/golden/torch_models.py. */
#include "nn/models.h"

#include "base/alloc.h"
#include "check.h"

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint32_t h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;

    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 13;
    h *= 0x297a2d39u;
    return h ^ h >> 16;
}

static uint32_t name_hash(const char *name)
{
    uint32_t h = 0x811c9dc5u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x01000193u;
    return h;
}

/* In [-1, 1), a whole multiple of 1/1024. */
static float noise(uint32_t hash, size_t i)
{
    return (float)(mix(hash, (uint32_t)i) % 2048) / 1024 - 1;
}

static size_t feed_bytes(const model_feed *f)
{
    static const size_t size[] = { sizeof(float), sizeof(int64_t), 1, sizeof(float), 1 };

    return (size_t)gr_shape_count(&f->shape) * size[f->fill];
}

void model_feeds_make(const model *m, gr_named *feeds)
{
    static const gr_dtype type[] = { GR_F32, GR_I64, GR_BOOL, GR_F32, GR_BOOL };

    for (int i = 0; i < m->n_feeds; i++) {
        const model_feed *f = &m->feeds[i];

        feeds[i] = (gr_named){ .name = f->name, .dtype = type[f->fill], .shape = f->shape };
        feeds[i].mem = gr_malloc(feed_bytes(f));
        GR_CHECK(feeds[i].mem != NULL);
    }
    model_feeds_fill(m, feeds, 0);
}

static void fill(const model_feed *f, void *mem, uint32_t hash)
{
    size_t n = (size_t)gr_shape_count(&f->shape);
    uint32_t classes = (uint32_t)f->n;
    float scale = f->scale != 0 ? (float)f->scale : 1;

    for (size_t i = 0; i < n; i++) {
        switch (f->fill) {
        case MODEL_REAL: ((float *)mem)[i] = noise(hash, i) * scale; break;
        case MODEL_LABEL: ((int64_t *)mem)[i] = mix(hash, (uint32_t)i) % classes; break;
        case MODEL_MASK: ((uint8_t *)mem)[i] = mix(hash, (uint32_t)i) % classes != 0; break;
        case MODEL_BITS: ((float *)mem)[i] = (float)(mix(hash, (uint32_t)i) % 2); break;
        case MODEL_LENGTH:
            ((uint8_t *)mem)[i] = (int64_t)i % f->shape.dim[1] <
                                  f->shape.dim[1] - f->n * ((int64_t)i / f->shape.dim[1]);
            break;
        }
    }
}

void model_feeds_fill(const model *m, gr_named *feeds, int step)
{
    char name[64];

    for (int i = 0; i < m->n_feeds; i++) {
        snprintf(name, sizeof(name), "%s.%d", m->feeds[i].name, step);
        fill(&m->feeds[i], feeds[i].mem, name_hash(name));
    }
}

void model_feeds_free(const model *m, gr_named *feeds)
{
    for (int i = 0; i < m->n_feeds; i++)
        gr_free(feeds[i].mem);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

static void fill_weight(const gr_named *w)
{
    size_t n = (size_t)gr_shape_count(&w->shape);
    uint32_t hash = name_hash(w->name);
    float *mem = w->mem;
    double fan_in = 1;

    for (int i = 1; i < w->shape.n_dims; i++)
        fan_in *= (double)w->shape.dim[i];
    for (size_t i = 0; i < n; i++) {
        float x = noise(hash, i);

        if (w->shape.n_dims >= 2)
            mem[i] = x * exp2f((float)nearbyint(log2(0.75 / sqrt(fan_in))));
        else
            mem[i] = ends_with(w->name, "bias") ? x / 8 : 1 + x / 8;
    }
}

static bool is_parameter(const gr_named *t)
{
    return strncmp(t->name, "optimizer.", 10) != 0 && !strstr(t->name, ".running_") &&
           !ends_with(t->name, "num_batches_tracked");
}

void model_open(const model *m, const gr_step_config *config, gr_step **out)
{
    gr_named feeds[MODEL_MAX_FEEDS];
    gr_step_config c = *config;
    gr_snapshot *snap;

    c.trace = m->trace;
    /* A trace reads its configuration; the type has no room for that. */
    c.user = (void *)(uintptr_t)m->config;
    model_feeds_make(m, feeds);
    GR_CHECK_OK(gr_step_create(out, &c));
    GR_CHECK_OK(gr_step_plan(*out, true, feeds, m->n_feeds));
    GR_CHECK_OK(gr_step_save(*out, &snap));
    for (int i = 0; i < gr_snapshot_count(snap); i++)
        if (is_parameter(gr_snapshot_at(snap, i)))
            fill_weight(gr_snapshot_at(snap, i));
    GR_CHECK_OK(gr_step_restore(*out, snap));
    gr_snapshot_destroy(snap);
    model_feeds_free(m, feeds);
}
