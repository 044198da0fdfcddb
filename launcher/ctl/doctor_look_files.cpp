// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fmt/core.h>
#include <glob.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "launcher/ctl/doctor_judge.h"
#include "launcher/ctl/doctor_look.h"
#include "launcher/ctl/plan_facts.h"
#include "launcher/ctl/text.h"

namespace dl::ctl::doctor {
namespace {

constexpr size_t kMostConf = 4 << 20;
constexpr size_t kMostPlugin = 256 << 20;  // a plugin with its debugging information has 40 MB
constexpr const char* kSpankFile = "spank_dl.so";

std::string folder_of_file(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// The user id in "slurm(64030)".
uid_t slurm_user_id(const Facts& facts) {
  const std::string user = slurm_setting(facts, "SlurmUser");
  const size_t open = user.find('(');
  return open == std::string::npos ? 0 : static_cast<uid_t>(std::strtoul(user.c_str() + open + 1, nullptr, 10));
}

// The group of root's may write: only root is in it.
bool others_may_write(const struct stat& status, uid_t slurm_user) {
  return (status.st_mode & S_IWOTH) != 0 || ((status.st_mode & S_IWGRP) != 0 && status.st_gid != 0) ||
         (status.st_uid != 0 && status.st_uid != slurm_user);
}

SeenFile seen_file(const std::string& path, uid_t slurm_user) {
  SeenFile file;
  file.path = path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) file.fault = errno_error(path, errno).text;
    return file;
  }
  file.there = true;
  file.others_write = others_may_write(status, slurm_user);
  return file;
}

void read_text(SeenFile* file) {
  if (!file->there) return;
  if (auto text = read_small_file(file->path, kMostConf))
    file->text = *std::move(text);
  else
    file->fault = text.error().text;
}

SeenPlugin seen_plugin(const std::string& path, uid_t slurm_user) {
  SeenPlugin plugin;
  plugin.file = seen_file(path, slurm_user);
  if (!plugin.file.there) return plugin;
  const auto content = read_small_file(path, kMostPlugin);
  const auto signs = content ? read_plugin_signs(*content) : Result<PluginSigns>(content.error());
  if (signs)
    plugin.signs = *signs;
  else
    plugin.file.fault = signs.error().text;
  return plugin;
}

std::vector<SeenPart> seen_parts(const std::vector<std::string>& files) {
  std::vector<SeenPart> parts;
  for (const std::string& path : files) {
    const auto content = read_small_file(path, kMostPlugin);
    const auto signs = content ? read_plugin_signs(*content) : Result<PluginSigns>(content.error());
    parts.push_back({path, std::nullopt, signs ? "" : signs.error().text});
    if (signs) parts.back().signs = *signs;
  }
  return parts;
}

// The first of Slurm's folders that has the file; with none the path in the first folder.
std::string in_folders(const std::vector<std::string>& folders, const std::string& name) {
  for (const std::string& folder : folders)
    if (::access((folder + "/" + name).c_str(), F_OK) == 0) return folder + "/" + name;
  return folders.empty() ? name : folders.front() + "/" + name;
}

std::vector<std::string> files_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

std::string link_of(const std::string& path) {
  char text[256] = "";
  const ssize_t size = ::readlink(path.c_str(), text, sizeof text - 1);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
}

std::string proc_text(const std::string& path) {
  constexpr size_t kMostText = 64 << 10;
  auto text = read_small_file(path, kMostText);
  return text ? *std::move(text) : std::string();
}

// The value of --NAME FILE or --NAME=FILE in a process' command line; relative to its working directory.
std::string file_option(const std::string& process, const std::string& name) {
  const std::vector<std::string> words = split(proc_text(process + "/cmdline"), '\0');
  for (size_t i = 0; i < words.size(); ++i) {
    std::string value;
    if (words[i] == name && i + 1 < words.size()) value = words[i + 1];
    if (words[i].rfind(name + "=", 0) == 0) value = words[i].substr(name.size() + 1);
    if (!value.empty()) return value[0] == '/' ? value : link_of(process + "/cwd") + "/" + value;
  }
  return {};
}

}  // namespace

