// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/export_folder.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "launcher/ctl/output_file.h"

namespace dl::ctl {
namespace {

// TensorBoard knows an event file by ".tfevents." in its name. The name is always the same, so that a later export
// replaces an earlier one.
constexpr const char* kEventFile = "events.out.tfevents.0.slurm-dl";
constexpr std::string_view kAttemptFolder = "attempt-";

Error not_usable(const std::string& path, const std::string& why) {
  return Error{Errc::kExists, printable(path, 300) + " " + why + "; name another folder"};
}

bool is_attempt_folder(std::string_view name) {
  return name.substr(0, kAttemptFolder.size()) == kAttemptFolder &&
         parse_int(name.substr(kAttemptFolder.size()), 0, 1'000'000'000).has_value();
}

// Refuses a folder with other contents than those of an earlier export. One that is not there is fine.
Status check_contents(const std::string& path, bool has_attempts) {
  std::error_code failure;
  for (std::filesystem::directory_iterator at(path, failure), end; !failure && at != end; at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name == kEventFile) continue;
    if (!has_attempts || !is_attempt_folder(name))
      return not_usable(path, "holds " + printable(name) + ", which is no export of dlctl's");
    DL_TRY(check_contents(at->path().string(), false));
  }
  if (!failure || failure == std::errc::no_such_file_or_directory) return {};
  if (failure == std::errc::not_a_directory) return not_usable(path, "is not a folder");
  return not_usable(path, "cannot be used: " + failure.message());
}

std::string folder_of(const std::string& path, const ExportRun& run) {
  return run.attempt == 0 ? path : path + "/" + std::string(kAttemptFolder) + std::to_string(run.attempt);
}

}  // namespace

Result<std::string> write_event_files(const std::string& folder, const std::string& job, const ExportedJob& exported) {
  std::string path = folder + (folder.back() == '/' ? "" : "/") + run_file_name(job);
  DL_TRY(check_contents(path, true));
  for (const ExportRun& run : exported.runs) {
    const std::string its = folder_of(path, run);
    const Status made = make_directories(its);
    if (!made) return not_usable(its, "cannot be made: " + std::generic_category().message(made.error().sys_errno));
    DL_TRY(write_output_file(its + "/" + kEventFile, event_file(run)));
  }
  return path;
}

}  // namespace dl::ctl
