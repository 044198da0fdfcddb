// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/wait_texts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "launcher/slurm_cli/records.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {
namespace {

constexpr int64_t kMost = int64_t{1} << 50;

bool is_one_of(std::string_view text, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* item) { return text == item; });
}

// Parses "12052M", "47.1G" or "12". With a unit the result is in MB, in which Slurm counts memory; without one it is
// the number itself.
int64_t number_of(std::string_view text) {
  int64_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'M':
        unit = 1;
        break;
      case 'G':
        unit = 1024;
        break;
      case 'T':
        unit = 1024 * 1024;
        break;
      default:
        unit = 0;
    }
    if (unit != 0) text.remove_suffix(1);
  }
  const auto whole = parse_int(text.substr(0, text.find('.')), 0, kMost / (1024 * 1024));
  return whole ? *whole * std::max<int64_t>(unit, 1) : -1;
}

// "4(2)" gives 4 and 2; "N(2)" and "" mean that there is no limit.
std::optional<std::pair<int64_t, int64_t>> limit_and_use(std::string_view text) {
  const size_t open = text.find('(');
  const int64_t limit = number_of(text.substr(0, open));
  if (limit < 0) return std::nullopt;
  int64_t used = -1;
  if (open != std::string_view::npos) used = number_of(text.substr(open + 1, text.find(')') - open - 1));
  return std::pair{limit, used};
}

bool is_in_list(std::string_view list, const std::string& name) {
  const auto names = split(list, ',');
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Amounts parse_amounts(std::string_view tres) {
  Amounts amounts;
  int64_t typed = -1;
  for (const std::string& item : split(tres, ',')) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view name = std::string_view(item).substr(0, equals);
    const int64_t value = number_of(std::string_view(item).substr(equals + 1));
    if (value < 0) continue;
    if (name == "cpu") amounts.cpus = value;
    if (name == "mem") amounts.memory_mb = value;
    if (name == "node") amounts.nodes = value;
    if (name == "gres/gpu") amounts.gpus = value;
    if (name.substr(0, 9) == "gres/gpu:") typed = std::max<int64_t>(typed, 0) + value;
  }
  if (amounts.gpus < 0) amounts.gpus = typed;
  return amounts;
}

int64_t GpuRequest::gpus() const {
  const auto of = [](const std::string& form, int64_t times) {
    return slurm_cli::count_gpus(slurm_cli::given(form)) * std::max<int64_t>(times, 1);
  };
  const int64_t all = std::max({of(per_job, 1), of(per_node, nodes), of(per_socket, nodes), of(per_task, tasks)});
  return all > 0 ? all : -1;
}

std::string amounts_text(const Amounts& amounts, bool with_memory) {
  std::vector<std::string> parts;
  if (amounts.nodes > 0) parts.push_back(count_text(amounts.nodes, "node"));
  if (amounts.cpus > 0) parts.push_back(count_text(amounts.cpus, "CPU"));
  if (amounts.gpus > 0) parts.push_back(count_text(amounts.gpus, "GPU"));
  if (with_memory && amounts.memory_mb > 0)
    parts.push_back(format_bytes(static_cast<uint64_t>(amounts.memory_mb) << 20) + " of memory");
  return join(parts, ", ");
}

bool NodeLine::usable() const {
  // "IDLE+CLOUD+POWERED_DOWN" is a node that starts when it is needed; "IDLE*" is one that does not answer.
  if (state.find('*') != std::string::npos) return false;
  const auto flags = split(state, '+');
  return !flags.empty() && is_one_of(flags.front(), {"IDLE", "MIXED", "ALLOCATED", "COMPLETING"}) &&
         std::none_of(flags.begin(), flags.end(), [](const std::string& flag) {
           return is_one_of(flag, {"DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "MAINTENANCE", "NOT_RESPONDING",
                                   "RESERVED", "POWERING_DOWN", "INVALID_REG", "REBOOT_ISSUED", "BLOCKED"});
         });
}

