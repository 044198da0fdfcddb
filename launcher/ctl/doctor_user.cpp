// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <strings.h>

#include <algorithm>

#include "common/base/parse.h"
#include "launcher/ctl/doctor_judge.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::ctl::doctor {

Findings judge_programs(const Facts& facts) {
  Findings found;
  if (!facts.missing_programs.empty())
    found.push_back(
        wrong(fmt::format("programs of slurm-dl are not there: {}; allowed: slurm-dl is installed as a whole",
                          join(facts.missing_programs, ", ")),
              "", facts.admin ? "make install" : "ask your administrators"));
  if (!facts.in_path)
    found.push_back(note("dlrun is not found in PATH, so a script has to name it with its folder",
                         facts.admin ? "/etc/profile.d/slurm-dl.sh" : "~/.profile", "PATH=FOLDER-OF-DLCTL:$PATH"));
  if (found.empty())
    found.push_back(ok("dlrun and the programs that it starts are installed: slurm-dl " + facts.release));
  return found;
}

Findings judge_flags(const Facts& facts) {
  if (!facts.flags) return {note(fmt::format("sbatch was not tried: {}", facts.flags_fault))};
  if (*facts.flags) return {ok("sbatch --help lists the --dl-* flags")};
  return {wrong(
      "sbatch does not know the --dl-* flags on this host; allowed: spank_dl.so in plugstack.conf of each login host",
      facts.admin ? facts.plugstack_path : "",
      facts.admin ? "" : "tell your administrators; `dlrun --submit` needs no flags")};
}

Findings judge_python(const Facts& facts) {
  if (facts.python.empty()) return {note("there is no python3 in PATH; only Python programs need one")};
  if (facts.python_fault.empty()) return {ok(facts.python + " imports dlckpt as it does in a job")};
  return {wrong(fmt::format("{} cannot import dlckpt, as it would in a job: {}", facts.python, facts.python_fault), "",
                "load the module or the environment of Python that you use, then run this again")};
}

Findings judge_folders(const Facts& facts) {
  Findings found;
  for (const SeenFolder& folder : facts.folders) {
    const std::string kind = folder.kind.empty() ? "" : " (" + folder.kind + ")";
    if (!folder.there || !folder.writable)
      found.push_back(wrong(fmt::format("{}, {}, {}; allowed: a directory that you can write", folder.what, folder.path,
                                        folder.there ? "cannot be written" : "is not there"),
                            folder.path));
    else if (!folder.shared)
      found.push_back(
          note(fmt::format("{}, {}{}, seems to be seen by this host alone: jobs on other hosts would neither find nor "
                           "leave their files there; allowed: a file system that all nodes share",
                           folder.what, folder.path, kind)));
    else
      found.push_back(ok(fmt::format("{}, {}{}, can be written and is shared", folder.what, folder.path, kind)));
  }
  return found;
}

Findings judge_user(const Facts& facts) {
  const SiteConfig& site = *facts.site;
  if (site.tenants.empty()) return {ok("GPUs are not divided among tenants here")};
  std::string names;
  for (const SiteTenant& tenant : site.tenants) names += (names.empty() ? "" : ", ") + tenant.name;
  if (!facts.cluster.has.accounting)
    return {ok(fmt::format("jobs with GPUs need --account, a tenant: {}", names.substr(0, 300)))};
  std::vector<std::string> mine;
  for (const std::string& account : facts.accounts)
    if (find_tenant(site.tenants, account) >= 0) mine.push_back(account);
  if (!mine.empty()) return {ok(fmt::format("{} may use the GPUs of {}", facts.user, join(mine, ", ")))};
  return {note(
      fmt::format("{} has no account that is a tenant ({}), so jobs with GPUs are refused; allowed: {}", facts.user,
                  facts.accounts.empty() ? "none" : join(facts.accounts, ", "), names.substr(0, 300)),
      "", facts.admin ? fmt::format("sacctmgr add user {} account=TENANT", facts.user) : "ask your administrators")};
}

std::string slurm_setting(const Facts& facts, std::string_view name) {
  return slurm_cli::given(slurm_cli::setting_of(facts.config, name));
}

bool has_word(const std::string& list, std::string_view word) {
  for (const std::string& item : split(list, ',')) {
    const std::string_view bare = trim(item);
    if (bare.size() == word.size() && ::strncasecmp(bare.data(), word.data(), word.size()) == 0) return true;
  }
  return false;
}

std::string slurm_conf_place(const Facts& facts, std::string_view key) {
  // A key with a '=', as of a partition, has to be followed by a blank or the end of the line.
  const std::string start = std::string(trim(key)) + (key.find('=') == std::string_view::npos ? "=" : "");
  int number = 0;
  for (const std::string& whole : split(facts.slurm_conf.text, '\n')) {
    ++number;
    const std::string_view line = trim(whole);
    if (line.size() < start.size() || ::strncasecmp(line.data(), start.data(), start.size()) != 0) continue;
    const std::string_view rest = line.substr(start.size());
    if (start.back() == '=' || rest.empty() || rest.front() == ' ' || rest.front() == '\t')
      return fmt::format("{}:{}", facts.slurm_conf.path, number);
  }
  return facts.slurm_conf.path;
}

std::string site_place(const Facts& facts, const std::string& heading) {
  int number = 0;
  for (const std::string& line : split(facts.site_file.text, '\n')) {
    ++number;
    if (std::string_view(line).substr(0, line.find('#')).find(heading) != std::string_view::npos)
      return fmt::format("{}:{}", facts.site_file.path, number);
  }
  return facts.site_file.path;
}

std::optional<int64_t> slurm_seconds(const std::string& text) {
  if (text == "UNLIMITED" || text == "INFINITE") return -1;
  const size_t end = text.find(' ');
  const std::string_view unit =
      end == std::string::npos ? std::string_view() : trim(std::string_view(text).substr(end));
  if (const auto number = parse_int(text.substr(0, end), 0, INT32_MAX)) {
    if (unit.empty() || unit == "sec") return *number;
    if (unit == "min") return *number * 60;
    return std::nullopt;
  }
  const auto time = parse_duration(text);
  return time ? std::optional<int64_t>(time->count()) : std::nullopt;
}

std::string version_text(const slurm_cli::Version& version) {
  return fmt::format("{:02}.{:02}.{}", version.major, version.minor, version.micro);
}

}  // namespace dl::ctl::doctor
