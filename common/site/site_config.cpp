// SPDX-License-Identifier: Apache-2.0
#include "common/site/site_config.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/contract/env_names.h"
#include "common/contract/path_pattern.h"
#include "common/site/site_data_toml.h"
#include "common/site/site_failures.h"
#include "common/site/site_tenants_toml.h"
#include "common/site/site_values.h"
#include "common/site/toml_text.h"

namespace dl {
namespace {

constexpr size_t kMaxFileBytes = size_t{1024} * 1024;
// bounds the depth of dotted keys, because slurmctld's threads have small stacks
constexpr size_t kMaxLineBytes = 2048;
constexpr size_t kMaxFolders = 16;
constexpr uint64_t kLeastGpuMemory = uint64_t{1} << 20, kMostGpuMemory = uint64_t{1} << 50;
constexpr int kMaxCpus = 65000;                        // Slurm counts them in 16 bits
constexpr std::chrono::seconds kMaxSignalLead{65000};  // Slurm counts the warning time in 16 bits, too
constexpr std::chrono::seconds kMaxHangTimeout = std::chrono::hours(24 * 365);
constexpr std::chrono::seconds kMaxGrace{3600};
constexpr std::chrono::seconds kMaxStart = std::chrono::hours(24 * 7);
constexpr uint64_t kLeastLogLimit = 8ULL << 20;  // a head and a tail worth the name
constexpr uint64_t kMostLogLimit = 1ULL << 40;
constexpr int kMaxLoopGuard = 100;
constexpr int kMaxNodes = 100'000;
constexpr double kMaxTypeWeight = 1e6;
constexpr size_t kMaxOperators = 100;
constexpr int kMaxJobSeries = 10'000;
constexpr std::chrono::seconds kMaxQuotaTime = std::chrono::hours(24 * 365);

using Seconds = std::chrono::seconds;

// The partition may be a list, as `sbatch --partition` accepts it.
Status set_partition(const toml::node& node, std::string* out) {
  const auto* text = node.as_string();
  bool good = text != nullptr && !text->get().empty() && text->get().size() <= kMaxPathBytes;
  if (good)
    for (const std::string& name : split(text->get(), ',')) good = good && is_plain_name(name);
  if (!good) return bad_value(node, "the name of a partition, or several with commas, in quotes");
  *out = text->get();
  return {};
}

Status set_tier_target(const toml::node& node, std::string_view key, TierTarget* target) {
  DL_TRY(key == "qos" ? set_name(node, "QOS", &target->qos) : set_partition(node, &target->partition));
  if (!target->qos.empty() && !target->partition.empty())
    return Error{Errc::kConflict, "the tier names both a qos and a partition; allowed: one of the two"};
  return {};
}

Status set_folders(const toml::node& node, const char* example, std::vector<std::string>* out) {
  const std::string allowed = fmt::format("1 to {} absolute paths in an array: [\"{}\"]", kMaxFolders, example);
  const auto* array = node.as_array();
  if (array == nullptr || array->empty() || array->size() > kMaxFolders) return bad_value(node, allowed);
  out->clear();
  for (const toml::node& element : *array) {
    const auto* path = element.as_string();
    if (path == nullptr || !is_clean_path(path->get()) || path->get().front() != '/')
      return bad_value(element, allowed);
    out->push_back(path->get());
  }
  return {};
}

// A mode as chmod takes it. The owner must be able to work in the folder, and nobody else may write there.
Status set_folder_mode(const toml::node& node, unsigned* out) {
  const auto* text = node.as_string();
  const std::string digits = text == nullptr ? "" : text->get();
  const bool good = (digits.size() == 4 && digits[0] == '0') || digits.size() == 3;
  if (!good || digits.find_first_not_of("01234567") != std::string::npos)
    return bad_value(node, "\"0700\", \"0750\", \"0755\" and the like");
  const auto mode = static_cast<unsigned>(std::stoul(digits, nullptr, 8));
  if ((mode & 0700) != 0700 || (mode & 0022) != 0)
    return bad_value(node, "a mode with which its owner alone can write: \"0700\", \"0750\", \"0755\"");
  *out = mode;
  return {};
}

// dlrun makes the directory as the user. %j keeps the directories of two jobs apart; %a would not do, since not every
// job has it.
Status set_job_dir(const toml::node& node, std::string* out) {
  const auto* text = node.as_string();
  const bool good = text != nullptr && is_clean_path(text->get()) && check_path_pattern(text->get()) &&
                    path_holds(text->get(), "j") && !path_holds(text->get(), "a");
  if (!good)
    return bad_value(node, "a path in quotes with %j for the job's id, and no % besides but %A, %u, %x and %%");
  *out = text->get();
  return {};
}

Status set_preflight(const toml::node& node, PreflightMode* out) {
  if (const auto* text = node.as_string())
    if (auto mode = parse_preflight(text->get())) {
      *out = *mode;
      return {};
    }
  return bad_value(node, "\"off\", \"quick\", \"full\"");
}

Status set_placement(const toml::node& node, Placement* out) {
  if (const auto* text = node.as_string())
    if (auto placement = parse_placement(text->get())) {
      *out = *placement;
      return {};
    }
  return bad_value(node, "\"pack\", \"spread\"");
}

// These are the names of launcher/image/runtimes.cpp, which this room may not include.
Status set_image_runtime(const toml::node& node, std::string* out) {
  const auto* text = node.as_string();
  for (const char* name : {"auto", "charliecloud", "apptainer"})
    if (text != nullptr && text->get() == name) {
      *out = name;
      return {};
    }
  return bad_value(node, "\"auto\", \"charliecloud\", \"apptainer\"");
}

Status set_pmix(const toml::node& node, std::string* out) {
  const auto* text = node.as_string();
  for (const char* name : {"dlrun", "slurm"})
    if (text != nullptr && text->get() == name) {
      *out = name;
      return {};
    }
  return bad_value(node, "\"dlrun\", \"slurm\"");
}

// One of two words; *out: whether it is the second.
Status set_choice(const toml::node& node, std::string_view first, std::string_view second, bool* out) {
  const auto* text = node.as_string();
  if (text == nullptr || (text->get() != first && text->get() != second))
    return bad_value(node, fmt::format("\"{}\", \"{}\"", first, second));
  *out = text->get() == second;
  return {};
}

// One row for each key. The name "*" stands for any plain name. toml++ keeps tables sorted, so [nodes] has been read
// before [quota] and [tenants] are.
struct Key {
  std::string_view section;
  std::string_view name;
  Status (*set)(const toml::node& node, std::string_view name, SiteConfig* config);
};
using Node = toml::node;
using Name = std::string_view;
constexpr std::array kKeys{
    Key{"defaults", "framework",
        [](const Node& n, Name, SiteConfig* c) { return set_name(n, "framework", &c->framework); }},
    Key{"defaults", "tier", [](const Node& n, Name, SiteConfig* c) { return set_tier(n, &c->tier); }},
    Key{"defaults", "placement", [](const Node& n, Name, SiteConfig* c) { return set_placement(n, &c->placement); }},
    Key{"defaults", "cpus_per_gpu",
        [](const Node& n, Name, SiteConfig* c) { return set_int(n, 0, kMaxCpus, &c->cpus_per_gpu); }},
    Key{"defaults", "cpus_per_learner",
        [](const Node& n, Name, SiteConfig* c) { return set_int(n, 1, kMaxCpus, &c->cpus_per_learner); }},
    Key{"defaults", "restarts",
        [](const Node& n, Name, SiteConfig* c) { return set_int(n, 0, kMaxRestarts, &c->restarts); }},
    Key{"defaults", "hang_timeout",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(0), kMaxHangTimeout, &c->hang_timeout); }},
    Key{"defaults", "preflight", [](const Node& n, Name, SiteConfig* c) { return set_preflight(n, &c->preflight); }},
    Key{"defaults", "signal_lead",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(0), kMaxSignalLead, &c->signal_lead); }},
    Key{"nodes", "gpus_per_node",
        [](const Node& n, Name, SiteConfig* c) { return set_int(n, 0, kMaxGpusPerLearner, &c->gpus_per_node); }},
    Key{"nodes.types", "*",
        [](const Node& n, Name type, SiteConfig* c) {
          return set_int(n, 1, kMaxGpusPerLearner, &c->gpus_per_node_by_type[std::string(type)]);
        }},
    Key{"tiers", "locked", [](const Node& n, Name, SiteConfig* c) { return set_bool(n, &c->tiers_locked); }},
    Key{"tiers.guaranteed", "partition",
        [](const Node& n, Name k, SiteConfig* c) { return set_tier_target(n, k, &c->guaranteed); }},
    Key{"tiers.guaranteed", "qos",
        [](const Node& n, Name k, SiteConfig* c) { return set_tier_target(n, k, &c->guaranteed); }},
    Key{"tiers.borrow", "partition",
        [](const Node& n, Name k, SiteConfig* c) { return set_tier_target(n, k, &c->borrow); }},
    Key{"tiers.borrow", "qos", [](const Node& n, Name k, SiteConfig* c) { return set_tier_target(n, k, &c->borrow); }},
    Key{"frameworks", "catalogue",
        [](const Node& n, Name, SiteConfig* c) { return set_folders(n, "/etc/slurm/frameworks.d", &c->catalogue); }},
    Key{"launcher", "job_dir", [](const Node& n, Name, SiteConfig* c) { return set_job_dir(n, &c->job_dir); }},
    Key{"launcher", "job_dir_mode",
        [](const Node& n, Name, SiteConfig* c) { return set_folder_mode(n, &c->job_dir_mode); }},
    Key{"launcher", "log_limit",
        [](const Node& n, Name, SiteConfig* c) { return set_bytes(n, kLeastLogLimit, kMostLogLimit, &c->log_limit); }},
    Key{"launcher", "grace",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(1), kMaxGrace, &c->grace); }},
    Key{"launcher", "agent_timeout",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(1), kMaxStart, &c->agent_timeout); }},
    Key{"launcher", "loop_guard",
        [](const Node& n, Name, SiteConfig* c) { return set_int(n, 1, kMaxLoopGuard, &c->loop_guard); }},
    Key{"launcher", "pmix", [](const Node& n, Name, SiteConfig* c) { return set_pmix(n, &c->pmix); }},
    Key{"image", "runtime", [](const Node& n, Name, SiteConfig* c) { return set_image_runtime(n, &c->image_runtime); }},
    Key{"image", "bind",
        [](const Node& n, Name, SiteConfig* c) { return set_folders(n, "/scratch", &c->image_binds); }},
    Key{"idle", "after",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(0), kMaxQuotaTime, &c->idle.after); }},
    Key{"idle", "below", [](const Node& n, Name, SiteConfig* c) { return set_int(n, 1, 100, &c->idle.below); }},
    Key{"idle", "lend", [](const Node& n, Name, SiteConfig* c) { return set_bool(n, &c->idle.lend); }},
    Key{"elastic", "sizes",
        [](const Node& n, Name, SiteConfig* c) { return set_choice(n, "policy", "optimiser", &c->elastic.optimise); }},
    Key{"elastic", "interval",
        [](const Node& n, Name, SiteConfig* c) {
          return set_time(n, Seconds(10), kMaxQuotaTime, &c->elastic.interval);
        }},
    Key{"elastic", "admission",
        [](const Node& n, Name, SiteConfig* c) { return set_choice(n, "hold", "drop", &c->elastic.drop); }},
    Key{"elastic", "drop_after",
        [](const Node& n, Name, SiteConfig* c) {
          return set_time(n, Seconds(1), kMaxQuotaTime, &c->elastic.drop_after);
        }},
    Key{"elastic", "grow",
        [](const Node& n, Name, SiteConfig* c) { return set_choice(n, "queue", "in-place", &c->elastic.in_place); }},
    Key{"metrics", "max_jobs",
        [](const Node& n, Name, SiteConfig* c) { return set_int(n, 0, kMaxJobSeries, &c->metrics.max_jobs); }},
    Key{"network", "enforce",
        [](const Node& n, Name, SiteConfig* c) { return set_network_enforced(n, &c->network.enforced); }},
    Key{"network", "allow", [](const Node& n, Name, SiteConfig* c) { return set_prefixes(n, &c->network.allow); }},
    Key{"network", "names", [](const Node& n, Name, SiteConfig* c) { return set_node_names(n, &c->network.names); }},
    Key{"nodes.counts", "*",
        [](const Node& n, Name type, SiteConfig* c) {
          return set_int(n, 0, kMaxNodes, &c->node_counts[std::string(type)]);
        }},
    Key{"quota", "min_run",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(0), kMaxQuotaTime, &c->quota.min_run); }},
    Key{"quota", "grace",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(0), kMaxGrace, &c->quota.grace); }},
    Key{"quota", "half_life",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(1), kMaxQuotaTime, &c->quota.half_life); }},
    Key{"quota", "patience",
        [](const Node& n, Name, SiteConfig* c) { return set_time(n, Seconds(0), kMaxQuotaTime, &c->quota.patience); }},
    Key{"quota", "most_unsaved",
        [](const Node& n, Name, SiteConfig* c) {
          return set_time(n, Seconds(0), kMaxQuotaTime, &c->quota.most_unsaved);
        }},
    Key{"quota", "most_restart",
        [](const Node& n, Name, SiteConfig* c) {
          return set_time(n, Seconds(0), kMaxQuotaTime, &c->quota.most_restart);
        }},
    Key{"quota", "balance", [](const Node& n, Name, SiteConfig* c) { return set_bool(n, &c->quota.balance); }},
    Key{"quota", "require_pausable",
        [](const Node& n, Name, SiteConfig* c) { return set_bool(n, &c->quota.require_pausable); }},
    Key{"quota", "operators",
        [](const Node& n, Name, SiteConfig* c) { return set_names(n, "users", kMaxOperators, &c->quota.operators); }},
    Key{"quota", "cpu_partitions",
        [](const Node& n, Name, SiteConfig* c) {
          return set_names(n, "partitions", kMaxOperators, &c->quota.cpu_partitions);
        }},
    Key{"quota", "max_cpus_per_gpu",
        [](const Node& n, Name, SiteConfig* c) { return set_int(n, 0, kMaxCpus, &c->quota.max_cpus_per_gpu); }},
    Key{"quota", "max_memory_per_gpu",
        [](const Node& n, Name, SiteConfig* c) {
          return set_bytes(n, kLeastGpuMemory, kMostGpuMemory, &c->quota.max_memory_per_gpu);
        }},
    Key{"quota.type_weights", "*",
        [](const Node& n, Name type, SiteConfig* c) -> Status {
          DL_TRY(check_type_name(type, *c));
          return set_number(n, 0, kMaxTypeWeight, &c->quota.type_weights[std::string(type)]);
        }},
};

