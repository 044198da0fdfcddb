// SPDX-License-Identifier: Apache-2.0
#include "common/contract/batch_range.h"
#include "common/contract/batch_split.h"
#include "frameworks/families.h"

namespace dl {

void describe_batch(const BatchRange& range, const BatchSplit& split, JobContext* context) {
  context->batch_range = format_batch(range);
  context->global_batch = split.batch;
  context->accumulation = split.accumulation;
  context->lr_scale = format_lr_scale(lr_scale(range, split.batch));
}

}  // namespace dl
