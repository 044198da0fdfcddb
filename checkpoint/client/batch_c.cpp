// SPDX-License-Identifier: Apache-2.0
// The functions of dlckpt_batch.h. They read what dlrun or the plugin put into the environment, and divide it by
// common/contract/batch_split.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "checkpoint/client/c_errors.h"
#include "checkpoint/client/settings.h"
#include "checkpoint/include/dlckpt_batch.h"
#include "common/base/parse.h"
#include "common/contract/batch_split.h"
#include "common/contract/env_names.h"

namespace {

using dl::BatchRange;
using dl::BatchRule;
using dl::BatchSplit;
using dl::Errc;
using dl::Error;
using dl::Result;
using dl::Status;

int rule_to_c(BatchRule rule) {
  switch (rule) {
    case BatchRule::kLinear:
      return DLCKPT_BATCH_LINEAR;
    case BatchRule::kSqrt:
      return DLCKPT_BATCH_SQRT;
    case BatchRule::kAdascale:
      return DLCKPT_BATCH_ADASCALE;
    case BatchRule::kNone:
      break;
  }
  return DLCKPT_BATCH_NONE;
}

Result<int64_t> number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  auto value = dl::parse_int(text, 1, dl::kMaxBatch);
  if (!value) return std::move(value).error().with_context(name);
  return *value;
}

// Reads the batch that dlrun chose. Precondition: DL_GLOBAL_BATCH is set.
Status read_chosen(dlckpt_batch* out) {
  DL_TRY_ASSIGN(out->batch, number(dl::env::kGlobalBatch, 0));
  DL_TRY_ASSIGN(out->accumulation, number(dl::env::kAccumulation, 1));
  if (out->accumulation > out->batch)
    return Error{Errc::kInvalid, std::string(dl::env::kAccumulation) + " is " + std::to_string(out->accumulation) +
                                     ", more than the " + std::to_string(out->batch) + " samples of " +
                                     dl::env::kGlobalBatch + "; leave both as dlrun sets them"};
  if (const char* scale = std::getenv(dl::env::kLrScale); scale && *scale) {
    // strtod() would not do: in a program with a German locale it expects a comma.
    const char* end = scale + std::strlen(scale);
    if (const auto read = std::from_chars(scale, end, out->lr_scale); read.ec != std::errc() || read.ptr != end)
      out->lr_scale = -1;
    if (!std::isfinite(out->lr_scale) || out->lr_scale <= 0)
      return Error{Errc::kInvalid, std::string(dl::env::kLrScale) + " is '" + std::string(scale).substr(0, 40) +
                                       "'; allowed: a positive number, as dlrun sets it"};
  }
  out->reference = out->batch;
  if (const char* asked = std::getenv(dl::env::kBatch); asked && *asked) {
    auto range = dl::parse_batch(asked);
    if (!range) return std::move(range).error().with_context(dl::env::kBatch);
    out->rule = rule_to_c(range->rule);
    out->reference = range->min;
  }
  out->chosen = 1;
  return {};
}

Status find(int64_t own, int rank, int world_size, dlckpt_batch* out) {
  // The run id is not used here, and a plain program of several ranks need not have one, so any text will do.
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.rank = rank;
  options.world_size = world_size;
  options.run_id = "batch";
  DL_TRY_ASSIGN(const dl::ckpt::Resolved resolved, dl::ckpt::resolve(&options));
  out->rank = resolved.settings.rank;
  out->world_size = resolved.settings.world_size;
  out->lr_scale = 1;
  const char* chosen = std::getenv(dl::env::kGlobalBatch);
  if (chosen && *chosen) {
    DL_TRY(read_chosen(out));
  } else {
    if (own == 0)
      return Error{Errc::kInvalid,
                   "no size of a global batch is given: ask for one with --dl-batch (dlrun --batch), or give "
                   "dlckpt_batch_find a number"};
    if (own < 0 || own > dl::kMaxBatch)
      return Error{Errc::kInvalid, "a global batch of " + std::to_string(own) + " samples; allowed: 1 to " +
                                       std::to_string(dl::kMaxBatch)};
    out->batch = out->reference = own;
    out->accumulation = 1;
  }
  if (out->batch < out->world_size)
    return Error{Errc::kInvalid, "a global batch of " + std::to_string(out->batch) +
                                     " samples cannot be divided over " + std::to_string(out->world_size) +
                                     " learners; allowed: one sample for each, or more"};
  out->local_batch = dl::local_batch({out->batch, out->accumulation}, out->rank, out->world_size);
  return {};
}