std::vector<NodeLine> parse_nodes(const std::string& text) {
  std::vector<NodeLine> nodes;
  for (const slurm_cli::Record& words : slurm_cli::parse_records(text, "NodeName")) {
    NodeLine node;
    node.name = words.value("NodeName");
    node.state = words.value("State");
    node.partitions = words.value("Partitions");
    node.reason = words.value("Reason");
    if (const size_t who = node.reason.rfind(" ["); who != std::string::npos) node.reason.resize(who);
    node.all = parse_amounts(words.value("CfgTRES"));
    node.used = parse_amounts(words.value("AllocTRES"));
    // TRES has GPUs only if AccountingStorageTRES names them, which clusters without slurmdbd seldom do.
    if (const int gpus = slurm_cli::count_gpus(words.value("Gres")); node.all.gpus < 0 && gpus > 0) {
      node.all.gpus = gpus;
      node.used.gpus = slurm_cli::count_gpus(words.value("GresUsed"));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Room room_of(const std::vector<NodeLine>& nodes, const std::string& partition) {
  Room room;
  for (const NodeLine& node : nodes) {
    if (!is_in_list(node.partitions, partition)) continue;
    ++room.nodes;
    room.gpus_in_all += std::max<int64_t>(node.all.gpus, 0);
    if (!node.usable()) {
      room.out.push_back(fmt::format("{} is {}{}", printable(node.name), printable(node.state),
                                     node.reason.empty() ? "" : " (" + printable(node.reason) + ")"));
      continue;
    }
    ++room.usable;
    if (node.state.rfind("IDLE", 0) == 0) ++room.idle;
    const auto add = [](int64_t all, int64_t used, int64_t* total, int64_t* free, int64_t* most, int64_t* most_free) {
      const int64_t has = std::max<int64_t>(all, 0);
      const int64_t left = std::max<int64_t>(has - std::max<int64_t>(used, 0), 0);
      *total += has;
      *free += left;
      *most = std::max(*most, has);
      *most_free = std::max(*most_free, left);
    };
    add(node.all.cpus, node.used.cpus, &room.cpus, &room.cpus_free, &room.node_cpus, &room.node_cpus_free);
    add(node.all.gpus, node.used.gpus, &room.gpus, &room.gpus_free, &room.node_gpus, &room.node_gpus_free);
  }
  return room;
}

std::vector<QueueLine> parse_queue(const std::string& text, const std::string& gpus) {
  std::map<std::string, GpuRequest> requests;
  constexpr size_t kForms = 6;
  for (const std::string& line : split(gpus, '\n')) {
    const auto fields = split(line, '|');
    if (fields.size() < kForms) continue;
    const auto tasks = parse_int(fields[1], 0, kMost);
    requests[fields[0]] = {fields[2], fields[3], fields[4], fields[5], 0, tasks ? *tasks : 0};
  }
  std::vector<QueueLine> jobs;
  constexpr size_t kFields = 10;
  for (const std::string& line : split(text, '\n')) {
    const auto fields = split(line, '|');
    if (fields.size() < kFields) continue;
    const auto count = [&](size_t at) {
      const auto value = parse_int(fields[at], 0, kMost);
      return value ? *value : int64_t{0};
    };
    QueueLine job;
    job.id = fields[0];
    GpuRequest request;
    if (const auto found = requests.find(job.id); found != requests.end()) request = found->second;
    job.id = slurm_cli::id_of_squeue(job.id);
    job.state = fields[1];
    job.priority = count(2);
    job.user = fields[3];
    job.nodes = count(4);
    job.cpus = count(5);
    if (request.per_node.empty()) request.per_node = fields[6];
    request.nodes = job.nodes;
    job.gpus = std::max<int64_t>(request.gpus(), 0);
    job.start_s = slurm_cli::parse_slurm_time(fields[7]);
    job.end_s = slurm_cli::parse_slurm_time(fields[8]);
    job.reason = fields[9];
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::optional<PriorityParts> parse_priority(const std::string& text) {
  const char* const kNames[] = {"", "site", "age", "association", "fair share", "job size", "partition", "QOS", "nice"};
  const auto fields = split(trim(split(text, '\n').empty() ? std::string() : split(text, '\n').front()), '|');
  if (fields.size() < std::size(kNames)) return std::nullopt;
  PriorityParts priority;
  const auto number = [](std::string_view field) {
    field = trim(field);
    const bool negative = !field.empty() && field.front() == '-';
    const auto value = parse_int(field.substr(negative ? 1 : 0, field.find('.') - (negative ? 1 : 0)), 0, kMost);
    return value ? (negative ? -*value : *value) : int64_t{0};
  };
  priority.total = number(fields[0]);
  for (size_t i = 1; i < std::size(kNames); ++i)
    if (const int64_t value = number(fields[i]); value != 0) priority.parts.emplace_back(kNames[i], value);
  if (fields.size() > std::size(kNames))
    for (const std::string& item : split(trim(fields.back()), ',')) {
      const size_t equals = item.find('=');
      if (equals == std::string::npos) continue;
      if (const int64_t value = number(std::string_view(item).substr(equals + 1)); value != 0)
        priority.parts.emplace_back(item.substr(0, equals), value);
    }
  return priority;
}

std::vector<Limit> parse_limits(const std::string& text, const std::string& key, const std::string& tres,
                                const LimitsOf& of) {
  const bool kind = !tres.empty() && tres.back() == '/';
  std::vector<Limit> limits;
  std::string whose, part;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view words = trim(line);
    const slurm_cli::Record record(words);
    if (words.rfind("QOS=", 0) == 0) {
      whose = "QOS '" + std::string(words.substr(4, words.find('(') - 4)) + "'";
      part.clear();
    } else if (words.rfind("ClusterName=", 0) == 0) {
      const std::string user = record.value("UserName"), account = record.value("Account");
      whose = (user.empty() ? "" : "user '" + user.substr(0, user.find('(')) + "' in ") + "account '" + account + "'";
      part.clear();
    } else if (!words.empty() && words.find('=') == std::string_view::npos) {
      // A heading: "User Limits", with the number of a user under it, or "Account Limits", with the name of an account.
      part = words;
    }
    const std::string value = record.value(key);
    if (value.empty()) continue;
    const std::string per = key.substr(key.size() - std::min<size_t>(key.size(), 2));
    if ((per == "PU" && part != of.user_id) || (per == "PA" && part != of.account)) continue;
    for (const std::string& item : split(value, ',')) {
      const size_t equals = item.find('=');
      const std::string name = equals == std::string::npos ? "" : item.substr(0, equals);
      if (!name.empty() && !tres.empty() && (kind ? name.rfind(tres, 0) != 0 : name != tres)) continue;
      const auto found = limit_and_use(std::string_view(item).substr(equals == std::string::npos ? 0 : equals + 1));
      if (found)
        limits.push_back({whose, found->first, found->second, kind && !name.empty() ? name.substr(tres.size()) : ""});
    }
  }
  return limits;
}

}  // namespace dl::ctl
