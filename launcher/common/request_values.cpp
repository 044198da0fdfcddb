// SPDX-License-Identifier: Apache-2.0
#include "launcher/common/request_values.h"

#include <fmt/format.h>

#include <vector>

#include "launcher/common/parse.h"

namespace dl {
namespace {

constexpr size_t kMaxValueBytes = 4096;
constexpr size_t kMaxPathBytes = 1024;
constexpr int kMaxKeep = 1000;
constexpr int64_t kMaxEverySteps = 1000000000000;
constexpr std::chrono::seconds kMaxEvery{30LL * 86400};

constexpr const char* kFrameworkForm = "NAME[:VERSION], each of letters, digits and . _ + -, at most 64";
constexpr const char* kCheckpointForm = "PATH[,every=TIME|Nsteps][,keep=N]";

// All messages have the same shape; `reason` may be empty.
Error refuse(std::string_view value, const std::string& reason, const std::string& allowed) {
  return Error{Errc::kInvalid, fmt::format("'{}' {}; allowed: {}", printable(value), reason, allowed)};
}

Status check_length(std::string_view text, const std::string& allowed) {
  if (text.empty()) return Error{Errc::kInvalid, "the value is empty; allowed: " + allowed};
  if (text.size() > kMaxValueBytes)
    return refuse(text, fmt::format("is longer than {} bytes", kMaxValueBytes), allowed);
  return {};
}

Result<std::string> parse_checkpoint_path(std::string_view path, std::string_view text) {
  if (path.empty()) return refuse(text, "has no PATH", kCheckpointForm);
  if (path.size() > kMaxPathBytes)
    return refuse(path, fmt::format("is a path longer than {} bytes", kMaxPathBytes), kCheckpointForm);
  for (char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return refuse(path, "holds a control character", kCheckpointForm);
  }
  // `--dl-checkpoint=every=10m` is a forgotten path far more often than a folder of that name.
  if (path.rfind("every=", 0) == 0 || path.rfind("keep=", 0) == 0)
    return refuse(text, "has no PATH",
                  std::string(kCheckpointForm) + " (a folder of this name: ./" + printable(path) + ")");
  return std::string(path);
}

Status parse_every(std::string_view value, CheckpointSpec* spec) {
  const std::string allowed = "every=TIME from 1s to 30d (90, 30s, 10m, 1h30m) or every=Nsteps (50steps)";
  if (spec->every || spec->every_steps) return refuse(value, "is a second every=", "every= once");
  constexpr std::string_view kSteps = "steps";
  if (value.size() > kSteps.size() && value.substr(value.size() - kSteps.size()) == kSteps) {
    auto steps = parse_int(value.substr(0, value.size() - kSteps.size()), 1, kMaxEverySteps);
    if (!steps) return refuse(value, "is not a number of train steps", allowed);
    spec->every_steps = *steps;
    return {};
  }
  auto time = parse_duration(value);
  if (!time || *time < std::chrono::seconds(1) || *time > kMaxEvery)
    return refuse(value, "is not an interval between checkpoints", allowed);
  spec->every = *time;
  return {};
}

}  // namespace

Result<FrameworkRef> parse_framework_ref(std::string_view text) {
  DL_TRY(check_length(text, kFrameworkForm));
  FrameworkRef ref;
  const size_t colon = text.find(':');
  ref.name = text.substr(0, colon);
  if (!is_plain_name(ref.name)) return refuse(text, "is not the name of a framework", kFrameworkForm);
  if (colon != std::string_view::npos) {
    ref.version = text.substr(colon + 1);
    if (!is_plain_name(ref.version)) return refuse(text, "does not name a version", kFrameworkForm);
  }
  return ref;
}

Result<LearnerRange> parse_learners(std::string_view text) {
  const std::string allowed = fmt::format("N or MIN:MAX, from 1 to {}", kMaxLearners);
  DL_TRY(check_length(text, allowed));
  const size_t colon = text.find(':');
  auto min = parse_int(text.substr(0, colon), 1, kMaxLearners);
  if (!min) return refuse(text, "is not a number of learners", allowed);
  LearnerRange range{static_cast<int>(*min), static_cast<int>(*min)};
  if (colon != std::string_view::npos) {
    auto max = parse_int(text.substr(colon + 1), 1, kMaxLearners);
    if (!max) return refuse(text, "is not a range of learners", allowed);
    range.max = static_cast<int>(*max);
    if (range.max < range.min) return refuse(text, "has a MIN above its MAX", allowed);
  }
  return range;
}

Result<GpuRequest> parse_gpus(std::string_view text) {
  const std::string allowed = fmt::format("[TYPE:]N GPUs for each learner, N from 0 to {}", kMaxGpusPerLearner);
  DL_TRY(check_length(text, allowed));
  GpuRequest gpus;
  const size_t colon = text.find(':');
  std::string_view number = text;
  if (colon != std::string_view::npos) {
    gpus.type = text.substr(0, colon);
    if (!is_plain_name(gpus.type)) return refuse(text, "does not name a type of GPU", allowed);
    number = text.substr(colon + 1);
  }
  auto count = parse_int(number, 0, kMaxGpusPerLearner);
  if (!count) return refuse(text, "is not a number of GPUs", allowed);
  gpus.count = static_cast<int>(*count);
  return gpus;
}

Result<CheckpointSpec> parse_checkpoint(std::string_view text) {
  DL_TRY(check_length(text, kCheckpointForm));
  CheckpointSpec spec;
  const std::vector<std::string> fields = split(text, ',');
  DL_TRY_ASSIGN(spec.path, parse_checkpoint_path(fields.front(), text));
  bool keep_seen = false;
  for (size_t i = 1; i < fields.size(); ++i) {
    const std::string_view field = fields[i];
    const size_t equals = field.find('=');
    const std::string_view key = field.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view{} : field.substr(equals + 1);
    if (key == "every" && equals != std::string_view::npos) {
      DL_TRY(parse_every(value, &spec));
    } else if (key == "keep" && equals != std::string_view::npos) {
      if (keep_seen) return refuse(value, "is a second keep=", "keep= once");
      auto keep = parse_int(value, 1, kMaxKeep);
      if (!keep)
        return refuse(value, "is not a number of checkpoints to keep", fmt::format("keep=N from 1 to {}", kMaxKeep));
      spec.keep = static_cast<int>(*keep);
      keep_seen = true;
    } else {
      return refuse(field, "is not an option of a checkpoint",
                    std::string(kCheckpointForm) + "; a comma cannot be part of PATH");
    }
  }
  return spec;
}

std::string format_checkpoint(const CheckpointSpec& spec) {
  std::string out = spec.path;
  if (spec.every_steps)
    out += fmt::format(",every={}steps", *spec.every_steps);
  else if (spec.every)
    out += ",every=" + format_duration(*spec.every);
  return out + fmt::format(",keep={}", spec.keep);
}

Result<Tier> parse_tier(std::string_view text) {
  for (Tier tier : {Tier::kAuto, Tier::kGuaranteed, Tier::kBorrow})
    if (text == tier_name(tier)) return tier;
  const char* allowed = "auto, guaranteed, borrow";
  DL_TRY(check_length(text, allowed));
  return refuse(text, "is not a tier", allowed);
}

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::kGuaranteed:
      return "guaranteed";
    case Tier::kBorrow:
      return "borrow";
    case Tier::kAuto:
      break;
  }
  return "auto";
}

Result<int> parse_restarts(std::string_view text) {
  const std::string allowed = fmt::format("a whole number from 0 to {}", kMaxRestarts);
  DL_TRY(check_length(text, allowed));
  auto restarts = parse_int(text, 0, kMaxRestarts);
  if (!restarts) return refuse(text, "is not a number of restarts", allowed);
  return static_cast<int>(*restarts);
}

}  // namespace dl
