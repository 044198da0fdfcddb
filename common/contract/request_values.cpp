// SPDX-License-Identifier: Apache-2.0
#include "common/contract/request_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "common/base/parse.h"
#include "common/contract/image_file.h"
#include "common/contract/objects_place.h"

namespace dl {
namespace {

constexpr size_t kMaxValueBytes = 4096;
constexpr size_t kMaxPathBytes = 1024;
constexpr int kMaxKeep = 1000;
constexpr int64_t kMaxEverySteps = 1000000000000;
constexpr std::chrono::seconds kMaxEvery{30LL * 86400};

constexpr const char* kFrameworkForm = "NAME[:VERSION], each of letters, digits and . _ + -, at most 64";
constexpr const char* kCheckpointForm =
    "PATH[,every=TIME|Nsteps|auto][,keep=N][,keep-every=N][,best=METRIC:min|max:N][,local=DIR][,partner]"
    "[,objects=NAME:PATH]";
constexpr const char* kBestForm = "METRIC:min|max:N, METRIC of letters, digits and . _ + - /, N from 1 to 1000";

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

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Result<std::string> parse_checkpoint_path(std::string_view path, std::string_view text) {
  if (path.empty()) return refuse(text, "has no PATH", kCheckpointForm);
  if (path.size() > kMaxPathBytes)
    return refuse(path, fmt::format("is a path longer than {} bytes", kMaxPathBytes), kCheckpointForm);
  if (has_control_character(path)) return refuse(path, "holds a control character", kCheckpointForm);
  // `--dl-checkpoint=every=10m` is far more often a forgotten path than a folder of that name.
  for (const char* key : {"every=", "keep=", "keep-every=", "best=", "local=", "objects="}) {
    if (path.rfind(key, 0) != 0) continue;
    return refuse(text, "has no PATH",
                  std::string(kCheckpointForm) + " (a folder of this name: ./" + printable(path) + ")");
  }
  return std::string(path);
}

// Takes a path in quotes from the front of *rest, and leaves there what follows it: nothing, or a comma and the
// options.
Result<std::string> take_quoted(std::string_view* rest, std::string_view text) {
  std::string path;
  for (size_t i = 1; i < rest->size(); ++i) {
    const char c = (*rest)[i];
    if (c == '"') {
      *rest = rest->substr(i + 1);
      if (!rest->empty() && rest->front() != ',') return refuse(text, "goes on behind the quotes", kCheckpointForm);
      return path;
    }
    if (c == '\\' && i + 1 < rest->size()) ++i;
    path += (*rest)[i];
  }
  return refuse(text, "has no closing quote", kCheckpointForm);
}

std::string quoted_path(const std::string& path) {
  std::string out = "\"";
  for (const char c : path) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

Status parse_every(std::string_view value, CheckpointSpec* spec) {
  const std::string allowed = "every=TIME from 1s to 30d (90, 30s, 10m, 1h30m), every=Nsteps (50steps) or every=auto";
  if (spec->every || spec->every_steps || spec->every_auto) return refuse(value, "is a second every=", "every= once");
  if (value == "auto") {
    spec->every_auto = true;
    return {};
  }
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

Status parse_local(std::string_view value, CheckpointSpec* spec) {
  const std::string allowed = "local=DIR, an absolute path of at most 1024 bytes";
  if (value.empty() || value.front() != '/' || value.size() > kMaxPathBytes)
    return refuse(value, "is not a directory of a node", allowed);
  if (has_control_character(value)) return refuse(value, "holds a control character", allowed);
  if (Status checked = check_path_pattern(value); !checked) return std::move(checked).error().with_context("local");
  spec->local = value;
  return {};
}

Status parse_objects(std::string_view value, CheckpointSpec* spec) {
  if (Status place = check_objects_place(value); !place) return std::move(place).error().with_context("objects");
  if (Status checked = check_path_pattern(value); !checked) return std::move(checked).error().with_context("objects");
  spec->objects = value;
  return {};
}

// Parses one KEY=VALUE, or a word, behind the path.
Status parse_checkpoint_option(std::string_view field, CheckpointSpec* spec) {
  const size_t equals = field.find('=');
  const std::string_view key = field.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view{} : field.substr(equals + 1);
  if (field == "partner") {
    spec->partner = true;
    return {};
  }
  if (equals == std::string_view::npos) return refuse(field, "is not an option of a checkpoint", kCheckpointForm);
  if (key == "every") return parse_every(value, spec);
  if (key == "keep") {
    auto keep = parse_int(value, 1, kMaxKeep);
    if (!keep)
      return refuse(value, "is not a number of checkpoints to keep", fmt::format("keep=N from 1 to {}", kMaxKeep));
    spec->keep = static_cast<int>(*keep);
    return {};
  }
  if (key == "keep-every") {
    auto steps = parse_int(value, 1, kMaxEverySteps);
    if (!steps) return refuse(value, "is not a number of train steps", "keep-every=N, such as keep-every=1000");
    spec->keep_every = *steps;
    return {};
  }
  if (key == "best") {
    DL_TRY_ASSIGN(spec->best, parse_best(value));
    return {};
  }
  if (key == "local") return parse_local(value, spec);
  if (key == "objects") return parse_objects(value, spec);
  return refuse(field, "is not an option of a checkpoint",
                std::string(kCheckpointForm) + "; a PATH that holds a comma stands in double quotes");
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

Result<ServerRange> parse_servers(std::string_view text) {
  const std::string allowed =
      fmt::format("a whole number from 0 to {}, or MIN:MAX from 1 to {} for an elastic pool", kMaxLearners, kMaxPool);
  DL_TRY(check_length(text, allowed));
  const size_t colon = text.find(':');
  ServerRange servers;
  servers.pool = colon != std::string_view::npos;
  auto min = parse_int(text.substr(0, colon), servers.pool ? 1 : 0, servers.pool ? kMaxPool : kMaxLearners);
  if (!min) return refuse(text, "is not a number of parameter servers", allowed);
  servers.min = servers.max = static_cast<int>(*min);
  if (!servers.pool) return servers;
  auto max = parse_int(text.substr(colon + 1), 1, kMaxPool);
  if (!max) return refuse(text, "is not a range of parameter servers", allowed);
  servers.max = static_cast<int>(*max);
  if (servers.max < servers.min) return refuse(text, "has a MIN above its MAX", allowed);
  return servers;
}

std::string format_servers(const ServerRange& servers) {
  return servers.pool ? fmt::format("{}:{}", servers.min, servers.max) : std::to_string(servers.max);
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

bool is_metric_name(std::string_view text) {
  std::string plain(text);
  // The rules of a plain name, but slashes may divide it into groups, as TensorBoard writes metrics.
  if (!plain.empty() && plain.front() != '/') std::replace(plain.begin(), plain.end(), '/', '_');
  return is_plain_name(plain);
}

Result<BestMetric> parse_best(std::string_view text) {
  DL_TRY(check_length(text, kBestForm));
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3) return refuse(text, "does not say which checkpoints are best", kBestForm);
  if (!is_metric_name(parts[0])) return refuse(text, "does not name a metric", kBestForm);
  if (parts[1] != "min" && parts[1] != "max") return refuse(text, "has neither min nor max", kBestForm);
  auto count = parse_int(parts[2], 1, kMaxKeep);
  if (!count) return refuse(text, "does not say how many", kBestForm);
  return BestMetric{parts[0], parts[1] == "min", static_cast<int>(*count)};
}

std::string format_best(const BestMetric& best) {
  return fmt::format("{}:{}:{}", best.metric, best.lowest ? "min" : "max", best.count);
}

Result<CheckpointSpec> parse_checkpoint(std::string_view text) {
  DL_TRY(check_length(text, kCheckpointForm));
  CheckpointSpec spec;
  std::string_view rest = text;
  if (text.front() == '"') {
    DL_TRY_ASSIGN(const std::string quoted, take_quoted(&rest, text));
    DL_TRY_ASSIGN(spec.path, parse_checkpoint_path(quoted, text));
    spec.literal = true;
  }
  const std::vector<std::string> fields = split(rest, ',');
  if (!spec.literal) {
    DL_TRY_ASSIGN(spec.path, parse_checkpoint_path(fields.front(), text));
    DL_TRY(check_path_pattern(spec.path));
    if (spec.path.find("://") != std::string::npos)
      return refuse(spec.path, "is an address, and checkpoints are files of a file system",
                    "a PATH on a file system that all nodes see");
  }
  std::vector<std::string> seen;
  for (size_t i = 1; i < fields.size(); ++i) {
    const std::string key = fields[i].substr(0, fields[i].find('='));
    // parse_every() refuses a second every= with a sentence of its own.
    if (key != "every" && std::find(seen.begin(), seen.end(), key) != seen.end())
      return refuse(fields[i], "is a second " + printable(key), printable(key) + " once");
    seen.push_back(key);
    DL_TRY(parse_checkpoint_option(fields[i], &spec));
  }
  if (spec.partner && spec.local.empty())
    return refuse(text, "has partner without local=", "local=DIR,partner: it copies what is at the local level");
  return spec;
}

Status expand_checkpoint(const PathNames& names, CheckpointSpec* spec) {
  if (!spec->literal) {
    DL_TRY_ASSIGN(spec->path, expand_path(spec->path, names));
    spec->literal = true;
  }
  auto local = expand_path(spec->local, names);
  if (!local) return std::move(local).error().with_context("local");
  // Learners read it without quotes, and look for patterns in it again.
  if (const size_t at = local->find_first_of(",%$`"); at != std::string::npos)
    return refuse(*local, fmt::format("holds a '{}', which local= cannot", (*local)[at]),
                  "another job name, or local=DIR without %x and %%");
  spec->local = *std::move(local);
  auto objects = expand_path(spec->objects, names);
  if (!objects) return std::move(objects).error().with_context("objects");
  if (const size_t at = objects->find_first_of(",%$`\""); at != std::string::npos)
    return refuse(*objects, fmt::format("holds a '{}', which objects= cannot", (*objects)[at]),
                  "another job name, or objects=NAME:PATH without %x and %%");
  spec->objects = *std::move(objects);
  return {};
}

std::string format_checkpoint(const CheckpointSpec& spec) {
  const bool plain = spec.path.find_first_of(",%$`\"\\") == std::string::npos && spec.path.rfind('~', 0) != 0;
  std::string out = spec.literal && !plain ? quoted_path(spec.path) : spec.path;
  if (spec.every_auto)
    out += ",every=auto";
  else if (spec.every_steps)
    out += fmt::format(",every={}steps", *spec.every_steps);
  else if (spec.every)
    out += ",every=" + format_duration(*spec.every);
  out += fmt::format(",keep={}", spec.keep);
  if (spec.keep_every > 0) out += fmt::format(",keep-every={}", spec.keep_every);
  if (spec.best) out += ",best=" + format_best(*spec.best);
  if (!spec.local.empty()) out += ",local=" + spec.local;
  if (spec.partner) out += ",partner";
  if (!spec.objects.empty()) out += ",objects=" + spec.objects;
  return out;
}

Result<Tier> parse_tier(std::string_view text) {
  for (Tier tier : {Tier::kAuto, Tier::kGuaranteed, Tier::kBorrow})
    if (text == tier_name(tier)) return tier;
  const char* allowed = "auto, guaranteed, borrow";
  DL_TRY(check_length(text, allowed));
  return refuse(text, "is not a tier", allowed);
}

Result<Placement> parse_placement(std::string_view text) {
  for (Placement placement : {Placement::kPack, Placement::kSpread})
    if (text == placement_name(placement)) return placement;
  const char* allowed = "pack, spread";
  DL_TRY(check_length(text, allowed));
  return refuse(text, "is not a placement", allowed);
}

const char* placement_name(Placement placement) {
  return placement == Placement::kSpread ? "spread" : "pack";
}

Result<std::chrono::seconds> parse_hang_timeout(std::string_view text) {
  const char* allowed = "a TIME such as 30m, at most 365 days; 0 for none";
  DL_TRY(check_length(text, allowed));
  const auto time = parse_duration(text);
  if (!time || *time > std::chrono::hours(24 * 365)) return refuse(text, "is not a time without progress", allowed);
  return *time;
}

Result<PreflightMode> parse_preflight(std::string_view text) {
  for (PreflightMode mode : {PreflightMode::kOff, PreflightMode::kQuick, PreflightMode::kFull})
    if (text == preflight_name(mode)) return mode;
  const char* allowed = "off, quick, full";
  DL_TRY(check_length(text, allowed));
  return refuse(text, "is not a kind of check", allowed);
}

const char* preflight_name(PreflightMode mode) {
  switch (mode) {
    case PreflightMode::kQuick:
      return "quick";
    case PreflightMode::kFull:
      return "full";
    case PreflightMode::kOff:
      break;
  }
  return "off";
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

Result<std::string> parse_image(std::string_view text) {
  const char* allowed =
      "PATH of a directory, or of a file .sqfs, .squashfs, .sqsh or .sif, at most 1024 bytes, and for a file "
      "PATH@sha256:DIGEST with its 64 digits";
  DL_TRY(check_length(text, allowed));
  if (text.size() > kMaxPathBytes || text.find("://") != std::string_view::npos || has_control_character(text))
    return refuse(text, "is not the path of a container image", allowed);
  if (text.front() == '~' || text.find('$') != std::string_view::npos)
    return refuse(text, "has a '~' or '$', which is not expanded, since no shell reads this",
                  "the path in full (a folder called ~: ./~)");
  // Without this check a malformed digest would be taken for a part of the path.
  if (text.find("@sha256:") != std::string_view::npos && split_image(std::string(text)).digest.empty())
    return refuse(text, "has no digest of 64 hexadecimal digits behind @sha256:", allowed);
  return std::string(text);
}

Result<int> parse_restarts(std::string_view text) {
  const std::string allowed = fmt::format("a whole number from 0 to {}", kMaxRestarts);
  DL_TRY(check_length(text, allowed));
  auto restarts = parse_int(text, 0, kMaxRestarts);
  if (!restarts) return refuse(text, "is not a number of restarts", allowed);
  return static_cast<int>(*restarts);
}

}  // namespace dl
