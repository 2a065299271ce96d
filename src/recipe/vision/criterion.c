/*
 * The criterion: a list of losses, each with a weight; what is minimised is their weighted
 * sum. Labels are whole numbers. Losses that ask each class yes or no (bce, dice, focal) see
 * them as 0 and 1: the label itself where there is one logit, else a 1 at the label's class.
 * A pixel that is ignored has weight 0 in means and is taken out of dice's sums.
 */
#include "recipe/vision/vision.h"

#include "gradus/index.h"
#include "gradus/loss.h"
#include "gradus/nn.h"
#include "gradus/ops.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    gr_vision_loss loss;
} losses[] = {
    { "crossentropy", GR_LOSS_CE },   { "ce", GR_LOSS_CE },     { "bce", GR_LOSS_BCE },
    { "bcewithlogits", GR_LOSS_BCE }, { "dice", GR_LOSS_DICE }, { "focal", GR_LOSS_FOCAL },
};

static gr_status find_loss(const gr_tree *t, gr_vision_loss *out)
{
    const char *text = gr_tree_text(t);
    char name[32];
    size_t n;

    if (!text)
        return gr_tree_fail(t, "the type of a criterion is a name");
    gr_vision_plain(text, name, sizeof(name));
    n = strlen(name);
    if (n > 4 && strcmp(name + n - 4, "loss") == 0)
        name[n - 4] = 0;
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
        if (strcmp(losses[i].name, name) == 0) {
            *out = losses[i].loss;
            return GR_OK;
        }
    return gr_tree_fail(t, "there is no criterion '%s'; known: cross_entropy, bce, dice, focal",
                        text);
}

static gr_status read_weights(gr_vision_term *term, const gr_tree *t, int n_out)
{
    int n = gr_tree_count(t);

    if (n != n_out)
        return gr_tree_fail(t, "%d class weights for %d classes", n, n_out);
    term->class_weight = calloc((size_t)n, sizeof(*term->class_weight));
    if (!term->class_weight)
        return gr_fail(GR_ERR_NOMEM, "no memory for %d class weights", n);
    for (int i = 0; i < n; i++) {
        double w;

        GR_TRY(gr_tree_f64(gr_tree_at(t, i), &w));
        term->class_weight[i] = (float)w;
    }
    return GR_OK;
}

/* The keys that a loss takes in its `config`. */
static gr_status read_config(gr_vision_term *term, const gr_tree *config, int n_out)
{
    const struct {
        const char *name;
        double *to;
        gr_vision_loss loss;
    } keys[] = {
        { "label_smoothing", &term->label_smoothing, GR_LOSS_CE },
        { "pos_weight", &term->pos_weight, GR_LOSS_BCE },
        { "alpha", &term->alpha, GR_LOSS_FOCAL },
        { "gamma", &term->gamma, GR_LOSS_FOCAL },
        { "smooth", &term->smooth, GR_LOSS_DICE },
    };
    size_t n_keys = sizeof(keys) / sizeof(keys[0]);

    for (int i = 0; config && i < gr_tree_count(config); i++) {
        const char *name = gr_tree_key(config, i);
        const gr_tree *value = gr_tree_at(config, i);
        size_t k = 0;

        if (term->loss == GR_LOSS_CE && strcmp(name, "weight") == 0) {
            GR_TRY(read_weights(term, value, n_out));
            continue;
        }
        while (k < n_keys && (keys[k].loss != term->loss || strcmp(keys[k].name, name) != 0))
            k++;
        if (k == n_keys)
            return gr_tree_fail(value, "this criterion has no setting '%s'", name);
        GR_TRY(gr_tree_f64(value, keys[k].to));
    }
    return GR_OK;
}

static gr_status check_term(const gr_vision_term *term, const gr_tree *at, int n_out)
{
    if (term->loss == GR_LOSS_CE && n_out == 1)
        return gr_tree_fail(at, "cross_entropy needs two classes or more; with one, take bce");
    if (!(term->weight >= 0) || !(term->smooth > 0) || !(term->pos_weight > 0) ||
        !(term->gamma >= 0) || !(term->label_smoothing >= 0 && term->label_smoothing < 1))
        return gr_tree_fail(at, "weights and gamma are not negative, smooth and pos_weight are "
                                "positive, label_smoothing is in [0, 1)");
    return GR_OK;
}

static const gr_vision_term usual = {
    .weight = 1, .pos_weight = 1, .alpha = 0.25, .gamma = 2, .smooth = 1e-6
};

/* {type: dice, weight: 1.0, config: {smooth: 1e-6}}, or only the type's name. */
static gr_status read_term(gr_vision_criterion *c, const gr_tree *t, int n_out)
{
    gr_vision_term *term = &c->terms[c->n_terms];
    bool has_type = false;

    if (c->n_terms == GR_VISION_MAX_TERMS)
        return gr_tree_fail(t, "more than %d criteria", GR_VISION_MAX_TERMS);
    *term = usual;
    c->n_terms++;
    if (gr_tree_kind(t) == GR_TREE_TEXT)
        return find_loss(t, &term->loss);
    for (int i = 0; i < gr_tree_count(t) && gr_tree_kind(t) == GR_TREE_MAP; i++) {
        const char *key = gr_tree_key(t, i);

        if (strcmp(key, "type") == 0 || strcmp(key, "name") == 0) {
            GR_TRY(find_loss(gr_tree_at(t, i), &term->loss));
            has_type = true;
        } else if (strcmp(key, "weight") == 0) {
            GR_TRY(gr_tree_f64(gr_tree_at(t, i), &term->weight));
        } else if (strcmp(key, "config") != 0) {
            return gr_tree_fail(gr_tree_at(t, i),
                                "a criterion has type, weight and config, not '%s'", key);
        }
    }
    if (!has_type)
        return gr_tree_fail(t, "a criterion needs its type: cross_entropy, bce, dice or focal");
    return read_config(term, gr_tree_get(t, "config"), n_out);
}