void look_at_slurm_conf(Facts* facts) {
  const std::string set = environment_value("SLURM_CONF");
  facts->slurm_conf =
      seen_file(!set.empty() && set[0] == '/' ? set : folder_of_file(default_site_config_path(false)) + "/slurm.conf",
                slurm_user_id(*facts));
  read_text(&facts->slurm_conf);
  const std::string here = node_name();
  const auto is_here = [&](const std::string& host) {
    return host.substr(0, host.find_first_of("(.")) == here.substr(0, here.find('.'));
  };
  if (facts->answers) {
    for (int i = 0; i < 8; ++i)
      facts->on_controller =
          facts->on_controller || is_here(slurm_setting(*facts, fmt::format("SlurmctldHost[{}]", i)));
    return;
  }
  // slurm.conf does not care for the case of a key.
  for (const std::string& whole : split(facts->slurm_conf.text, '\n')) {
    const std::string_view line = trim(std::string_view(whole).substr(0, whole.find('#')));
    for (const char* key :
         {"PluginDir", "PlugStackConfig", "JobSubmitPlugins", "AuthType", "ClusterName", "SlurmctldHost"}) {
      const std::string start = std::string(key) + "=";
      if (line.size() <= start.size() || ::strncasecmp(line.data(), start.c_str(), start.size()) != 0) continue;
      facts->config += fmt::format("{} = {}\n", key, line.substr(start.size()));
      if (start == "SlurmctldHost=")
        facts->on_controller = facts->on_controller || is_here(std::string(line.substr(start.size())));
    }
  }
}

void look_at_site(Facts* facts) {
  facts->handed_out = slurm_conf_is_handed_out() && environment_value("DL_CONFIG").empty();
  facts->site_file = seen_file(default_site_config_path(true), slurm_user_id(*facts));
  read_text(&facts->site_file);
  if (auto site = load_site_config(facts->site_file.path))
    facts->site = *std::move(site);
  else
    facts->site_fault = site.error().text;
  const std::string conf = slurm_setting(*facts, "SLURM_CONF");
  if (!facts->on_controller || conf.empty()) return;
  facts->controller_site = folder_of_file(conf) + "/dl.toml";
  struct stat ours {
  }, slurms{};
  const bool there = ::stat(facts->site_file.path.c_str(), &ours) == 0;
  const bool other = ::stat(facts->controller_site.c_str(), &slurms) == 0;
  facts->same_site = there == other && (!there || (ours.st_dev == slurms.st_dev && ours.st_ino == slurms.st_ino));
}

void look_at_cluster_files(Facts* facts) {
  const uid_t slurm_user = slurm_user_id(*facts);
  facts->plugin_dirs = split(slurm_setting(*facts, "PluginDir"), ':');
  facts->plugstack_path = slurm_setting(*facts, "PlugStackConfig");
  if (facts->plugstack_path.empty()) facts->plugstack_path = folder_of_file(facts->slurm_conf.path) + "/plugstack.conf";
  const ReadText read = [](const std::string& path) -> std::optional<std::string> {
    auto text = read_small_file(path, kMostConf);
    return text ? std::optional<std::string>(*std::move(text)) : std::nullopt;
  };
  facts->plugstack = read_plugstack(facts->plugstack_path, read, files_of);
  for (const PlugstackLine& line : facts->plugstack.lines) {
    if (line.plugin.substr(line.plugin.rfind('/') + 1) != kSpankFile) continue;
    facts->spank.push_back(
        seen_plugin(line.plugin[0] == '/' ? line.plugin : in_folders(facts->plugin_dirs, line.plugin), slurm_user));
  }
  const bool there =
      std::any_of(facts->spank.begin(), facts->spank.end(), [](const SeenPlugin& plugin) { return plugin.file.there; });
  if (!there) facts->spank_installed = seen_plugin(in_folders(facts->plugin_dirs, kSpankFile), slurm_user);
  facts->job_submit = seen_plugin(in_folders(facts->plugin_dirs, "job_submit_dl.so"), slurm_user);
  facts->parts = seen_parts(files_of(folder_of_file(facts->job_submit.file.path) + "/slurm-dl/*/job_submit.so"));
}

// A dlpolicyd of this host, that is of its network: one machine may hold several hosts.
void look_at_policyd(Facts* facts) {
  const std::string network = link_of("/proc/self/ns/net");
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir("/proc"), &::closedir);
  while (const dirent* entry =
             dir != nullptr ? ::readdir(dir.get()) : nullptr) {  // NOLINT(concurrency-mt-unsafe): its own
    const std::string process = std::string("/proc/") + entry->d_name;
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || trim(proc_text(process + "/comm")) != "dlpolicyd" ||
        link_of(process + "/ns/net") != network)
      continue;
    facts->policyd_runs = true;
    struct stat status {};
    const std::string metrics = file_option(process, "--metrics-file");
    if (!metrics.empty() && ::stat(metrics.c_str(), &status) == 0)
      facts->policyd_age_s = now_ms() / 1000 - status.st_mtime;
  }
}

}  // namespace dl::ctl::doctor
