// SPDX-License-Identifier: Apache-2.0
#include "launcher/submit/places.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/base/unique_fd.h"
#include "common/contract/data_request.h"
#include "common/contract/env_names.h"
#include "common/contract/exit_codes.h"
#include "common/contract/request_values.h"
#include "common/process/child_process.h"
#include "common/site/site_config.h"
#include "launcher/options/data_sources.h"
#include "launcher/options/run_input.h"
#include "launcher/record/sources_file.h"

namespace dl::submit {
namespace {

constexpr std::chrono::seconds kCheckLimit{20};
constexpr std::string_view kItself = "dl-data: ";

// What was asked for: the option's value, else that of the variable that presets the job's flag.
std::string asked(const std::optional<std::string>& option, const char* variable) {
  return option ? *option : environment_value(variable);
}

// Whether something asks rclone, which may be on the nodes alone: spank_dl.so looks at its configuration then.
bool needs_rclone(const std::string& place) {
  return data::place_of(place) == data::Place::kRemote && find_program("rclone").empty();
}

struct Check {
  std::string program, option;
  std::string* note;

  Status run(const std::vector<std::string>& words) const {
    std::vector<std::string> command = {program, "check"};
    command.insert(command.end(), words.begin(), words.end());
    CommandOptions how;
    how.timeout = kCheckLimit;
    const auto done = run_command(command, how);
    if (done && done->ok()) return {};
    std::string said = done ? std::string(trim(done->err)) : done.error().text;
    if (said.rfind(kItself, 0) == 0) said.erase(0, kItself.size());
    if (done && done->exit_code == kExitData) return Error{Errc::kInvalid, option + ": " + printable(said, 600)};
    *note = option + " was not checked: " + printable(said, 600);
    return {};
  }
};

Status check_data(const data::DataFlag& flag, const SourcesOf& of, const SiteConfig& site, const Check& check) {
  auto sources = sources_of(flag, site.data, of);
  // Where slurmctld hands out slurm.conf, a login host may have no dl.toml, and with it no catalogue.
  if (!sources && ::access(of.config.c_str(), F_OK) != 0) return {};
  if (!sources) return std::move(sources).error().with_context(check.option);
  sources->erase(std::remove_if(sources->begin(), sources->end(),
                                [](const data::Source& source) { return needs_rclone(source.from); }),
                 sources->end());
  if (sources->empty()) return {};
  std::string path = std::filesystem::temp_directory_path() / "dlrun-sources-XXXXXX";
  const UniqueFd file(::mkstemp(path.data()));
  if (!file) return {};
  const Status written = write_all(file.get(), record::format_sources(*sources), path);
  Status checked = written ? check.run({"--sources", path}) : Status();
  ::unlink(path.c_str());
  return checked;
}

}  // namespace

Status check_places(const RunCommand& run, const std::string& work_dir, std::string* note) {
  note->clear();
  const auto agent = find_agent();
  const auto program = agent ? program_beside(*agent, "dl-data", "data") : Result<std::string>(Error{});
  if (!program) return {};
  SourcesOf of;
  of.work_dir = work_dir;
  of.home = environment_value("HOME");
  of.config = default_site_config_path(true);
  for (const auto& [option, value] : run.sbatch)
    if (option == "account") of.tenant = value;
  const auto site = load_site_config(of.config);
  Check check{*program, "--data", note};
  if (const auto flag = data::parse_data(asked(run.request.data, env::kData)); flag && site)
    DL_TRY(check_data(*flag, of, *site, check));
  const auto check_place = [&](const char* option, std::string to) {
    check.option = option;
    if (data::place_of(to) == data::Place::kPath && to.front() != '/' && to.rfind("~/", 0) != 0)
      to = work_dir + "/" + to;
    return needs_rclone(to) ? Status() : check.run({"--to", to});
  };
  if (const auto results = data::parse_results(asked(run.request.results, env::kResults)))
    DL_TRY(check_place("--results", results->to));
  const auto checkpoint = parse_checkpoint(asked(run.request.checkpoint, env::kCheckpoint));
  if (checkpoint && !checkpoint->objects.empty()) DL_TRY(check_place("--checkpoint: objects", checkpoint->objects));
  return {};
}

}  // namespace dl::submit