Error refused(const std::string& text) {
  return {Errc::kInvalid, text};
}

bool sane(const dlckpt_batch* batch) {
  return batch && batch->struct_size == sizeof *batch && batch->batch >= 1 && batch->accumulation >= 1 &&
         batch->accumulation <= batch->batch && batch->world_size >= 1 && batch->rank >= 0 &&
         batch->rank < batch->world_size;
}

constexpr char kNotFound[] = "this dlckpt_batch was not filled in by dlckpt_batch_find or dlckpt_batch_step";

// The batch of the last train steps, as GlobalBatches of dlckpt-python(3) computes it: they are smaller, or larger by
// fewer samples than there are learners.
BatchSplit last_steps(const dlckpt_batch& whole, int64_t left) {
  const int64_t learners = whole.world_size;
  if (left < 0 || left >= whole.batch + learners) return {whole.batch, whole.accumulation};
  int64_t size = left;
  if (left > whole.batch && left >= 2 * learners) size = std::min(whole.batch, left - learners);
  return {size, std::max<int64_t>(1, std::min(whole.accumulation, size / learners))};
}

}  // namespace

extern "C" {

dlckpt_error dlckpt_batch_find(int64_t own, int rank, int world_size, dlckpt_batch* out) {
  return dl::ckpt::run(dl::ckpt::open_message(), [&]() -> Status {
    if (!out || out->struct_size != sizeof *out)
      return refused("out is NULL, or out->struct_size is not sizeof(dlckpt_batch), " + std::to_string(sizeof *out));
    dlckpt_batch found{};
    found.struct_size = sizeof found;
    DL_TRY(find(own, rank, world_size, &found));
    *out = found;
    return {};
  });
}

dlckpt_error dlckpt_batch_step(const dlckpt_batch* whole, int64_t left, dlckpt_batch* out) {
  return dl::ckpt::run(dl::ckpt::open_message(), [&]() -> Status {
    if (!out) return refused("out is NULL; allowed: a dlckpt_batch");
    if (!sane(whole)) return refused(kNotFound);
    if (left == 0 || left < -1)
      return refused("left is " + std::to_string(left) +
                     "; allowed: the number of samples still to train on, 1 and more, or -1");
    dlckpt_batch step = *whole;
    const BatchSplit split = last_steps(*whole, left);
    step.batch = split.batch;
    step.accumulation = split.accumulation;
    step.local_batch = dl::local_batch(split, step.rank, step.world_size);
    *out = step;
    return {};
  });
}

dlckpt_error dlckpt_batch_part(const dlckpt_batch* step, int64_t pass, int64_t* first, int64_t* count) {
  return dl::ckpt::run(dl::ckpt::open_message(), [&]() -> Status {
    if (!first || !count) return refused("first or count is NULL; allowed: both given");
    if (!sane(step)) return refused(kNotFound);
    if (pass < 0 || pass >= step->accumulation)
      return refused("pass is " + std::to_string(pass) + "; allowed: 0 to " + std::to_string(step->accumulation - 1));
    const auto start_of = [](int64_t total, int64_t number, int64_t parts) {
      return number * (total / parts) + std::min(number, total % parts);
    };
    const int64_t size = dl::part_size(step->batch, pass, step->accumulation);
    *first = start_of(step->batch, pass, step->accumulation) + start_of(size, step->rank, step->world_size);
    *count = dl::part_size(size, step->rank, step->world_size);
    return {};
  });
}

double dlckpt_batch_lr_scale(const dlckpt_batch* batch, double noise) {
  if (!batch) return 1;
  if (batch->rule != DLCKPT_BATCH_ADASCALE || !(noise >= 0)) return batch->lr_scale;
  BatchRange range;
  range.min = std::max<int64_t>(1, batch->reference);
  range.rule = BatchRule::kAdascale;
  return dl::lr_scale(range, std::max<int64_t>(1, batch->batch), noise);
}

}  // extern "C"
