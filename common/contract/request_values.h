// SPDX-License-Identifier: Apache-2.0
// The values of the --dl-* flags, parsed. The plugins parse them at submission and again on the node; dlrun parses them
// once more from its DL_* environment (common/contract/env_names.h), because versions may differ and input is hostile.
//
// All parsers: kInvalid with "'VALUE' ...; allowed: ..." (the caller puts the flag's name in front); input longer than
// 4096 bytes is refused; no side effects; safe to call from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/path_pattern.h"

namespace dl {

constexpr int kMaxLearners = 100000;
constexpr int kMaxGpusPerLearner = 1024;
constexpr int kMaxRestarts = 1000;

// --dl-framework=NAME[:VERSION], both plain names (parse.h). Whether the framework exists is not checked here: the
// catalogue knows.
struct FrameworkRef {
  std::string name;
  std::string version;  // empty: the default of the catalogue
};
Result<FrameworkRef> parse_framework_ref(std::string_view text);

// --dl-learners=N or MIN:MAX, 1 <= MIN <= MAX <= kMaxLearners. A range makes the job elastic.
struct LearnerRange {
  int min = 1;
  int max = 1;
  bool elastic() const { return min != max; }
};
Result<LearnerRange> parse_learners(std::string_view text);

// --dl-servers=N, 0..kMaxLearners, or MIN:MAX, 1 <= MIN <= MAX <= kMaxPool. A range makes them an elastic pool.
constexpr int kMaxPool = 4096;  // members of a pool (dlpool(3))
struct ServerRange {
  int min = 0;
  int max = 0;
  bool pool = false;  // written as a range
};
Result<ServerRange> parse_servers(std::string_view text);
std::string format_servers(const ServerRange& servers);  // as the flag's value

// --dl-gpus=[TYPE:]N, GPUs per learner; 0 = CPU job.
struct GpuRequest {
  std::string type;  // empty: any type
  int count = 0;
};
Result<GpuRequest> parse_gpus(std::string_view text);

// best=METRIC:min|max:N of --dl-checkpoint: the N checkpoints with the lowest or highest metric are kept. METRIC is the
// name that the program gives to dlckpt_metric(); N from 1 to 1000.
struct BestMetric {
  std::string metric;
  bool lowest = true;
  int count = 1;
};
// 1 to 64 letters, digits and . _ + - /, beginning with a letter or digit ("val/loss").
bool is_metric_name(std::string_view text);
Result<BestMetric> parse_best(std::string_view text);
std::string format_best(const BestMetric& best);

// --dl-checkpoint=PATH[,every=10m|50steps|auto][,keep=3][,keep-every=1000][,best=loss:min:2][,local=DIR][,partner]
// [,objects=NAME:PATH].
// PATH is absolute or relative to the working directory of the job, at most 1024 bytes, without control characters, and
// may hold patterns (path_pattern.h). A PATH in double quotes, with \ before " and \, is taken literally: it may hold
// commas, and its patterns are not expanded.
// every: a time (1s..30d), a number of train steps ("50steps"), or "auto": the interval follows from measurements.
// keep: 1..1000. keep-every: checkpoints of train steps divisible by this number are kept as well. best: see
// BestMetric. local: an absolute path on each node, which is written first; it may hold the same patterns, also beside
// a PATH in quotes. partner (needs local): a copy on the next node. objects: see objects_place.h; with the same
// patterns. The options may come in any order, each at most once; other keys are refused.
struct CheckpointSpec {
  std::string path;
  std::optional<std::chrono::seconds> every;  // interval as a time
  std::optional<int64_t> every_steps;         // interval as a number of train steps
  int keep = 3;
  bool every_auto = false;
  int64_t keep_every = 0;  // 0: none
  std::optional<BestMetric> best = {};
  std::string local = {};  // empty: none
  bool partner = false;
  std::string objects = {};  // empty: none
  bool literal = false;      // the path was in quotes, or is already expanded: its patterns have no meaning
};
Result<CheckpointSpec> parse_checkpoint(std::string_view text);
// Replaces the patterns of path, unless it is literal, of local and of objects by the job's names, and makes the spec
// literal. kInvalid if a name is empty that they need, or if local or objects then has a character that it cannot be
// written with, such as a comma of the job's name. Doing it again changes nothing.
Status expand_checkpoint(const PathNames& names, CheckpointSpec* spec);
// The canonical text, which parse_checkpoint() reads back to the same value.
std::string format_checkpoint(const CheckpointSpec& spec);

// --dl-hang-timeout=TIME: how long a learner may make no progress; 0: no limit. At most a year.
Result<std::chrono::seconds> parse_hang_timeout(std::string_view text);

// --dl-preflight: checks of the nodes before the first learner starts.
enum class PreflightMode { kOff, kQuick, kFull };
Result<PreflightMode> parse_preflight(std::string_view text);  // off, quick, full
const char* preflight_name(PreflightMode mode);

enum class Tier { kAuto, kGuaranteed, kBorrow };
Result<Tier> parse_tier(std::string_view text);
const char* tier_name(Tier tier);

// --dl-placement: which nodes the job gets.
enum class Placement {
  kPack,    // the fewest nodes that have room
  kSpread,  // a node for each learner, or as many nodes as there are
};
Result<Placement> parse_placement(std::string_view text);
const char* placement_name(Placement placement);  // pack, spread

// --dl-image=PATH of a container image, absolute or relative to the working directory of the job; at most 1024 bytes,
// without control characters. image_file.h checks whether the file exists.
Result<std::string> parse_image(std::string_view text);

// --dl-restarts=N, 0..kMaxRestarts.
Result<int> parse_restarts(std::string_view text);

}  // namespace dl