// Sections that have a reader of their own.
struct Section {
  std::string_view name;
  std::string_view shown;
  Status (*read)(const toml::node& node, const std::string& file, SiteConfig* config);
};
constexpr std::array kSections{
    Section{"data", "[data]", read_site_data},
    Section{"failure", "[[failure]]",
            [](const Node& n, const std::string& file, SiteConfig* c) -> Status {
              DL_TRY_ASSIGN(c->failures, read_failure_rows(n, file));
              return {};
            }},
    Section{"tenant_groups", "[tenant_groups.NAME]", read_site_groups},
    Section{"tenants", "[tenants.NAME]", read_site_tenants},
};

bool is_inside(std::string_view section, std::string_view outer) {
  return outer.empty() || section == outer ||
         (section.size() > outer.size() && section.substr(0, outer.size()) == outer && section[outer.size()] == '.');
}

// Lists the keys that are allowed in `section`, for the message about one that is not.
std::string allowed_in(std::string_view section) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    if (!is_inside(key.section, section)) continue;
    std::string name;
    if (key.section == section) {
      name = std::string(key.name);
    } else {
      std::string_view rest = key.section.substr(section.empty() ? 0 : section.size() + 1);
      name = fmt::format("[{}{}{}]", section, section.empty() ? "" : ".", rest.substr(0, rest.find('.')));
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const Section& own : kSections)
    if (section.empty()) names.emplace_back(own.shown);
  return join(names, ", ");
}

