// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/decide/question.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "common/base/parse.h"
#include "slurm-plugin/sim/decide/fields.h"

namespace dl::sim {
namespace {

namespace elastic = policy::elastic;

constexpr int64_t kMostGpus = elastic::kMostGpusOfPoint;
constexpr size_t kMostJobs = 100'000;

Error invalid(std::string text) {
  return Error{Errc::kInvalid, std::move(text)};
}

class Reader {
 public:
  Result<Question> read(std::string_view line) {
    const Json json = Json::parse(line);
    if (json.is_broken()) return invalid("the line is not JSON; allowed: one object in { } on each line");
    Fields fields(json, "");
    std::string admission = "hold";
    std::string objective = "speedup";
    fields.needs("nodes").needs("jobs").text("admission", &admission).text("objective", &objective);
    fields.number("least_gain", 0, 1, &problem().least_gain).number("gap", 0, 1, &problem().gap);
    fields.whole("work", 0, int64_t{1} << 40, &problem().work);
    const Json* nodes = fields.array("nodes");
    const Json* tenants = fields.array("tenants");
    const Json* jobs = fields.array("jobs");
    DL_TRY(fields.end());
    if (admission != "hold" && admission != "drop")
      return invalid("admission: '" + printable(admission) + "' is not allowed; allowed: hold, drop");
    if (objective != "speedup" && objective != "completion")
      return invalid("objective: '" + printable(objective) + "' is not allowed; allowed: speedup, completion");
    if (objective == "completion") problem().objective = elastic::Objective::kCompletion;
    question_.drop = admission == "drop";
    DL_TRY(read_nodes(*nodes));
    problem().types = static_cast<int>(question_.types.size());
    tenant_index_.emplace("", 0);
    if (tenants != nullptr) DL_TRY(read_each(*tenants, "tenants", &Reader::read_tenant));
    if (jobs->size() > kMostJobs)
      return invalid(fmt::format("jobs: {} are too many; allowed: at most {}", jobs->size(), kMostJobs));
    DL_TRY(read_each(*jobs, "jobs", &Reader::read_job));
    DL_TRY(elastic::check(problem()));
    return std::move(question_);
  }

 private:
  elastic::Problem& problem() { return question_.problem; }

  Status read_each(const Json& list, const std::string& name,
                   Status (Reader::*read_one)(const Json&, const std::string&)) {
    for (size_t i = 0; i < list.size(); ++i) DL_TRY((this->*read_one)(list[i], fmt::format("{}[{}]", name, i)));
    return {};
  }

  Status read_nodes(const Json& nodes) {
    std::vector<int64_t> gpus;
    for (size_t i = 0; i < nodes.size(); ++i) {
      Fields fields(nodes[i], fmt::format("nodes[{}]", i));
      std::string type = "gpu";
      int64_t each = 0;
      int64_t count = 1;
      fields.needs("gpus").text("type", &type).whole("gpus", 1, 1024, &each).whole("count", 1, 1'000'000, &count);
      DL_TRY(fields.end());
      const size_t index = type_index(type);
      if (question_.types.size() > elastic::kMostTypes)
        return invalid(fmt::format("nodes: more than {} types of GPU; allowed: up to that many", elastic::kMostTypes));
      gpus.resize(question_.types.size());
      gpus[index] += each * count;
      per_node_[index] = std::max(per_node_[index], each);
      if (gpus[index] > 100 * kMostGpus) return invalid("nodes: more than 100,000,000 GPUs of one type");
    }
    if (gpus.empty()) return invalid("nodes: the list is empty; allowed: one entry or more, with type and gpus");
    elastic::Share all;
    for (const int64_t n : gpus) all.gpus.push_back(static_cast<int>(n));
    problem().shares.push_back(std::move(all));
    return {};
  }

  size_t type_index(const std::string& name) {
    const auto found = std::find(question_.types.begin(), question_.types.end(), name);
    if (found != question_.types.end()) return static_cast<size_t>(found - question_.types.begin());
    question_.types.push_back(name);
    return question_.types.size() - 1;
  }

