/* Everything of the public API in one include. */
#ifndef GRADUS_GRADUS_H
#define GRADUS_GRADUS_H

#include "gradus/attention.h"
#include "gradus/augment.h"
#include "gradus/ckpt.h"
#include "gradus/comm.h"
#include "gradus/conv.h"
#include "gradus/data.h"
#include "gradus/graph.h"
#include "gradus/image.h"
#include "gradus/index.h"
#include "gradus/inspect.h"
#include "gradus/loss.h"
#include "gradus/metric.h"
#include "gradus/models.h"
#include "gradus/nn.h"
#include "gradus/norm.h"
#include "gradus/ops.h"
#include "gradus/optim.h"
#include "gradus/random.h"
#include "gradus/recipe.h"
#include "gradus/schedule.h"
#include "gradus/settings.h"
#include "gradus/status.h"
#include "gradus/step.h"
#include "gradus/tensor.h"

#endif