gr_status gr_vision_criterion_read(gr_vision_criterion *c, const gr_settings *s,
                                   const gr_vision_model *m)
{
    const gr_tree *t = gr_settings_tree(s, "criterion");

    if (!t) {
        c->terms[0] = usual;
        c->terms[0].loss = m->n_out == 1 ? GR_LOSS_BCE : GR_LOSS_CE;
        c->n_terms = 1;
        return GR_OK;
    }
    if (gr_tree_kind(t) != GR_TREE_LIST)
        GR_TRY(read_term(c, t, m->n_out));
    for (int i = 0; i < gr_tree_count(t) && gr_tree_kind(t) == GR_TREE_LIST; i++)
        GR_TRY(read_term(c, gr_tree_at(t, i), m->n_out));
    if (c->n_terms == 0)
        return gr_tree_fail(t, "a list of criteria without any");
    for (int i = 0; i < c->n_terms; i++)
        GR_TRY(check_term(&c->terms[i], t, m->n_out));
    return GR_OK;
}

void gr_vision_criterion_fini(gr_vision_criterion *c)
{
    for (int i = 0; i < c->n_terms; i++)
        free(c->terms[i].class_weight);
}

/* What the losses of a trace share; made when first asked for. */
typedef struct built {
    gr_graph *g;
    const gr_vision_criterion *c;
    gr_value *logits, *target;
    gr_value *truth; /* 0 and 1, of the logits' shape */
    gr_value *valid; /* 0 where ignored, [.., 1] */
} built;

static void need_truth(built *b)
{
    gr_shape shape = gr_value_shape(b->logits);
    int64_t n_out = shape.dim[shape.n_dims - 1];

    if (b->truth)
        return;
    b->valid = gr_unsqueeze(b->g, gr_ne_k(b->g, b->target, b->c->ignore), -1);
    b->valid = gr_cast(b->g, b->valid, GR_F32);
    b->truth = n_out == 1 ? gr_unsqueeze(b->g, gr_cast(b->g, b->target, GR_F32), -1)
                          : gr_one_hot(b->g, b->target, n_out, GR_F32);
    b->truth = gr_mul(b->g, b->truth, b->valid);
}

static void cross_entropy(built *b, const gr_vision_term *t, const char *name)
{
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;
    gr_shape shape = gr_value_shape(b->logits);

    o.ignore_index = b->c->ignore;
    o.label_smoothing = t->label_smoothing;
    if (t->class_weight)
        o.weight =
            gr_constant(b->g, GR_F32, GR_SHAPE(shape.dim[shape.n_dims - 1]), t->class_weight);
    gr_loss_add_cross_entropy(b->g, name, t->weight, b->logits, b->target, &o);
}

static void bce(built *b, const gr_vision_term *t, const char *name)
{
    gr_value *pos = t->pos_weight == 1 ? NULL : gr_fill(b->g, GR_F32, GR_SCALAR, t->pos_weight);

    need_truth(b);
    gr_loss_add_mean(b->g, name, t->weight, gr_bce_logits_each(b->g, b->logits, b->truth, pos),
                     b->valid);
}

/* Where a pixel is ignored its logits become so low that their sigmoid is 0: neither side of
 * the quotient sees it. */
static void dice(built *b, const gr_vision_term *t, const char *name)
{
    gr_value *z = b->logits;

    need_truth(b);
    if (!gr_is_training(b->g)) /* in mixed precision, too, what is summed up is f32 */
        z = gr_mul(b->g, z, b->valid);
    z = gr_masked_fill(b->g, z, gr_eq_k(b->g, b->valid, 0), -1e4);
    gr_loss_add_dice(b->g, name, t->weight, z, b->truth, t->smooth);
}

static void focal(built *b, const gr_vision_term *t, const char *name)
{
    need_truth(b);
    gr_loss_add_mean(b->g, name, t->weight,
                     gr_focal_each(b->g, b->logits, b->truth, t->alpha, t->gamma), b->valid);
}

static const struct {
    const char *name;
    void (*build)(built *, const gr_vision_term *, const char *name);
} terms[] = {
    [GR_LOSS_CE] = { "ce", cross_entropy },
    [GR_LOSS_BCE] = { "bce", bce },
    [GR_LOSS_DICE] = { "dice", dice },
    [GR_LOSS_FOCAL] = { "focal", focal },
};

/* "dice", and where there are more of its kind "dice_2". */
static const char *name_of(const gr_vision_criterion *c, int at, gr_graph *g)
{
    const char *name = terms[c->terms[at].loss].name;
    int before = 0;

    for (int i = 0; i < at; i++)
        before += c->terms[i].loss == c->terms[at].loss;
    return before > 0 ? gr_name(g, "%s_%d", name, before + 1) : name;
}

void gr_vision_criterion_build(const gr_vision_criterion *c, gr_graph *g, gr_value *logits,
                               gr_value *target)
{
    built b = { .g = g, .c = c, .logits = logits, .target = target };

    for (int i = 0; i < c->n_terms; i++)
        if (c->terms[i].weight > 0)
            terms[c->terms[i].loss].build(&b, &c->terms[i], name_of(c, i, g));
}
