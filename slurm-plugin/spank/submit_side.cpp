// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/spank/submit_side.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/lower_case.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/contract/env_names.h"
#include "common/contract/image_file.h"
#include "common/contract/own_signal.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "slurm-plugin/spank/places_check.h"
#include "slurm-plugin/spank/step_facts.h"

namespace dl {
namespace {

std::string from_environment(const std::string& name) {
  const char* value = ::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// The arguments of this process, each ended by a NUL; empty if they cannot be read.
std::string own_command_line() {
  const UniqueFd fd(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  std::string line;
  std::array<char, 4096> buffer{};
  ssize_t n = 0;
  while (fd && (n = ::read(fd.get(), buffer.data(), buffer.size())) > 0)
    line.append(buffer.data(), static_cast<size_t>(n));
  return line;
}

struct BatchScript {
  // where its name is in the command line; the arguments after it are the script's own; npos: no script
  size_t at = std::string::npos;
  std::string text;  // the beginning of the script
};

// Finds the batch script on a command line: the first word that names a text file beginning with "#!".
BatchScript script_on_command_line(const std::string& line) {
  constexpr size_t kMostBytes = 64 << 10;
  for (size_t start = line.find('\0') + 1; start != 0 && start < line.size();) {
    const size_t end = std::min(line.find('\0', start), line.size());
    const std::string word = line.substr(start, end - start);
    const size_t at = std::exchange(start, end + 1);
    if (word.empty() || word.front() == '-') continue;
    const UniqueFd fd(::open(word.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat file {};
    if (!fd || ::fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    std::string text(kMostBytes, '\0');
    const ssize_t n = ::read(fd.get(), text.data(), text.size());
    text.resize(n < 0 ? 0 : static_cast<size_t>(n));
    if (text.rfind("#!", 0) == 0) return {at, std::move(text)};
  }
  return {};
}

// dlrun sets these variables for a learner. If that learner submits another job, they are removed: that job is not part
// of the learner's own.
constexpr const char* kOfTheJobAround[] = {
    env::kControl,     env::kControlRank, env::kControlRanks,  env::kControlStart,   env::kSecret,
    env::kProgress,    env::kLease,       env::kRunId,         env::kJobDir,         env::kAttempt,
    env::kRank,        env::kWorldSize,   env::kLocalRank,     env::kLocalWorldSize, env::kNodeRank,
    env::kNumNodes,    env::kLocalGpus,   env::kCheckpointDir, kSignalEnv,           kOwnSignalEnv,
    env::kGlobalBatch, env::kLocalBatch,  env::kAccumulation,  env::kLrScale,        env::kMetricsFile,
    env::kNodeSide};

}  // namespace

void SubmitSide::prepare_environment() {
  const bool nested = allocator_ && ::getenv("SLURM_JOB_ID") != nullptr;
  if (nested)
    for (const char* name : kOfTheJobAround) ::unsetenv(name);
  for (size_t i = 0; i < kOptionCount; ++i) {
    const Option& option = kOptions[i];
    const std::string carrier = kInheritedPrefix + slurm_option_env(option);
    const std::string own = from_environment(option.env);
    // The environment of a job holds its own request under both names. If the two differ, the user has set DL_* for the
    // job that he submits now.
    if (nested && (own.empty() || own == from_environment(carrier))) {
      ::unsetenv(carrier.c_str());
      ::unsetenv(option.env);
    } else if (!own.empty()) {
      ::setenv(carrier.c_str(), own.c_str(), 1);
      presets_[i] = own;
    }
  }
  if (!allocator_) adopt_task_count();
}

// srun starts one task for each node unless --ntasks or SLURM_NTASKS says otherwise, and a plugin cannot change that
// later.
void SubmitSide::adopt_task_count() {
  std::string text = learners_on_command_line(own_command_line());
  const bool typed = !text.empty();
  if (!typed) text = from_environment(env::kLearners);
  if (text.empty()) return;
  auto learners = parse_learners(text);
  if (!learners) return;  // Slurm will soon parse the option, which then fails with a message
  // Inside a job SLURM_NTASKS describes that job; outside, the user has set it himself.
  const bool inside = ::getenv("SLURM_JOB_ID") != nullptr;
  if (inside && !typed) return;
  ::setenv("SLURM_NTASKS", std::to_string(learners->min).c_str(), inside ? 1 : 0);
}

Status SubmitSide::option(size_t index, const char* value) {
  if (index >= kOptionCount)
    return Error{Errc::kInternal,
                 "option number " + std::to_string(index) + " was never registered; allowed: 0 to " +
                     std::to_string(kOptionCount - 1),
                 0};
  const std::string text = abi::text_of(value);
  const bool preset = !presets_[index].empty() && presets_[index] == text;
  return read_option(kOptions[index], text, &request_,
                     preset ? std::string(kOptions[index].env) + " in the environment" : "");
}

Status SubmitSide::check_framework() const {
  auto site = load_site_config(args_.config.empty() ? default_site_config_path(true) : args_.config);
  if (!site) return Error{Errc::kUnsupported, std::move(site).error().text, 0};
  auto catalogue = Catalogue::load(site->catalogue);
  if (!catalogue) return Error{Errc::kUnsupported, std::move(catalogue).error().text, 0};
  auto choice = catalogue->choose(*request_.framework);
  if (!choice) return std::move(choice).error().with_context("--dl-framework");
  return {};
}

// Checks the image as the user who submits. A relative path may mean another file in the job (--chdir), so a missing
// one is no error.
Status SubmitSide::check_image() const {
  const std::string path = split_image(*request_.image).path;
  auto form = image_form(path);
  if (form || (path.front() != '/' && form.error().code == Errc::kNotFound)) return {};
  return std::move(form).error().with_context("--dl-image");
}

// A job of another user (--uid) has another configuration of rclone, one with --export may have, and a script may
// choose one by itself.
Status SubmitSide::check_places_here() const {
  const std::string line = own_command_line();
  const BatchScript script = script_on_command_line(line);
  PlacesCheck how;
  how.config = args_.config.empty() ? default_site_config_path(true) : args_.config;
  const std::string options = line.substr(0, script.at);
  how.own_environment = !has_option(options, "--uid") && !has_option(options, "--export") &&
                        !script_has_option(script.text, "--export") &&
                        lower_case(line + script.text).find("rclone") == std::string::npos;
  return check_places(request_, how);
}

// sbatch does not know --dl-gpus, so it would refuse --mem-per-gpu right after this, without saying what to do.
Status SubmitSide::check_memory() const {
  if (!allocator_ || !request_.gpus || request_.gpus->count == 0) return {};
  const std::string option = "--mem-per-gpu", line = own_command_line();
  const BatchScript script = script_on_command_line(line);
  const bool asked = has_option(line.substr(0, script.at), option) || !from_environment("SBATCH_MEM_PER_GPU").empty() ||
                     !from_environment("SALLOC_MEM_PER_GPU").empty() || script_has_option(script.text, option);
  if (!asked) return {};
  return Error{Errc::kConflict,
               "--mem-per-gpu conflicts with --dl-gpus: Slurm takes it only beside GPU options of its own; allowed: "
               "--mem-per-cpu or --mem in its place"};
}

Status SubmitSide::finish(spank_t spank) {
  if (request_.empty()) return {};
  DL_TRY(check_request(request_));
  DL_TRY(check_memory());
  // In an srun of dlrun's this is skipped: the job was checked when it was submitted.
  if (request_.framework && ::getenv(env::kControl) == nullptr) {
    Status known = check_framework();
    // A mistake of the administrator on this node must not stop the user here, because slurmctld checks again.
    if (!known && known.error().code == Errc::kUnsupported)
      slurm_info("dl: the framework was not checked on this node: %s", known.error().text.c_str());
    else if (!known)
      return std::move(known).error();
  }
  if (request_.image && ::getenv(env::kControl) == nullptr) DL_TRY(check_image());
  // A step of a job is looked at no more: the job was, where its user has submitted it.
  if (allocator_ || ::getenv("SLURM_JOB_ID") == nullptr) DL_TRY(check_places_here());
  if (!allocator_) {
    // A failure is not fatal: it only means that a forgotten --ntasks is noticed later.
    (void)spank_job_control_setenv(spank, kClientEnv, "srun", 1);
    return {};
  }
  for (const auto& [name, value] : request_.environment) ::setenv(name.c_str(), value.c_str(), 1);
  // A plain `srun` in the job reads this variable. An elastic job learns its size only when it starts.
  if (request_.learners && !request_.learners->elastic())
    ::setenv("SLURM_NTASKS", std::to_string(request_.learners->min).c_str(), 0);
  return {};
}

}  // namespace dl