class Reader {
 public:
  Reader(const std::string& name, SiteConfig* config) : name_(name), config_(config) {}

  Status read(const toml::table& table, const std::string& section) {
    for (auto&& [toml_key, node] : table) {
      const std::string_view key = toml_key.str();
      const std::string full = section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
      DL_TRY(read_one(node, key, full, section));
    }
    return {};
  }

 private:
  Status read_one(const toml::node& node, std::string_view key, const std::string& full, const std::string& section) {
    for (const Section& own : kSections)
      if (section.empty() && own.name == key) return own.read(node, name_, config_);
    for (const Key& row : kKeys) {
      if (row.section == section && (row.name == key || (row.name == "*" && is_plain_name(key)))) {
        if (Status set = row.set(node, key, config_); !set) return place(node, name_, full, std::move(set).error());
        return {};
      }
    }
    for (const Key& row : kKeys) {
      if (!is_inside(row.section, full)) continue;
      if (const auto* table = node.as_table()) return read(*table, full);
      return place(node, name_, full, bad_value(node, fmt::format("a table: [{}]", full)));
    }
    return place(node, name_, full, Error{Errc::kInvalid, "unknown key; allowed: " + allowed_in(section)});
  }

  const std::string& name_;
  SiteConfig* config_;
};

Status check_lines(const std::string& text, const std::string& name) {
  size_t line = 1;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != '\n') continue;
    if (i - start > kMaxLineBytes)
      return Error{Errc::kInvalid, fmt::format("{}:{}: the line is longer than {} bytes", name, line, kMaxLineBytes)};
    start = i + 1;
    ++line;
  }
  return {};
}

