// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/scaling_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/unique_fd.h"
#include "common/contract/batch_split.h"
#include "common/contract/job_directory.h"
#include "common/json/json.h"

namespace dl::record {
namespace {

constexpr size_t kMostNeighbours = 500;

Json size_json(const scaling::Size& size) {
  return {{"learners", size.learners}, {"nodes", size.nodes}, {"batch", size.batch}, {"passes", size.passes}};
}

int small(const Json& json, const char* name, int otherwise) {
  const auto value = json.value<int64_t>(name, otherwise);
  return static_cast<int>(std::clamp<int64_t>(value, -1, 1'000'000'000));
}

scaling::Size size_from(const Json& json) {
  scaling::Size size;
  size.learners = small(json, "learners", 1);
  size.nodes = small(json, "nodes", 1);
  size.batch = json.value<int64_t>("batch", 1);
  size.passes = json.value<int64_t>("passes", 1);
  return size;
}

Error no_record(const std::string& why) {
  return {Errc::kInvalid, std::string("the record of the job's train steps (scaling.json) cannot be used: ") + why};
}

ScalingRecord record_from(const Json& json) {
  ScalingRecord record;
  record.name = json.value<std::string>("name", "");
  record.framework = json.value<std::string>("framework", "");
  record.gpu_type = json.value<std::string>("gpu_type", "");
  record.gpus_per_learner = small(json, "gpus_per_learner", 0);
  record.batch = json.value<std::string>("batch", "");
  record.asked.min = std::clamp(small(json, "least_learners", 1), 1, kMaxLearners);
  record.asked.max = std::clamp(small(json, "most_learners", 1), record.asked.min, kMaxLearners);
  if (const Json* noise = json.find("noise"); noise != nullptr && noise->is_number())
    record.noise = noise->get<double>() >= 0 ? std::min(noise->get<double>(), 1e9) : -1;
  if (const Json* now = json.find("now")) record.now = size_from(*now);
  if (const Json* all = json.find("measured")) {
    for (const Json& item : *all) {
      scaling::Measured measured;
      measured.size = size_from(item);
      measured.step_s = item.value<double>("step_s", 0);
      measured.spread_s = item.value<double>("spread_s", 0);
      measured.steps = item.value<int64_t>("steps", 0);
      measured.time_s = item.value<int64_t>("time_s", 0);
      scaling::add(measured, &record.measured);
    }
  }
  return record;
}

// The file of a job directory beside ours, if it is a plain one of this user.
Result<std::string> read_neighbour(int parent, const std::string& name, unsigned user) {
  const UniqueFd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return Error{Errc::kNotFound, name};
  const UniqueFd file(::openat(folder.get(), job_directory::kScaling, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != user ||
      about.st_size > static_cast<off_t>(kMostScalingBytes))
    return Error{Errc::kNotFound, name};
  std::string text(static_cast<size_t>(about.st_size), '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return Error{Errc::kIo, name};
  text.resize(static_cast<size_t>(got));
  return text;
}

}  // namespace

std::string format_scaling(const ScalingRecord& record) {
  Json json;
  json["version"] = kScalingVersion;
  json["name"] = record.name;
  json["framework"] = record.framework;
  json["gpu_type"] = record.gpu_type;
  json["gpus_per_learner"] = record.gpus_per_learner;
  json["least_learners"] = record.asked.min;
  json["most_learners"] = record.asked.max;
  json["batch"] = record.batch;
  json["noise"] = record.noise >= 0 ? Json(record.noise) : Json(nullptr);
  json["now"] = size_json(record.now);
  json["measured"] = Json::array();
  for (const scaling::Measured& measured : record.measured) {
    Json item = size_json(measured.size);
    item["step_s"] = measured.step_s;
    item["spread_s"] = measured.spread_s;
    item["steps"] = measured.steps;
    item["time_s"] = measured.time_s;
    json["measured"].push_back(std::move(item));
  }
  return json.dump() + "\n";
}

Result<ScalingRecord> parse_scaling(const std::string& text) {
  if (text.size() > kMostScalingBytes)
    return no_record("it is longer than " + std::to_string(kMostScalingBytes) + " bytes");
  const Json json = Json::parse(text);
  if (!json.is_object()) return no_record("it is not a JSON object");
  try {
    if (json.value<int>("version", 0) != kScalingVersion)
      return no_record("its version is not " + std::to_string(kScalingVersion));
    return record_from(json);
  } catch (const JsonError& error) {
    return no_record(error.what());
  }
}

Result<ScalingRecord> read_scaling(const std::string& path) {
  DL_TRY_ASSIGN(const std::string text, read_small_file(path, kMostScalingBytes));
  return parse_scaling(text);
}

Result<scaling::Size> size_of(const ScalingRecord& record, int learners) {
  scaling::Size size;
  size.learners = learners;
  size.batch = learners;
  const int each = std::max(1, (record.now.learners + record.now.nodes - 1) / std::max(1, record.now.nodes));
  size.nodes = learners == record.now.learners ? record.now.nodes : (learners + each - 1) / each;
  if (record.batch.empty()) return size;
  DL_TRY_ASSIGN(const BatchRange range, parse_batch(record.batch));
  DL_TRY_ASSIGN(const BatchSplit split, split_of_job(range, record.asked.min, learners));
  size.batch = split.batch;
  size.passes = split.accumulation;
  return size;
}

std::vector<scaling::Measured> earlier_measurements(const std::string& dir, const ScalingRecord& record,
                                                    unsigned user) {
  std::vector<scaling::Measured> all;
  const size_t slash = dir.rfind('/');
  if (slash == std::string::npos) return all;
  const std::string own = dir.substr(slash + 1);
  std::unique_ptr<DIR, int (*)(DIR*)> parent(::opendir(slash == 0 ? "/" : dir.substr(0, slash).c_str()), ::closedir);
  if (!parent) return all;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(parent.get())) {
    const std::string name = entry->d_name;
    if (name.rfind("dl-", 0) == 0 && name != own) names.push_back(name);
  }
  // dl-9 is older than dl-10.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a > b;
  });
  if (names.size() > kMostNeighbours) names.resize(kMostNeighbours);
  names.push_back(own);
  for (const std::string& name : names) {
    const auto text = read_neighbour(::dirfd(parent.get()), name, user);
    if (!text) continue;
    const auto other = parse_scaling(*text);
    if (!other || other->name != record.name || other->framework != record.framework ||
        other->gpu_type != record.gpu_type || other->gpus_per_learner != record.gpus_per_learner)
      continue;
    for (const scaling::Measured& measured : other->measured) scaling::add(measured, &all);
  }
  return all;
}

}  // namespace dl::record
