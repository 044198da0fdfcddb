// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_cli/slurm_cli.h"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <random>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/slurm_cli/user_settings.h"

extern char** environ;

namespace dl::slurm_cli {
namespace {

constexpr std::chrono::seconds kTimeout{20};  // slurmctld may be restarting, and scontrol itself tries for longer

// Overrides the user's settings that would change the form of the commands' output. The others are removed
// (user_settings()); scontrol is to show hidden partitions, too.
const std::vector<std::string> kPlainEnvironment = {"SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0",
                                                    "LC_ALL=C.UTF-8", "SCONTROL_ALL="};

// A command's complaint: its first line that is not empty.
std::string complaint(const CommandResult& result) {
  for (const std::string* text : {&result.err, &result.out}) {
    for (const std::string& line : split(*text, '\n')) {
      std::string trimmed(trim(line));
      if (!trimmed.empty()) return printable(trimmed, 300);
    }
  }
  return result.signal != 0 ? fmt::format("killed by signal {}", result.signal)
                            : fmt::format("exit status {}", result.exit_code);
}

Result<CommandResult> run_slurm(const std::vector<std::string>& argv, const std::string& input = {}) {
  CommandOptions options;
  options.timeout = kTimeout;
  options.environment = kPlainEnvironment;
  options.without = user_settings();
  options.input = input;
  options.max_output = 64 << 20;  // 10,000 nodes take 9 MB
  // For a requeue, Slurm sends SIGTERM to all processes of the job, including this command.
  options.ignored_signals = {SIGTERM, SIGUSR2, SIGINT, SIGHUP};
  return run_command(argv, options);
}

Error command_error(const std::string& what, const CommandResult& result) {
  std::string text = complaint(result);
  Errc code = Errc::kIo;
  // The error of Slurm's commands if they find no configuration.
  if (text.find("resolve_ctls_from_dns_srv") != std::string::npos)
    return Error{
        Errc::kIo,
        "Slurm's commands are installed here, but they find no slurm.conf, so no job of Slurm's is known; allowed: "
        "SLURM_CONF=/PATH/slurm.conf, or a login node of the cluster"};
  // scontrol's error "Job 12_3 not found" is about an element that the array does not have, or not any more.
  const bool no_element = text.rfind("Job ", 0) == 0 && text.find(" not found") != std::string::npos;
  if (text.find("Invalid job id") != std::string::npos || no_element) code = Errc::kNotFound;
  if (text.find("Access/permission denied") != std::string::npos) code = Errc::kDenied;
  return Error{code, what + ": " + text};
}

Status run_simple(const std::vector<std::string>& argv) {
  DL_TRY_ASSIGN(CommandResult result, run_slurm(argv));
  if (!result.ok()) return command_error(argv[0] + " " + argv[1], result);
  return {};
}

std::string start_time_argument(std::chrono::seconds delay) {
  // Every version accepts "now" alone.
  if (delay.count() <= 0) return "StartTime=now";
  return fmt::format("StartTime=now+{}", delay.count());
}

// The output of `scontrol show config`; empty if Slurm does not answer.
std::string config_text() {
  auto result = run_slurm({"scontrol", "show", "config"});
  return result && result->ok() ? std::move(result->out) : std::string();
}

std::vector<std::pair<std::string, std::string>> settings_of(const std::string& config) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& line : split(config, '\n'))
    if (const size_t equals = line.find('='); equals != std::string::npos)
      settings.emplace_back(trim(line.substr(0, equals)), trim(line.substr(equals + 1)));
  return settings;
}
std::vector<std::pair<std::string, std::string>> slurm_config() {
  return settings_of(config_text());
}

// A time such as "300 sec" in `config`, in seconds.
std::chrono::seconds seconds_of(const std::string& config, std::string_view name, std::chrono::seconds otherwise) {
  for (const auto& [key, value] : settings_of(config))
    if (const auto seconds = parse_int(value.substr(0, value.find(' ')), 1, 1 << 20); key == name && seconds)
      return std::chrono::seconds(*seconds);
  return otherwise;
}

}  // namespace

std::optional<int64_t> parse_slurm_time(const std::string& text) {
  std::tm fields{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &fields);
  if (end == nullptr || *end != '\0') return std::nullopt;
  fields.tm_isdst = -1;
  time_t value = ::mktime(&fields);
  if (value <= 0) return std::nullopt;
  return static_cast<int64_t>(value);
}

namespace {
// While a signal is being sent to a running job, Slurm shows SIGNALING as its state.
std::string state_of(const std::string& shown) {
  return shown == "SIGNALING" ? "RUNNING" : shown;
}
}  // namespace