// Keys are sorted, so [nodes.counts] is read before [nodes.types], and can be checked only afterwards.
Status check_counts(const toml::table& table, const std::string& file, const SiteConfig& config) {
  for (const auto& [type, count] : config.node_counts) {
    if (type == kPlainGpuType) continue;
    if (Status known = check_type_name(type, config); !known)
      return std::move(known).error().with_context(fmt::format(
          "{}:{}: nodes.counts.{}", file, table["nodes"]["counts"][type].node()->source().begin.line, printable(type)));
  }
  return {};
}

Result<std::string> read_regular_file(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not make slurmctld hang.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return errno_error("open " + printable(path, 200), errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return errno_error("stat " + printable(path, 200), errno);
  if (!S_ISREG(info.st_mode))
    return Error{Errc::kInvalid,
                 printable(path, 200) + ": is not a regular file; allowed: a file, not a folder or a device"};
  std::string text;
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("read " + printable(path, 200), errno);
    if (n == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(n));
    if (text.size() > kMaxFileBytes)
      return Error{Errc::kInvalid, fmt::format("{}: the file is longer than {}, the most that is allowed",
                                               printable(path, 200), format_bytes(kMaxFileBytes))};
  }
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::vector<std::string> default_catalogue(const std::string& configuration_folder) {
  return {std::string(DL_PKGDATADIR) + "/frameworks.d", configuration_folder + "/frameworks.d"};
}

}  // namespace