  Result<size_t> known_type(const std::string& name, const std::string& path) const {
    const auto found = std::find(question_.types.begin(), question_.types.end(), name);
    if (found == question_.types.end())
      return invalid(path + ": '" + printable(name) +
                     "' is the type of no node; allowed: " + join(question_.types, ", "));
    return static_cast<size_t>(found - question_.types.begin());
  }

  Status read_tenant(const Json& json, const std::string& path) {
    Fields fields(json, path);
    std::string name;
    std::string parent;
    fields.needs("name").text("name", &name).text("parent", &parent);
    const Json* most = fields.object("most");
    DL_TRY(fields.end());
    const auto above = tenant_index_.find(parent);
    if (above == tenant_index_.end())
      return invalid(path + ".parent: '" + printable(parent) +
                     "' is not a tenant earlier in the list; allowed: the parent before its children");
    elastic::Share share{above->second, problem().shares[above->second].gpus};
    if (most != nullptr) {
      Fields limits(*most, path + ".most");
      for (size_t type = 0; type < question_.types.size(); ++type) {
        int64_t gpus = share.gpus[type];
        limits.whole(question_.types[type].c_str(), 0, 100 * kMostGpus, &gpus);
        share.gpus[type] = static_cast<int>(gpus);
      }
      DL_TRY(limits.end());
    }
    if (!tenant_index_.emplace(name, static_cast<int>(problem().shares.size())).second)
      return invalid(path + ".name: '" + printable(name) + "' is given twice; allowed: once");
    problem().shares.push_back(std::move(share));
    return {};
  }

  Status read_job(const Json& json, const std::string& path) {
    Fields fields(json, path);
    elastic::Job job;
    std::string id;
    std::string tenant;
    int64_t fewest = 1;
    int64_t most = kMostGpus;
    int64_t restarts = 0;
    fields.needs("id").needs("speeds").text("id", &id).text("tenant", &tenant);
    fields.whole("min", 1, kMostGpus, &fewest)
        .whole("max", 1, kMostGpus, &most)
        .whole("restarts", 0, 1 << 30, &restarts);
    fields.number("weight", 1e-12, elastic::kMostValue, &job.weight)
        .number("age_s", 0, elastic::kMostValue, &job.age_s);
    fields.number("restart_s", 0, elastic::kMostValue, &job.restart_s);
    fields.number("left_s", 0, elastic::kMostValue, &job.left_s);
    fields.number("waited_s", 0, elastic::kMostValue, &job.waited_s);
    const Json* now = fields.object("now");
    const Json* speeds = fields.object("speeds");
    DL_TRY(fields.end());
    if (fewest > most)
      return invalid(fmt::format("{}: min {} is more than max {}; allowed: min up to max", path, fewest, most));
    const auto share = tenant_index_.find(tenant);
    if (share == tenant_index_.end())
      return invalid(path + ".tenant: '" + printable(tenant) +
                     "' is not one of the tenants; allowed: a name of the list tenants");
    job.share = share->second;
    job.restarts = static_cast<int>(restarts);
    DL_TRY(read_speeds(*speeds, path + ".speeds", &job));
    if (now != nullptr) DL_TRY(read_now(*now, path + ".now", &job));
    keep_within(fewest, most, &job);
    if (job.points.empty())
      return invalid(fmt::format("{}.speeds: none is for {} to {} GPUs, min and max", path, fewest, most));
    question_.jobs.push_back(std::move(id));
    problem().jobs.push_back(std::move(job));
    return {};
  }

