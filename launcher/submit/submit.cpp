// SPDX-License-Identifier: Apache-2.0
#include "launcher/submit/submit.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/process/child_process.h"

namespace dl::submit {
namespace {

constexpr std::chrono::seconds kTimeout{120};  // sbatch waits for a slurmctld that is restarting
constexpr int kMostScripts = 10000;
constexpr size_t kMaxScript = 1 << 20;

// True for the summary of job_submit_dl ("understood as generic, 4 learners"): it has accepted the job, and what it
// says beside is no reason for Slurm to refuse it. sbatch prints all of it as errors if Slurm does.
bool is_summary(std::string_view line) {
  return line.rfind("understood as ", 0) == 0;
}

// The error if the script cannot be written. It advises to use another folder, and --chdir for learners that should
// start in this one.
Error no_script(const std::string& folder, const std::string& path, int error) {
  Error why = errno_error("write " + path, error);
  why.text +=
      "; --submit keeps the batch script in the current folder; allowed: to call it in a folder that you can "
      "write to, with --sbatch=--chdir=" +
      printable(folder, 300) + " if learners shall start here";
  return why;
}

// The lines of sbatch's output, without the name of the program. If job_submit_dl names a reason, Slurm's own message
// (that a plugin failed) is left out, since it would only confuse; if it has accepted the job, Slurm's is the reason.
std::string words_of(const CommandResult& result) {
  std::string all, ours, slurms;
  bool accepted = false;
  for (const std::string& line : split(result.err.empty() ? result.out : result.err, '\n')) {
    std::string_view words = trim(line);
    bool our = false;
    for (const std::string_view prefix : {"sbatch: ", "error: ", "dl: "}) {
      if (words.substr(0, prefix.size()) != prefix) continue;
      words.remove_prefix(prefix.size());
      our = prefix == "dl: ";
    }
    accepted = accepted || (our && is_summary(words));
    if (words.empty()) continue;
    for (std::string* text : {&all, our ? &ours : &slurms})
      *text += (text->empty() ? "" : "; ") + printable(words, 500);
  }
  if (accepted && !slurms.empty()) return slurms;
  return ours.empty() ? all : ours;
}

}  // namespace

bool has_sbatch() {
  return !find_program("sbatch").empty();
}

Result<Script> write_script(const std::string& folder, const std::string& name, const std::string& text) {
  for (int number = 1; number <= kMostScripts; ++number) {
    const std::string path = folder + "/" + name + (number > 1 ? "-" + std::to_string(number) : "") + ".sbatch";
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0777));
    if (!file && errno != EEXIST) return no_script(folder, path, errno);
    if (!file) {
      const auto there = read_small_file(path, kMaxScript);
      if (there && *there == text) return Script{path, false};
      continue;
    }
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || file.close() != 0) {
      const int error = errno != 0 ? errno : ENOSPC;
      ::unlink(path.c_str());
      return no_script(folder, path, error);
    }
    return Script{path, true};
  }
  return Error{Errc::kIo, folder + " has " + std::to_string(kMostScripts) + " batch scripts named " + name +
                              " already; remove old ones, or give another --job-name"};
}

Result<Submitted> submit_script(const std::string& path) {
  CommandOptions options;
  options.timeout = kTimeout;
  auto result = run_command({"sbatch", "--parsable", path}, options);
  if (!result) return std::move(result).error().with_context("sbatch");
  if (!result->ok()) {
    const std::string words = words_of(*result);
    if (words.find("unrecognized option '--dl-") != std::string::npos)
      return Error{Errc::kUnsupported,
                   "this Slurm has no slurm-dl plugin (spank_dl.so in plugstack.conf, see spank_dl(8)): " + words};
    return Error{Errc::kInvalid, words.empty() ? "sbatch failed with exit status " + std::to_string(result->exit_code) +
                                                     " and no message"
                                               : words};
  }
  Submitted submitted;
  submitted.message = result->err;
  submitted.job_id = std::string(trim(result->out));
  submitted.job_id = submitted.job_id.substr(0, submitted.job_id.find(';'));
  return submitted;
}

}  // namespace dl::submit
