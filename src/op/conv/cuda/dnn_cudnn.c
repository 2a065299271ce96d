/* Descriptors of cuDNN, its engines and their names. */
#include "op/conv/cuda/dnn_cudnn.h"

#include <stdio.h>
#include <string.h>

/* For our own reasons. */
static void refuse(gr_dnn *d, const char *what)
{
    if (!d->is_bad)
        snprintf(d->why, sizeof(d->why), "%s", what);
    d->is_bad = true;
}

/* For the library's. */
static void fail(gr_dnn *d, const char *what)
{
    char text[GR_WHY_BYTES] = "";

    if (d->is_bad)
        return;
    d->is_bad = true;
    d->fn->GetLastErrorString(text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    snprintf(d->why, sizeof(d->why), "%s%s%.*s", what, text[0] ? ": " : "",
             (int)strcspn(text, "\n"), text);
}

/* ---- descriptors ---- */

void gr_dnn_rewind(gr_dnn *d, int n)
{
    while (d->n_made > n)
        d->fn->BackendDestroyDescriptor(d->made[--d->n_made]);
    d->is_bad = false;
}

void gr_dnn_fini(gr_dnn *d)
{
    if (d->fn)
        gr_dnn_rewind(d, 0);
}

gr_dnn_desc gr_dnn_make(gr_dnn *d, cudnnBackendDescriptorType_t type)
{
    gr_dnn_desc x = NULL;

    if (d->is_bad)
        return NULL;
    GR_BUG_IF(d->n_made == GR_DNN_DESCRIPTORS);
    if (d->fn->BackendCreateDescriptor(type, &x) != CUDNN_STATUS_SUCCESS) {
        fail(d, "a descriptor cannot be made");
        return NULL;
    }
    return d->made[d->n_made++] = x;
}

void gr_dnn_set(gr_dnn *d, gr_dnn_desc x, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *mem)
{
    char what[48];

    if (d->is_bad || d->fn->BackendSetAttribute(x, name, type, n, mem) == CUDNN_STATUS_SUCCESS)
        return;
    snprintf(what, sizeof(what), "attribute %d is refused", (int)name);
    fail(d, what);
}

void gr_dnn_set_int(gr_dnn *d, gr_dnn_desc x, cudnnBackendAttributeName_t name, int64_t value)
{
    gr_dnn_set(d, x, name, CUDNN_TYPE_INT64, 1, &value);
}

void gr_dnn_set_desc(gr_dnn *d, gr_dnn_desc x, cudnnBackendAttributeName_t name, gr_dnn_desc value)
{
    gr_dnn_set(d, x, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void gr_dnn_finish(gr_dnn *d, gr_dnn_desc x, const char *what)
{
    if (!d->is_bad && d->fn->BackendFinalize(x) != CUDNN_STATUS_SUCCESS)
        fail(d, what);
}

/* How many there are; 0 where the library does not know the attribute. */
static int64_t get(const gr_dnn *d, gr_dnn_desc x, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t n, void *mem)
{
    int64_t found = 0;

    if (d->fn->BackendGetAttribute(x, name, type, n, &found, mem) != CUDNN_STATUS_SUCCESS)
        return 0;
    return found < n ? found : n;
}

/* ---- engines ---- */

/* Why an engine is left out; NULL: it may be used. */
static const char *refusal(const gr_dnn *d, gr_dnn_desc engine, const gr_dnn_rules *rules)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = get(d, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, note);

    for (int64_t i = 0; i < n; i++)
        switch ((int)note[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return "sums in varying order";
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return "rounds its sources";
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return "sums in 16 bits";
        case CUDNN_NUMERICAL_NOTE_FFT:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return "adds before it multiplies";
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
            if (rules->true_f32)
                return "rounds f32 to TF32";
            break;
        default: break;
        }
    return NULL;
}

#define MAX_KNOBS   CUDNN_KNOB_TYPE_COUNTS
#define MAX_CONFIGS 64

/* " k2=20 k14=3": type and value of each. */
static void name_knobs(gr_dnn *d, gr_dnn_desc config, gr_text *out)
{
    gr_dnn_desc knob[MAX_KNOBS];
    int64_t n = 0, found;

    while (n < MAX_KNOBS && d->fn->BackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                                           &knob[n]) == CUDNN_STATUS_SUCCESS)
        n++;
    found =
        get(d, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, knob);
    for (int64_t i = 0; i < found; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;

        if (get(d, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) &&
            get(d, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value))
            gr_text_addf(out, " k%d=%lld", (int)type, (long long)value);
    }
    while (n > 0)
        d->fn->BackendDestroyDescriptor(knob[--n]);
}

/* The number of the configuration's engine; -1: it may not be used. */
static int64_t engine_of(gr_dnn *d, gr_dnn_desc config, const gr_dnn_rules *rules)
{
    gr_dnn_desc engine = NULL;
    const char *why = NULL;
    int64_t id = -1;

    if (d->fn->BackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
        CUDNN_STATUS_SUCCESS)
        return -1;
    if (get(d, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine) &&
        get(d, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &id))
        why = refusal(d, engine, rules);
    if (why)
        snprintf(d->why, sizeof(d->why), "%s", why);
    d->fn->BackendDestroyDescriptor(engine);
    return why ? -1 : id;
}

/* Takes a configuration (true) or passes it by. What it keeps of it becomes NULL. */
typedef bool visit_fn(gr_dnn *d, gr_dnn_desc *config, const gr_dnn_rules *rules, void *arg);

/* Shows what one of the library's heuristics suggests until n_most are taken; how many were. */
static int ask(gr_dnn *d, gr_dnn_desc graph, cudnnBackendHeurMode_t mode, const gr_dnn_rules *rules,
               visit_fn *visit, void *arg, int n_most)
{
    gr_dnn_desc config[MAX_CONFIGS];
    int mark = d->n_made, n = 0, n_taken = 0;
    int64_t found = 0;
    gr_dnn_desc h = gr_dnn_make(d, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);

    gr_dnn_set_desc(d, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    gr_dnn_set(d, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    gr_dnn_finish(d, h, "no heuristic for it");
    if (!d->is_bad) {
        while (n < MAX_CONFIGS &&
               d->fn->BackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[n]) ==
                   CUDNN_STATUS_SUCCESS)
            n++;
        found = get(d, h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, config);
        for (int64_t i = 0; i < found && n_taken < n_most; i++)
            n_taken += visit(d, &config[i], rules, arg);
        while (n-- > 0)
            if (config[n])
                d->fn->BackendDestroyDescriptor(config[n]);
    }
    if (d->is_bad || d->n_made == mark + 1) /* nothing was made of it */
        gr_dnn_rewind(d, mark);
    return n_taken;
}

static int ask_all(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules, visit_fn *visit,
                   void *arg, int n_most)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                    CUDNN_HEUR_MODE_FALLBACK };
    int n = 0;

    /* The second is slow to answer, so it is asked where the first knows nothing. */
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) && n == 0; i++)
        n = ask(d, graph, modes[i], rules, visit, arg, n_most);
    return n;
}

