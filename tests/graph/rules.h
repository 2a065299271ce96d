/* Operators for tests of the graph room: they have rules but compute nothing. */
#ifndef GR_TESTS_GRAPH_RULES_H
#define GR_TESTS_GRAPH_RULES_H

#include "graph/op.h"

extern const gr_op rule_join;  /* two sources of one shape -> one of that shape */
extern const gr_op rule_write; /* variable, value -> the variable's new value */

gr_value *rule_add_join(gr_graph *g, gr_value *a, gr_value *b);
gr_value *rule_add_write(gr_graph *g, gr_value *var, gr_value *v);

#endif
