// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/run_input.h"
#include "common/base/local_time.h"
#include "common/base/this_process.h"

#include <fmt/core.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/atomic_file.h"
#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "common/contract/env_names.h"
#include "common/contract/given_variables.h"
#include "common/contract/image_file.h"
#include "common/contract/path_pattern.h"
#include "common/process/child_process.h"
#include "launcher/metrics/log_patterns.h"
#include "launcher/options/data_sources.h"
#include "launcher/options/machine_gpus.h"
#include "launcher/record/job_dir.h"
#include "launcher/record/sources_file.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/slurm_cli/user_settings.h"

extern char** environ;

namespace dl {

Environment own_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr) environment[std::string(*entry, static_cast<size_t>(equals - *entry))] = equals + 1;
  }
  return environment;
}

void drop_given_variables() {
  for (const auto& [name, value] : parse_given(environment_value(env::kGiven)))
    if (environment_value(name.c_str()) == value) ::unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  ::unsetenv(env::kGiven);                                                   // NOLINT(concurrency-mt-unsafe)
}

Result<std::string> current_directory() {
  char path[PATH_MAX];
  // If the path contains links, $PWD has the name that the user knows.
  const char* pwd = std::getenv("PWD");
  char real_pwd[PATH_MAX];
  if (::getcwd(path, sizeof path) == nullptr) return errno_error("find the working directory", errno);
  if (pwd != nullptr && pwd[0] == '/' && ::realpath(pwd, real_pwd) != nullptr && std::strcmp(real_pwd, path) == 0)
    return std::string(pwd);
  return std::string(path);
}

std::string local_job_id() {
  return format_local_time(std::time(nullptr), "local-%Y%m%d-%H%M%S-") + std::to_string(::getpid());
}

namespace {

int usable_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  return CPU_COUNT(&set);
}

// The job of this number as scontrol shows it; no value if it does not answer.
std::optional<slurm_cli::JobText> job_of_number(const std::string& number) {
  CommandOptions options;
  options.timeout = std::chrono::seconds(10);
  options.environment = {"SLURM_TIME_FORMAT=standard"};
  options.without = slurm_cli::user_settings();
  auto shown = run_command({"scontrol", "show", "job", "-d", number}, options);
  if (!shown || !shown->ok()) return std::nullopt;
  auto job = slurm_cli::parse_job_text(shown->out, number);
  if (!job || job->value("JobId") != number) return std::nullopt;
  return std::move(job).value();
}

// Asks Slurm for the job, and adds the nodes' GPUs and the end time to the allocation, which the environment does not
// always contain. What Slurm does not answer stays unknown. An element of an array is asked about again for a while,
// since its name becomes part of the job directory's; that costs nothing, because srun needs slurmctld, too.
std::optional<slurm_cli::JobInfo> refine(const plan::Environment& environment, plan::Allocation* allocation) {
  constexpr int kTriesOfElement = 6;
  const bool element = environment.count("SLURM_ARRAY_TASK_ID") != 0;
  auto job = job_of_number(environment.at("SLURM_JOB_ID"));
  for (int tries = 1; !job && element && tries < kTriesOfElement; ++tries) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    job = job_of_number(environment.at("SLURM_JOB_ID"));
  }
  if (!job) return std::nullopt;
  plan::refine_from_scontrol(*job, allocation);
  return slurm_cli::job_info_of(*job);
}

// Reduces the allocation to these nodes.
Status keep_nodes(const std::string& list, plan::Allocation* allocation) {
  DL_TRY_ASSIGN(const std::vector<std::string> names, expand_hostlist(list));
  const auto gone = [&](const plan::Node& node) {
    return std::find(names.begin(), names.end(), node.name) == names.end();
  };
  const auto rest = std::remove_if(allocation->nodes.begin(), allocation->nodes.end(), gone);
  if (rest == allocation->nodes.begin()) return {};  // the list names none of the nodes: the environment's stay
  allocation->nodes_left_out = allocation->nodes_left_out || rest != allocation->nodes.end();
  allocation->nodes.erase(rest, allocation->nodes.end());
  return {};
}

