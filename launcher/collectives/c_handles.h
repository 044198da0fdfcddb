// SPDX-License-Identifier: Apache-2.0
// What dllearner_ctx is inside.
#pragma once

#include <memory>

#include "launcher/collectives/context.h"

struct dllearner_ctx {
  std::unique_ptr<dl::learner::Context> context;
};