/* Adds the name, if it is not there yet. */
static bool add_name(gr_dnn *d, gr_dnn_desc *config, const gr_dnn_rules *rules, void *arg)
{
    gr_text *names = (gr_text *)arg, name = GR_TEXT_INIT;
    int64_t id = engine_of(d, *config, rules);
    bool added = false;

    if (id < 0)
        return false;
    gr_text_addf(&name, "engine=%lld", (long long)id);
    name_knobs(d, *config, &name);
    gr_text_add(&name, "\n");
    added = !strstr(gr_text_str(names), gr_text_str(&name));
    if (added)
        gr_text_add(names, gr_text_str(&name));
    gr_text_fini(&name);
    return added;
}

void gr_dnn_names(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules, gr_text *names,
                  int n_most)
{
    ask_all(d, graph, rules, add_name, names, n_most);
}

/* ---- plans ---- */

/* Reads " k2=20 ..." into knob choices. False: it is no such text. */
static bool read_knobs(gr_dnn *d, const char *text, gr_dnn_desc *knob, int64_t *n)
{
    for (*n = 0; *text; (*n)++) {
        cudnnBackendKnobType_t type;
        long long value;
        int kind, len = 0;

        if (*n == MAX_KNOBS || sscanf(text, " k%d=%lld%n", &kind, &value, &len) != 2)
            return false;
        text += len;
        type = (cudnnBackendKnobType_t)kind;
        knob[*n] = gr_dnn_make(d, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        gr_dnn_set(d, knob[*n], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        gr_dnn_set_int(d, knob[*n], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
        gr_dnn_finish(d, knob[*n], "a knob is refused");
    }
    return true;
}

/* The engine with its knobs, finished. */
static gr_dnn_desc make_config(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules,
                               const char *name)
{
    gr_dnn_desc engine, config, knob[MAX_KNOBS];
    const char *why;
    int64_t n_knobs = 0;
    long long id;
    int len = 0;

    if (sscanf(name, "engine=%lld%n", &id, &len) != 1) {
        refuse(d, "it names no engine of cuDNN");
        return NULL;
    }
    engine = gr_dnn_make(d, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    gr_dnn_set_desc(d, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    gr_dnn_set_int(d, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, id);
    gr_dnn_finish(d, engine, "the engine does not take it");
    why = d->is_bad ? NULL : refusal(d, engine, rules);
    if (why)
        refuse(d, why);
    if (!d->is_bad && !read_knobs(d, name + len, knob, &n_knobs))
        refuse(d, "it names no knobs of cuDNN");
    config = gr_dnn_make(d, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    gr_dnn_set_desc(d, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (!d->is_bad && n_knobs > 0)
        gr_dnn_set(d, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   n_knobs, knob);
    gr_dnn_finish(d, config, "the engine does not take these knobs");
    return config;
}

/* False: d->why says why not, and nothing is left. */
static bool make_plan(gr_dnn *d, gr_dnn_desc config, const gr_dnn_rules *rules, gr_dnn_choice *out)
{
    const int mark = d->n_made;
    gr_dnn_desc plan = gr_dnn_make(d, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t n = 0;

    gr_dnn_set(d, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    gr_dnn_set_desc(d, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    gr_dnn_finish(d, plan, "the engine has no plan for it");
    if (!d->is_bad &&
        !get(d, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n))
        refuse(d, "the plan does not say what it needs");
    if (!d->is_bad && n > 0 && (size_t)n > rules->work_limit) {
        snprintf(d->why, sizeof(d->why), "it needs %lld bytes of workspace, the limit is %zu",
                 (long long)n, rules->work_limit);
        d->is_bad = true;
    }
    if (d->is_bad) {
        gr_dnn_rewind(d, mark); /* keeps the text */
        return false;
    }
    *out = (gr_dnn_choice){ plan, n > 0 ? (size_t)n : 0 };
    return true;
}

bool gr_dnn_plan(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules, const char *name,
                 gr_dnn_choice *out)
{
    gr_dnn_desc config = make_config(d, graph, rules, name);

    return !d->is_bad && make_plan(d, config, rules, out);
}

static bool take_config(gr_dnn *d, gr_dnn_desc *config, const gr_dnn_rules *rules, void *arg)
{
    if (engine_of(d, *config, rules) < 0 || !make_plan(d, *config, rules, (gr_dnn_choice *)arg))
        return false;
    d->made[d->n_made++] = *config; /* it lives as long as its plan */
    *config = NULL;
    return true;
}

bool gr_dnn_first(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules, gr_dnn_choice *out)
{
    snprintf(d->why, sizeof(d->why), "it suggests none");
    return ask_all(d, graph, rules, take_config, out, 1) > 0;
}