JobInfo job_info_of(const JobText& text) {
  const auto shown = [&](std::string_view key) { return given(text.value(key)); };
  const auto time = [&](std::string_view key) { return parse_slurm_time(text.value(key)); };
  JobInfo job;
  job.job_id = own_id(text);
  job.number = text.value("JobId");
  job.name = text.value("JobName");
  job.user = text.value("UserId").substr(0, text.value("UserId").find('('));
  job.state = state_of(text.value("JobState"));
  job.reason = text.value("Reason");
  job.partition = shown("Partition");
  job.qos = shown("QOS");
  job.account = shown("Account");
  job.comment = shown("Comment");
  job.admin_comment = shown("AdminComment");
  job.node_list = shown("NodeList");
  job.excluded = shown("ExcNodeList");
  job.batch_host = shown("BatchHost");
  job.work_dir = text.value("WorkDir");
  job.std_out = text.value("StdOut");
  job.exit_code = text.value("ExitCode");
  job.requeue = text.value("Requeue") == "1";
  job.batch = !text.value("BatchFlag").empty() && text.value("BatchFlag") != "0";
  job.held = text.value("Priority") == "0";
  if (const auto restarts = parse_int(text.value("Restarts"), 0, 1000000)) job.restarts = static_cast<int>(*restarts);
  if (const auto limit = parse_duration(text.value("TimeLimit"))) job.time_limit_s = limit->count();
  job.submit_time = time("SubmitTime");
  job.eligible_time = time("EligibleTime");
  job.start_time = time("StartTime");
  job.end_time = time("EndTime");
  job.preempt_time = time("PreemptTime");
  return job;
}

Result<JobInfo> parse_show_job(const std::string& text, const std::string& job_id) {
  DL_TRY_ASSIGN(const JobText text_of_it, parse_job_text(text, job_id));
  JobInfo job = job_info_of(text_of_it);
  // If several waiting elements share a record, only the one that was asked for is meant.
  if (!array_of(job_id).empty()) job.job_id = job_id;
  return job;
}

Result<std::vector<JobInfo>> parse_show_jobs(const std::string& text) {
  DL_TRY_ASSIGN(const std::vector<JobText> texts, parse_job_texts(text));
  std::vector<JobInfo> jobs;
  for (const JobText& job : texts) jobs.push_back(job_info_of(job));
  // scontrol prints the newest record of an array first; this sorts them by element.
  const auto first_task = [](const JobInfo& job) {
    const size_t at = job.job_id.find_first_of("0123456789", array_of(job.job_id).size() + 1);
    if (array_of(job.job_id).empty() || at == std::string::npos) return int64_t{-1};
    const auto task =
        parse_int(job.job_id.substr(at, job.job_id.find_first_not_of("0123456789", at) - at), 0, INT32_MAX);
    return task ? *task : int64_t{-1};
  };
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&](const JobInfo& a, const JobInfo& b) { return first_task(a) < first_task(b); });
  return jobs;
}

Result<JobInfo> show_job(const std::string& job_id) {
  DL_TRY_ASSIGN(CommandResult result, run_slurm({"scontrol", "show", "job", job_id}));
  if (!result.ok()) return command_error("scontrol show job", result);
  return parse_show_job(result.out, job_id);
}

Result<std::string> submit(const std::vector<std::string>& options, const std::string& script) {
  CommandOptions command;
  command.timeout = kTimeout;
  command.input = script;
  command.without = user_settings();  // nor does the job's script need them
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    for (const char* prefix : {"SLURM_", "SBATCH_", "SPANK_", "DL_"})
      if (name.rfind(prefix, 0) == 0 && name != "SLURM_CONF") command.without.push_back(name);
  }
  std::vector<std::string> argv = {"sbatch", "--parsable"};
  argv.insert(argv.end(), options.begin(), options.end());
  DL_TRY_ASSIGN(const CommandResult result, run_command(argv, command));
  if (!result.ok()) return command_error("sbatch", result);
  const std::string id(trim(result.out.substr(0, result.out.find(';'))));
  if (!parse_int(id, 1, UINT32_MAX)) return Error{Errc::kIo, "sbatch printed no job id: " + printable(result.out, 100)};
  return id;
}

Status cancel(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"scancel", "--quiet"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  DL_TRY_ASSIGN(const CommandResult result, run_slurm(argv));
  return result.ok() ? Status() : command_error("scancel", result);
}

Result<std::vector<JobInfo>> show_jobs(const std::string& job_id) {
  DL_TRY_ASSIGN(CommandResult result, run_slurm({"scontrol", "show", "job", job_id}));
  if (!result.ok()) return command_error("scontrol show job", result);
  if (array_of(job_id).empty()) return parse_show_jobs(result.out);
  DL_TRY_ASSIGN(JobInfo job, parse_show_job(result.out, job_id));
  return std::vector<JobInfo>{std::move(job)};
}

