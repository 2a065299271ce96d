/* What tools may see of a step. */
#include "step/inspect.h"

#include "step/private.h"

const gr_graph *gr_step_first_graph(const gr_step *s)
{
    return s->n_entries > 0 ? s->entries[0]->graph : NULL;
}