std::string default_site_config_path(bool trust_environment) {
  const char* own = trust_environment ? ::getenv(env::kConfig) : nullptr;
  if (own != nullptr && own[0] != '\0') return own;
  const char* slurm_conf = ::getenv("SLURM_CONF");
  const bool own_folder = slurm_conf != nullptr && slurm_conf[0] == '/' && !slurm_conf_is_handed_out();
  return (own_folder ? folder_of(slurm_conf) : DL_SLURMCONFDIR) + "/dl.toml";
}

// These names come from src/slurmd/slurmd/slurmd.c and src/sackd/sackd.c.
bool slurm_conf_is_handed_out() {
  const char* slurm_conf = ::getenv("SLURM_CONF");
  if (slurm_conf == nullptr) return false;
  const std::string folder = folder_of(slurm_conf);
  return folder == "/run/slurm/conf" || folder.substr(folder.rfind('/') + 1) == "conf-cache";
}

Result<SiteConfig> parse_site_config(const std::string& text, const std::string& name) {
  if (text.size() > kMaxFileBytes)
    return Error{Errc::kInvalid, fmt::format("{}: the file is longer than {}, the most that is allowed", name,
                                             format_bytes(kMaxFileBytes))};
  DL_TRY(check_lines(text, name));
  DL_TRY_ASSIGN(const toml::table table, parse_toml(text, name));
  SiteConfig config;
  config.catalogue = default_catalogue(name.find('/') == std::string::npos ? DL_SLURMCONFDIR : folder_of(name));
  DL_TRY(Reader(name, &config).read(table, ""));
  DL_TRY(check_counts(table, name, config));
  DL_TRY(check_site_groups(name, config));
  return config;
}

bool may_name_tenants(const std::string& path) {
  const auto text = read_regular_file(path);
  if (!text) return text.error().code != Errc::kNotFound;
  return text->find("tenants") != std::string::npos;
}

bool may_require_network(const std::string& path) {
  const auto text = read_regular_file(path);
  if (!text) return text.error().code != Errc::kNotFound;
  for (const std::string& line : split(*text, '\n')) {
    const std::string_view code = trim(std::string_view(line).substr(0, line.find('#')));
    if (code.find("network") != std::string_view::npos && code.find("job") != std::string_view::npos) return true;
  }
  return false;
}

Result<SiteConfig> load_site_config(const std::string& path) {
  auto text = read_regular_file(path);
  if (text) return parse_site_config(*text, path);
  if (text.error().code != Errc::kNotFound) return std::move(text).error();
  SiteConfig defaults;
  defaults.catalogue = default_catalogue(folder_of(path));
  return defaults;
}

}  // namespace dl