// Checks the digest of an image that was asked for by its digest. Reading a large image takes a while.
Status check_digest(const std::string& path, const std::string& digest) {
  if (digest.empty()) return {};
  CommandOptions options;
  options.timeout = std::chrono::minutes(30);
  DL_TRY_ASSIGN(const CommandResult sum, run_command({"/usr/bin/sha256sum", "--", path}, options));
  if (!sum.ok())
    return Error{Errc::kInvalid, fmt::format("image {} cannot be checked by its digest: {}; allowed: a file, .sqfs or "
                                             ".sif, that can be read",
                                             printable(path, 300), printable(trim(sum.err), 200))};
  // sha256sum prints a backslash before the digest if the file's name has unusual characters.
  const bool escaped = !sum.out.empty() && sum.out.front() == '\\';
  const std::string is = sum.out.substr(escaped ? 1 : 0, digest.size());
  if (is == digest) return {};
  return Error{Errc::kDenied,
               fmt::format("image {} has the digest sha256:{}, and sha256:{} was asked for; allowed: the "
                           "image that was meant, or the digest of this one",
                           printable(path, 300), is, digest)};
}

}  // namespace

bool links_mpi(const std::string& program) {
  std::string path = find_program(program);
  std::ifstream file(path, std::ios::binary);
  std::string head(4, '\0');
  if (!file.read(head.data(), 4) || head !=
                                        "\x7f"
                                        "ELF")
    return false;
  // The names of needed libraries are in the dynamic string table, near the start of the file.
  std::string text(1 << 20, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  for (const char* name : {"libmpi.so", "libmpi_cxx.so", "libmpich.so", "libmpifort.so"})
    if (text.find(name) != std::string::npos) return true;
  return false;
}

Result<std::string> find_agent() {
  std::vector<std::string> places;
  if (const auto self = own_program()) {
    std::string folder = *self;
    folder.resize(folder.rfind('/'));
    places = {folder.substr(0, folder.rfind('/')) + "/libexec/slurm-dl/dl-agent", folder + "/agent/dl-agent"};
    // In the build tree, libtool runs programs from .libs.
    if (folder.size() > 6 && folder.compare(folder.size() - 6, 6, "/.libs") == 0)
      places.push_back(folder.substr(0, folder.size() - 6) + "/agent/dl-agent");
  }
  places.emplace_back(DL_PKGLIBEXECDIR "/dl-agent");
  if (const char* set = std::getenv("DL_AGENT"); set != nullptr && set[0] == '/') places.emplace_back(set);
  std::string tried;
  for (const std::string& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return Error{Errc::kNotFound, "dl-agent was not found at " + tried +
                                    "; install slurm-dl as a whole, or set DL_AGENT to its absolute path"};
}

Result<std::string> find_pmix_server(const std::string& agent_path, const std::string& site) {
  const char* set = std::getenv(env::kPmix);
  const std::string whose = set != nullptr && *set != '\0' ? set : site;
  if (whose != "dlrun" && whose != "slurm")
    return Error{Errc::kInvalid,
                 std::string(env::kPmix) + ": '" + printable(whose) + "' is not a PMIx server; allowed: dlrun, slurm"};
  if (whose == "slurm") return std::string();
  const std::string folder = agent_path.substr(0, agent_path.rfind('/'));
  if (auto found = program_beside(agent_path, "dl-pmix", "pmix")) return found;
  if (set == nullptr || *set == '\0') return std::string();
  return Error{Errc::kNotFound, std::string(env::kPmix) + "=dlrun: this dlrun was built without libpmix, so " + folder +
                                    "/dl-pmix is missing; allowed: " + env::kPmix + "=slurm"};
}

Status check_mpi_plugin(const plan::LaunchPlan& plan, const std::string& site) {
  constexpr std::string_view kOption = "--mpi=";
  std::string wanted;
  for (const std::string& word : plan.argv)
    if (word.rfind(kOption, 0) == 0) wanted = word.substr(kOption.size());
  if (wanted.empty() || wanted == "none") return {};
  const auto there = slurm_cli::mpi_plugins();
  if (!there || std::find(there->begin(), there->end(), wanted) != there->end()) return {};
  const char* set = std::getenv(env::kPmix);
  std::string why = "this dlrun was built without libpmix";
  if (set != nullptr && *set != '\0') {
    why = fmt::format("{}={}", env::kPmix, set);
  } else if (site == "slurm") {
    why = "[launcher] pmix = \"slurm\"";
  }
  return Error{
      Errc::kNotFound,
      fmt::format("{}: this Slurm has no MPI plugin '{}', srun --mpi=list names only {}; allowed: Slurm's package "
                  "with that plugin, or {}=dlrun with a dlrun that was built with libpmix",
                  why, wanted, join(*there, ", "), env::kPmix)};
}

// The user as the environment names them, or else as the host's list of users does.
void find_user(plan::PlanInput* input) {
  const auto variable = [&](const char* name) {
    const auto found = input->environment.find(name);
    return found == input->environment.end() ? std::string() : found->second;
  };
  const PathNames names = names_in_environment(variable);
  input->user = names.user;
  input->home = names.home;
  if (!input->user.empty() && !input->home.empty()) return;
  const passwd* entry = ::getpwuid(::geteuid());  // NOLINT(concurrency-mt-unsafe): one thread
  if (entry == nullptr) return;
  if (input->user.empty()) input->user = entry->pw_name;
  if (input->home.empty()) input->home = entry->pw_dir;
}

// The sources of --data, with the names of the site's catalogue resolved, and the program that fetches them.
Status find_sources(const RunCommand& run, const SiteSettings& settings, plan::PlanInput* input) {
  const plan::Request& request = input->request;
  if (!request.data && !request.results) return {};
  const std::string from = run.request.data ? "--data" : env::kData;
  const auto program = program_beside(input->agent_path, "dl-data", "data");
  if (!program) return Error{Errc::kNotFound, from + ": " + program.error().text};
  input->data_program = *program;
  if (!request.data) return {};
  SourcesOf of;
  of.work_dir = input->work_dir;
  of.home = input->home;
  of.config = settings.path;
  const auto account = input->environment.find("SLURM_JOB_ACCOUNT");
  if (account != input->environment.end()) of.tenant = account->second;
  auto sources = sources_of(*request.data, input->site.data, of);
  if (!sources) return std::move(sources).error().with_context(from);
  input->sources = *std::move(sources);
  if (input->site.data.shared.empty()) return {};
  const std::string shared = fmt::format("{}/{}", input->site.data.shared, input->uid);
  input->prefetched = ::access((record::prefetched(shared, input->sources) + ".done").c_str(), F_OK) == 0;
  return {};
}

Result<GatheredInput> gather_input(const RunCommand& run, const SiteSettings& settings, bool again) {
  GatheredInput gathered;
  plan::PlanInput& input = gathered.input;
  input.environment = own_environment();
  input.command = run.command;
  find_user(&input);
  DL_TRY_ASSIGN(input.work_dir, current_directory());
  input.site = settings.site;
  gathered.catalogue = settings.catalogue;
  gathered.notes = settings.notes;
  if (slurm_conf_is_handed_out() && ::access(settings.path.c_str(), F_OK) != 0)
    gathered.notes.push_back(fmt::format(
        "this host has no {}, so the built-in settings hold: slurmctld hands out slurm.conf here, but not dl.toml; "
        "allowed: the file there, or spank_dl.so config=/PATH/dl.toml in plugstack.conf",
        settings.path));
  if (run.grace) input.site.grace = *run.grace;
  if (run.job_dir) input.site.job_dir = *run.job_dir;
  input.python_folder = installed_python_folder();
  DL_TRY_ASSIGN(input.agent_path, find_agent());
  DL_TRY_ASSIGN(input.pmix_server, find_pmix_server(input.agent_path, input.site.pmix));
  input.as_root = ::geteuid() == 0;
  input.reads_stdin = standard_input_is_given();
  bool slurm = plan::in_slurm_job(input.environment);
  plan::RequestOptions options = run.request;
  bool framework_named = options.framework || input.environment.count(env::kFramework) != 0;
  input.command_uses_mpi = links_mpi(run.command.front());
  if (!slurm && !framework_named && input.command_uses_mpi) {
    options.framework = "mpi";
    gathered.notes.push_back(run.command.front() + " is an MPI program: started through mpirun");
  }
  DL_TRY_ASSIGN(input.request, plan::read_request(input.environment, options, input.site));
  input.uid = ::geteuid();
  DL_TRY(find_sources(run, settings, &input));
  metrics::LogPatterns patterns;
  for (const std::string& pattern : input.request.metrics)
    if (Status added = event_folder(pattern).empty() ? patterns.add(pattern) : Status(); !added)
      return std::move(added).error().with_context(options.metrics ? "--metrics" : env::kMetrics);
  if (input.request.image) {
    const ImageName named = split_image(*input.request.image);
    const std::string path = (std::filesystem::path(input.work_dir) / named.path).lexically_normal().string();
    if (!run.dry_run) DL_TRY(check_digest(path, named.digest));
    auto container = image::choose_container(path, input.site.image_runtime);
    if (!container) return std::move(container).error().with_context(options.image ? "--image" : env::kImage);
    input.container = *std::move(container);
    input.container.binds = input.site.image_binds;
  }
  if (slurm) {
    DL_TRY_ASSIGN(input.allocation, plan::allocation_from_slurm(input.environment));
    gathered.job = refine(input.environment, &input.allocation);
    if (again && gathered.job) DL_TRY(keep_nodes(gathered.job->node_list, &input.allocation));
  } else {
    char host[256] = "localhost";
    ::gethostname(host, sizeof host - 1);
    // Unless the user gives a number, learners share the GPUs as they like.
    const bool counted = input.request.gpus || input.request.learners_by_gpus;
    const int gpus = counted ? machine_gpus() : -1;
    input.allocation = plan::local_allocation(host, usable_cpus(), gpus,
                                              run.local_id.empty() ? local_job_id() : run.local_id, input.work_dir);
  }
  return gathered;
}

pid_t script_process() {
  const auto process = parse_int(environment_value("SLURM_TASK_PID"), 1, INT_MAX);
  return process && environment_value("SLURM_STEP_ID").empty() ? static_cast<pid_t>(*process) : 0;
}

std::optional<OwnSignal> own_signal_of_job(pid_t script) {
  constexpr size_t kMaxScript = 4 << 20, kMaxLine = 64 << 10;
  if (const auto told = parse_own_signal(environment_value(kOwnSignalEnv))) return told;
  if (script == 0) return std::nullopt;
  // The command line is "/bin/bash /var/spool/slurmd/job00012/slurm_script".
  std::ifstream line(fmt::format("/proc/{}/cmdline", script), std::ios::binary);
  std::string words(kMaxLine, '\0');
  line.read(words.data(), static_cast<std::streamsize>(words.size()));
  words.resize(static_cast<size_t>(line.gcount()));
  for (const std::string& word : split(words, '\0')) {
    if (word.find("/slurm_script") == std::string::npos) continue;
    if (const auto text = read_small_file(word, kMaxScript)) return own_signal_of_script(*text);
  }
  return std::nullopt;
}

int passed_signal(const std::optional<OwnSignal>& own) {
  constexpr int kPassed[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGTERM};
  if (!own || own->to_script || std::find(std::begin(kPassed), std::end(kPassed), own->number) == std::end(kPassed))
    return 0;
  return slurm_cli::signals_reach_all() ? 0 : own->number;
}

}  // namespace dl
