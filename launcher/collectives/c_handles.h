// SPDX-License-Identifier: Apache-2.0
// The definition of dllearner_ctx.
#pragma once

#include <memory>

#include "launcher/collectives/context.h"

struct dllearner_ctx {
  std::unique_ptr<dl::learner::Context> context;
};