namespace {
// Fields that cannot contain the separator come first, and the comment last.
constexpr const char* kSqueueFormat =
    "%i\x1f%T\x1f%r\x1f%u\x1f%P\x1f%q\x1f%a\x1f%S\x1f%e\x1f%V\x1f%N\x1f%Z\x1f%j\x1f%k";
constexpr size_t kSqueueFields = 14;

// What each record of squeue begins with. A working directory, a name or a comment may hold line breaks, and so what
// looks like the record of another job; nobody can know this text before squeue prints it.
std::string squeue_mark() {
  std::random_device random;
  return fmt::format("\x1e{:08x}{:08x}{:08x}{:08x}\x1f", random(), random(), random(), random());
}
}  // namespace

std::string id_of_squeue(std::string shown) {
  if (const size_t most = shown.find('%'); most != std::string::npos) shown.erase(most, shown.find(']') - most);
  return shown;
}

Result<std::vector<JobInfo>> parse_squeue(const std::string& text, const std::string& mark) {
  std::vector<JobInfo> jobs;
  for (size_t at = text.find(mark), end = 0; at != std::string::npos; at = end) {
    at += mark.size();
    end = text.find(mark, at);
    std::string line = text.substr(at, end == std::string::npos ? end : end - at);
    if (!line.empty() && line.back() == '\n') line.pop_back();
    std::vector<std::string> fields = split(line, '\x1f');
    if (fields.size() < kSqueueFields)
      return Error{Errc::kInvalid, fmt::format("squeue: the line '{}' has {} fields; needed: {}", printable(line, 100),
                                               fields.size(), kSqueueFields)};
    JobInfo job;
    job.job_id = id_of_squeue(fields[0]);
    job.state = state_of(fields[1]);
    job.reason = fields[2];
    job.user = fields[3];
    job.partition = fields[4];
    job.qos = fields[5];
    job.account = fields[6];
    job.start_time = parse_slurm_time(fields[7]);
    job.end_time = parse_slurm_time(fields[8]);
    job.submit_time = parse_slurm_time(fields[9]);
    job.node_list = fields[10];
    job.work_dir = fields[11];
    job.name = fields[12];
    job.comment = given(fields[13]);
    job.held = job.reason.rfind("JobHeld", 0) == 0;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::vector<JobInfo>> list_jobs(const std::string& user, Which which) {
  const std::string mark = squeue_mark();
  std::vector<std::string> argv = {"squeue", "-h", "--all", "-o", mark + kSqueueFormat};
  if (user.empty())
    argv.insert(argv.begin() + 1, "--me");
  else if (user != "*")
    argv.insert(argv.begin() + 1, {"-u", user});
  if (which == Which::kEnded) argv.insert(argv.begin() + 1, "--states=all");
  DL_TRY_ASSIGN(CommandResult result, run_slurm(argv));
  if (!result.ok()) return command_error("squeue", result);
  return parse_squeue(result.out, mark);
}

Result<std::string> answer_of(const std::vector<std::string>& argv) {
  DL_TRY_ASSIGN(CommandResult result, run_slurm(argv));
  if (!result.ok()) return command_error(argv[0] + (argv.size() > 1 && argv[1][0] != '-' ? " " + argv[1] : ""), result);
  return std::move(result.out);
}

Status set_comment(const std::string& job_id, const std::string& comment) {
  return run_simple({"scontrol", "update", "JobId=" + job_id, "Comment=" + comment});
}

Status set_start_time(const std::string& job_id, std::chrono::seconds delay) {
  return run_simple({"scontrol", "update", "JobId=" + job_id, start_time_argument(delay)});
}

Status requeue(const std::string& job_id, bool hold, std::chrono::seconds delay, const std::string& excluded) {
  // One scontrol gets both commands: it sends the second about a millisecond after the first was answered, before Slurm
  // can kill this process.
  std::string input = fmt::format("{0} {1}\nupdate JobId={1} {2}{3}\n", hold ? "requeuehold" : "requeue", job_id,
                                  start_time_argument(delay), excluded.empty() ? "" : " ExcNodeList=" + excluded);
  DL_TRY_ASSIGN(CommandResult result, run_slurm({"scontrol"}, input));
  // scontrol's exit status is that of its last command, but every error is printed on stderr.
  if (!trim(result.err).empty() || !result.ok()) return command_error("scontrol requeue", result);
  return {};
}

Status release_nodes(const std::string& job_id, const std::vector<std::string>& nodes, const std::string& folder) {
  DL_TRY_ASSIGN(JobInfo job, show_job(job_id));
  DL_TRY_ASSIGN(std::vector<std::string> kept, expand_hostlist(job.node_list));
  const size_t had = kept.size();
  kept.erase(std::remove_if(
                 kept.begin(), kept.end(),
                 [&](const std::string& name) { return std::find(nodes.begin(), nodes.end(), name) != nodes.end(); }),
             kept.end());
  if (kept.size() == had) return {};
  if (kept.empty())
    return Error{Errc::kInvalid,
                 fmt::format("job {} cannot give back all its nodes ({}); allowed: to keep at least one", job_id,
                             job.node_list)};
  // When sizes change, scontrol reads an element's name only up to the '_' (slurm_atoul in update_job.c), and refuses a
  // number that names an array. So the element whose number is also the array's is given by its name, all others by
  // number.
  const std::string name = job.number == array_of(job.job_id) ? job.job_id : job.number;
  const Status done =
      run_simple({"env", "-C", folder, "scontrol", "update", "JobId=" + name, "NodeList=" + compress_hostlist(kept)});
  for (const char* shell : {"sh", "csh"})
    ::unlink(fmt::format("{}/slurm_job_{}_resize.{}", folder, job.number, shell).c_str());
  return done;
}

Status release(const std::string& job_id) {
  return run_simple({"scontrol", "release", job_id});
}
Status hold(const std::string& job_id) {
  return run_simple({"scontrol", "hold", job_id});
}

std::string setting_of(const std::string& config, std::string_view name) {
  for (const auto& [key, value] : settings_of(config))
    if (key == name) return value;
  return {};
}

bool has_slurmdbd(const std::string& config) {
  return setting_of(config, "AccountingStorageType") == "accounting_storage/slurmdbd";
}

bool can_update_after_release(const std::string& config, const Version& version) {
  return version.at_least(24, 11) || has_slurmdbd(config);
}

bool can_update_after_release() {
  const auto version = slurm_version();
  return can_update_after_release(config_text(), version ? *version : Version{});
}

std::chrono::seconds slurmd_timeout() {
  return seconds_of(config_text(), "SlurmdTimeout", std::chrono::seconds{300});
}

std::chrono::seconds kill_wait_of(const std::string& config) {
  constexpr std::chrono::seconds kLeast{5};
  return std::max(seconds_of(config, "KillWait", std::chrono::seconds{30}), kLeast);
}

bool signals_reach_all_of(const std::string& config) {
  return setting_of(config, "ProctrackType") == "proctrack/linuxproc";
}

bool signals_reach_all() {
  return signals_reach_all_of(config_text());
}

std::string cluster_name_of(const std::string& config) {
  return setting_of(config, "ClusterName");
}

std::string cluster_name() {
  return cluster_name_of(config_text());
}

std::chrono::seconds kill_wait() {
  return kill_wait_of(config_text());
}

std::chrono::seconds requeue_delay() {
  for (const auto& [key, value] : slurm_config())
    if ((key == "Epilog" || key == "EpilogSlurmctld" || key.rfind("Epilog[", 0) == 0) && !given(value).empty())
      return kRequeueDelayEpilog;
  return kRequeueDelay;
}

Result<Version> parse_version(const std::string& text) {
  size_t blank = text.rfind(' ');
  std::vector<std::string> fields = split(trim(text.substr(blank == std::string::npos ? 0 : blank + 1)), '.');
  Error bad{Errc::kInvalid,
            "'" + printable(text) + "' is not a version of Slurm; allowed: MAJOR.MINOR.MICRO, such as 24.11.1"};
  if (fields.size() < 2) return bad;
  auto major = parse_int(fields[0], 0, 999), minor = parse_int(fields[1], 0, 99);
  if (!major || !minor) return bad;
  Version version{static_cast<int>(*major), static_cast<int>(*minor), 0};
  if (fields.size() > 2)
    if (auto micro = parse_int(fields[2].substr(0, fields[2].find_first_not_of("0123456789")), 0, 999))
      version.micro = static_cast<int>(*micro);
  return version;
}

Result<Version> slurm_version() {
  DL_TRY_ASSIGN(CommandResult result, run_slurm({"scontrol", "--version"}));
  if (!result.ok()) return command_error("scontrol --version", result);
  return parse_version(std::string(trim(result.out)));
}

std::vector<std::string> mpi_plugins_of(const std::string& text) {
  constexpr std::string_view kVersions = "specific pmix plugin versions available:";
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && line.front() == '\t') names.emplace_back(trim(line));
    if (line.rfind(kVersions, 0) != 0) continue;
    for (const std::string& name : split(line.substr(kVersions.size()), ',')) names.emplace_back(trim(name));
  }
  return names;
}

Result<std::vector<std::string>> mpi_plugins() {
  DL_TRY_ASSIGN(CommandResult result, run_slurm({"srun", "--mpi=list"}));
  // Versions differ in whether they print the list on stdout or on stderr.
  std::vector<std::string> names = mpi_plugins_of(result.out + "\n" + result.err);
  if (names.empty()) return command_error("srun --mpi=list", result);
  return names;
}

}  // namespace dl::slurm_cli
