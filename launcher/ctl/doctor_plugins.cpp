// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "launcher/ctl/doctor_judge.h"

namespace dl::ctl::doctor {
namespace {

constexpr const char* kSpank = "spank_dl.so";
constexpr const char* kJobSubmit = "job_submit_dl.so";

// The Slurm that is to load the plugins: a planned one, slurmctld's version, or while it does not answer that of its
// commands.
std::optional<slurm_cli::Version> running(const Facts& facts) {
  if (facts.planned) return facts.planned;
  const auto version = slurm_cli::parse_version("slurm " + slurm_setting(facts, "SLURM_VERSION"));
  return version ? std::optional<slurm_cli::Version>(*version) : facts.tools;
}

// Plugins of ours fit every Slurm. Of others, and of an older slurm-dl, those of SPANK have to match in two numbers,
// those of job_submit in three.
bool fits(const PluginSigns& signs, const slurm_cli::Version& runs, bool exactly) {
  const slurm_cli::Version& built = signs.slurm;
  if (signs.any_slurm) return true;
  return built.major == runs.major && built.minor == runs.minor && (!exactly || built.micro == runs.micro);
}

std::string of_other_slurm(const SeenPlugin& plugin, const slurm_cli::Version& runs, bool exactly) {
  const slurm_cli::Version& built = plugin.signs->slurm;
  return fmt::format("{} is built for Slurm {}, and Slurm {} runs here; allowed: {}", plugin.file.path,
                     version_text(built), version_text(runs),
                     exactly ? version_text(runs) : fmt::format("{:02}.{:02}.*", runs.major, runs.minor));
}

constexpr const char* kRebuild = "../configure --with-slurm=PREFIX of that Slurm && make && make install";

void judge_file(const Facts& facts, const SeenPlugin& plugin, bool exactly, Findings* found) {
  const SeenFile& file = plugin.file;
  if (!file.there) return;
  if (!plugin.signs) {
    found->push_back(wrong(fmt::format("{}: {}; allowed: the file that make install puts there", file.path, file.fault),
                           file.path, kRebuild));
    return;
  }
  if (file.others_write)
    found->push_back(
        wrong(fmt::format("{} can be changed by others than root and SlurmUser, whose rights it has in Slurm's "
                          "daemons; allowed: mode 0644 of root",
                          file.path),
              file.path, "chown root:root, chmod 0644"));
  const auto runs = running(facts);
  if (runs && !fits(*plugin.signs, *runs, exactly))
    found->push_back(wrong(of_other_slurm(plugin, *runs, exactly) +
                               (exactly ? ": slurmctld does not start with it" : ": Slurm does not load it"),
                           file.path, kRebuild));
  const std::string& release = plugin.signs->release;
  if (release != facts.release)
    found->push_back(
        note(fmt::format("{} is of {}, and dlctl here of {}: they work together, but install both from "
                         "one build",
                         file.path, release.empty() ? "an older slurm-dl" : "slurm-dl " + release, facts.release)));
}

std::string release_text(const slurm_cli::Version& version) {
  return fmt::format("{:02}.{:02}", version.major, version.minor);
}

std::string releases_of(const std::vector<SeenPart>& parts) {
  std::vector<std::string> releases;
  for (const SeenPart& part : parts)
    if (part.signs) releases.push_back(release_text(part.signs->slurm));
  return releases.empty() ? "no Slurm" : "Slurm " + join(releases, ", ");
}

// What job_submit_dl.so opens on the controller.
void judge_parts(const Facts& facts, Findings* found) {
  const auto runs = running(facts);
  const SeenPlugin& loader = facts.job_submit;
  if (!loader.file.there || !loader.signs || !loader.signs->any_slurm || !runs) return;
  if (!facts.on_controller && !facts.planned) return;
  const std::string path = fmt::format(
      "{}slurm-dl/{}/job_submit.so", loader.file.path.substr(0, loader.file.path.rfind('/') + 1), release_text(*runs));
  const auto part =
      std::find_if(facts.parts.begin(), facts.parts.end(), [&](const SeenPart& seen) { return seen.path == path; });
  std::string fault = "is not there";
  if (part != facts.parts.end() && !part->signs) fault = part->fault;
  if (part != facts.parts.end() && part->signs) {
    if (release_text(part->signs->slurm) == release_text(*runs)) return;
    fault = "is built for Slurm " + release_text(part->signs->slurm);
  }
  found->push_back(
      wrong(fmt::format("{}: {}: slurmctld of Slurm {} starts, and refuses every new job until the file is "
                        "there; the folders beside it are for {}",
                        path, fault, release_text(*runs), releases_of(facts.parts)),
            path, "../configure --with-slurm=PREFIX of that Slurm && make && make install-slurm-module"));
}

std::string place_of_line(const PlugstackLine& line) {
  return fmt::format("{}:{}", line.file, line.line);
}

std::string line_text(const PlugstackLine& line, const std::string& word) {
  return fmt::format("{} {}{}", word, line.plugin, line.config.empty() ? "" : " config=" + line.config);
}

void judge_loaded(const Facts& facts, const PlugstackLine& line, const SeenPlugin& plugin, Findings* found) {
  const auto runs = running(facts);
  const bool other = plugin.signs && runs && !fits(*plugin.signs, *runs, false);
  const char* effect = line.required
                           ? "with 'required' sbatch and srun fail, and each task of any job, so that Slurm drains "
                             "its node"
                           : "with 'optional' Slurm leaves it out, so that there are no --dl-* flags";
  if (!plugin.file.there)
    found->push_back(
        wrong(fmt::format("{} names {}, which is not on this host: {}; allowed: the path of an installed {}",
                          place_of_line(line), line.plugin, effect, kSpank),
              place_of_line(line), line_text(line, line.required ? "required" : "optional")));
  else if (other)
    found->push_back(wrong(fmt::format("{}; {}", of_other_slurm(plugin, *runs, false), effect), place_of_line(line),
                           line_text(line, "optional") + "   (until one for this Slurm is installed)"));
  else if (!line.required)
    found->push_back(
        note(std::string("'optional': where the plugin does not load, jobs run without what their --dl-* flags ask "
                         "for; ") +
                 (plugin.signs && plugin.signs->any_slurm ? "this one loads in every Slurm, also in an upgrade"
                                                          : "allowed while you upgrade"),
             place_of_line(line), line_text(line, "required")));
  if (line.more)
    found->push_back(wrong(fmt::format("{} gives {} an argument that it does not know, so it does not start; allowed: "
                                       "config=/path/dl.toml",
                                       place_of_line(line), kSpank),
                           place_of_line(line), line_text(line, line.required ? "required" : "optional")));
  if (!line.config.empty() && line.config != facts.site_file.path)
    found->push_back(note(fmt::format("{} names {} as dl.toml; dlrun and dlctl here read {}", place_of_line(line),
                                      line.config, facts.site_file.path),
                          place_of_line(line), "required " + line.plugin));
}

}  // namespace

Findings judge_plugins(const Facts& facts) {
  Findings found;
  bool spank = facts.spank_installed.file.there;
  judge_file(facts, facts.spank_installed, false, &found);
  for (const SeenPlugin& plugin : facts.spank) {
    spank = spank || plugin.file.there;
    judge_file(facts, plugin, false, &found);
  }
  judge_file(facts, facts.job_submit, true, &found);
  judge_parts(facts, &found);
  const std::string folders = join(facts.plugin_dirs, ", ");
  const std::string first = facts.plugin_dirs.empty() ? "" : facts.plugin_dirs.front();
  if (!spank)
    found.push_back(
        wrong(fmt::format("there is no {} in the folders of PluginDir ({}), nor does plugstack.conf name one", kSpank,
                          folders),
              first, "../configure --with-slurm-plugindir=FOLDER && make install"));
  if (!facts.job_submit.file.there) {
    std::string text = fmt::format("there is no {} in the folders of PluginDir ({})", kJobSubmit, folders);
    if (facts.on_controller)
      found.push_back(wrong(text + ", where slurmctld looks for it", first,
                            "../configure --with-slurm-plugindir=FOLDER && make install"));
    else
      found.push_back(note(text + "; slurmctld needs it on its own host alone"));
  }
  if (found.empty()) {
    const auto loaded = std::find_if(facts.spank.begin(), facts.spank.end(),
                                     [](const SeenPlugin& plugin) { return plugin.file.there; });
    const SeenPlugin& plugin = loaded == facts.spank.end() ? facts.spank_installed : *loaded;
    const auto of = [](const SeenPlugin& seen) {
      return seen.signs->any_slurm ? "for every Slurm" : "for Slurm " + version_text(seen.signs->slurm);
    };
    found.push_back(ok(fmt::format(
        "{} and {} of slurm-dl {} are built {}{}", plugin.file.path, facts.job_submit.file.path, facts.release,
        of(plugin), facts.parts.empty() ? "" : ", the latter with parts for " + releases_of(facts.parts))));
  }
  return found;
}

Findings judge_plugstack(const Facts& facts) {
  Findings found;
  for (const std::string& fault : facts.plugstack.faults)
    found.push_back(wrong(
        fault + ", so sbatch, srun and all tasks fail; allowed: required|optional PLUGIN [ARGUMENTS], include FILE",
        fault.substr(0, fault.find(": ")), "mend the line, or begin it with #"));
  for (const std::string& file : facts.plugstack.unread)
    found.push_back(note(file + " cannot be read on this host, so it counts as empty"));
  std::vector<PlugstackLine> ours;
  for (const PlugstackLine& line : facts.plugstack.lines)
    if (line.plugin.substr(line.plugin.rfind('/') + 1) == kSpank) ours.push_back(line);
  const SeenFile& installed = facts.spank_installed.file;
  if (ours.empty())
    found.push_back(
        wrong(fmt::format("no line loads {}, so sbatch and srun here refuse the --dl-* flags; allowed: one line, on "
                          "login and compute nodes",
                          kSpank),
              facts.plugstack_path, "required " + (installed.there ? installed.path : kSpank)));
  for (size_t i = 0; i < ours.size() && i < facts.spank.size(); ++i)
    judge_loaded(facts, ours[i], facts.spank[i], &found);
  for (size_t i = 1; i < ours.size(); ++i)
    found.push_back(wrong(fmt::format("{} loads {} a second time, after {}; allowed: one line", place_of_line(ours[i]),
                                      kSpank, place_of_line(ours[0])),
                          place_of_line(ours[i]), "(remove it)"));
  if (found.empty()) found.push_back(ok(fmt::format("{} loads {}", place_of_line(ours[0]), ours[0].plugin)));
  return found;
}

Findings judge_job_submit(const Facts& facts) {
  const std::string plugins = slurm_setting(facts, "JobSubmitPlugins");
  const char* yet = facts.answers ? "" : " (by slurm.conf here: slurmctld does not answer)";
  if (has_word(plugins, "dl")) return {ok(fmt::format("JobSubmitPlugins={}{}", plugins, yet))};
  return {wrong(
      fmt::format("JobSubmitPlugins is {}{}: --dl-* flags do not shape jobs, and tenants are not charged; allowed: a "
                  "list with dl",
                  plugins.empty() ? "empty" : "'" + plugins + "'", yet),
      slurm_conf_place(facts, "JobSubmitPlugins"),
      fmt::format("JobSubmitPlugins={}dl   (then restart slurmctld)", plugins.empty() ? "" : plugins + ","))};
}

}  // namespace dl::ctl::doctor