  Status read_speeds(const Json& json, const std::string& path, elastic::Job* job) {
    for (const JsonMember& member : json.members()) {
      DL_TRY_ASSIGN(const size_t type, known_type(member.name, path));
      if (!member.value.is_array() || member.value.size() > elastic::kMostPointsOfJob)
        return invalid(
            fmt::format("{}.{}: is not a list of at most {} sizes", path, member.name, elastic::kMostPointsOfJob));
      for (size_t i = 0; i < member.value.size(); ++i) {
        Fields fields(member.value[i], fmt::format("{}.{}[{}]", path, member.name, i));
        elastic::Point point;
        int64_t gpus = 0;
        int64_t nodes = 0;
        fields.needs("gpus").needs("speed").whole("gpus", 1, kMostGpus, &gpus).whole("nodes", 1, kMostGpus, &nodes);
        if (nodes > gpus)
          return invalid(
              fmt::format("{}.{}[{}].nodes: {} nodes are too many for {} GPU{}; allowed: up to one node for each GPU",
                          path, member.name, i, nodes, gpus, gpus == 1 ? "" : "s"));
        fields.whole("batch", 1, int64_t{1} << 50, &point.batch);
        fields.number("speed", 1e-12, elastic::kMostValue, &point.speed);
        DL_TRY(fields.end());
        point.type = static_cast<int>(type);
        point.gpus = static_cast<int>(gpus);
        point.nodes = static_cast<int>(nodes > 0 ? nodes : (gpus + per_node_[type] - 1) / per_node_[type]);
        job->points.push_back(point);
      }
    }
    return {};
  }

  Status read_now(const Json& json, const std::string& path, elastic::Job* job) {
    Fields fields(json, path);
    std::string type = question_.types.front();
    int64_t gpus = 0;
    int64_t nodes = 0;
    int64_t batch = 0;
    fields.needs("gpus").text("type", &type).whole("gpus", 1, kMostGpus, &gpus).whole("nodes", 1, kMostGpus, &nodes);
    fields.whole("batch", 1, int64_t{1} << 50, &batch);
    DL_TRY(fields.end());
    DL_TRY_ASSIGN(const size_t index, known_type(type, path + ".type"));
    for (size_t i = 0; i < job->points.size(); ++i) {
      const elastic::Point& point = job->points[i];
      if (point.type != static_cast<int>(index) || point.gpus != gpus) continue;
      if ((batch != 0 && point.batch != batch) || (nodes != 0 && point.nodes != nodes)) continue;
      job->now = static_cast<int>(i);
      return {};
    }
    return invalid(fmt::format("{}: {} GPUs of type {} are none of its speeds; allowed: a size with a speed", path,
                               gpus, printable(type)));
  }

  // Removes points outside the range. The point at which the job runs now stays, because the job must be able to keep
  // it.
  static void keep_within(int64_t fewest, int64_t most, elastic::Job* job) {
    std::vector<elastic::Point> kept;
    int now = elastic::kNothing;
    for (size_t i = 0; i < job->points.size(); ++i) {
      const bool is_now = static_cast<int>(i) == job->now;
      if (!is_now && (job->points[i].gpus < fewest || job->points[i].gpus > most)) continue;
      if (is_now) now = static_cast<int>(kept.size());
      kept.push_back(job->points[i]);
    }
    job->points = std::move(kept);
    job->now = now;
  }

  Question question_;
  std::map<size_t, int64_t> per_node_;  // GPUs of a node, by type
  std::map<std::string, int, std::less<>> tenant_index_;
};

}  // namespace

Result<Question> read_question(std::string_view line) {
  return Reader().read(line);
}

Json answer_of(const Question& question, const elastic::Allocation& allocation) {
  Json jobs = Json::array();
  for (size_t i = 0; i < question.jobs.size(); ++i) {
    const elastic::Job& job = question.problem.jobs[i];
    const int at = allocation.points[i];
    Json one = {{"id", question.jobs[i]}};
    if (at == elastic::kNothing) {
      one["gpus"] = 0;
      one["state"] = job.now != elastic::kNothing ? "stop" : question.drop ? "drop" : "hold";
    } else {
      const elastic::Point& point = job.points[at];
      one["type"] = question.types[point.type];
      one["gpus"] = point.gpus;
      one["nodes"] = point.nodes;
      if (point.batch > 0) one["batch"] = point.batch;
      one["state"] = job.now == elastic::kNothing ? "start" : at == job.now ? "stay" : "change";
    }
    jobs.push_back(std::move(one));
  }
  Json answer;
  answer["jobs"] = std::move(jobs);
  answer["value"] = allocation.value;
  answer["bound"] = allocation.bound;
  answer["exact"] = allocation.exact;
  return answer;
}

}  // namespace dl::sim
