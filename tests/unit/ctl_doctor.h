// SPDX-License-Identifier: Apache-2.0
// A site where `dlctl doctor` finds nothing, for its tests to break.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "launcher/ctl/doctor_checks.h"
#include "launcher/ctl/doctor_judge.h"

namespace dl::ctl::doctor {

constexpr const char* kGoodTiers =
    "[tiers.guaranteed]\npartition = \"batch\"\n[tiers.borrow]\npartition = \"borrow\"\n";

inline void set(std::string* text, const std::string& from, const std::string& to) {
  const size_t at = text->find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text->replace(at, from.size(), to);
}

inline SeenPlugin good_plugin(const std::string& path, const std::string& type) {
  SeenPlugin plugin;
  plugin.file.path = path;
  plugin.file.there = true;
  plugin.signs = PluginSigns{type, {22, 5, 8}, "0.1.0"};
  return plugin;
}

// Two nodes of two GPUs, two partitions. The dl.toml may be another one.
inline Facts good_site(const std::string& toml = kGoodTiers) {
  Facts facts;
  facts.admin = true;
  facts.release = "0.1.0";
  facts.user = "root";
  facts.answers = facts.on_controller = true;
  facts.now_s = facts.slurm_s = 1'780'000'000;
  facts.tools = slurm_cli::Version{22, 5, 8};
  facts.config =
      "AuthType = auth/munge\nClusterName = c1\nConstrainDevices = yes\nGresTypes = gpu\nJobContainerType = "
      "job_container/none\nJobRequeue = 1\nJobSubmitPlugins = dl\nKillWait = 30 sec\nMaxArraySize = 1001\n"
      "OverTimeLimit = 0 min\nPreemptMode = REQUEUE\nPreemptType = preempt/partition_prio\nPriorityType = "
      "priority/multifactor\nProctrackType = proctrack/cgroup\nPrologFlags = Alloc,Contain\nSchedulerParameters = "
      "bf_interval=2\nSelectType = select/cons_tres\nSelectTypeParameters = CR_CORE_MEMORY\nSlurmdTimeout = 300 sec\n"
      "SLURM_VERSION = 22.05.8\nTaskPlugin = task/cgroup\nTmpFS = /tmp\n";
  facts.partitions =
      "PartitionName=batch PriorityTier=10 GraceTime=0 PreemptMode=OFF\n"
      "PartitionName=borrow PriorityTier=1 GraceTime=20 PreemptMode=REQUEUE\n";
  facts.nodes = "NodeName=n1 Gres=gpu:2 Version=22.05.8\nNodeName=n2 Gres=gpu:2 Version=22.05.8\n";
  read_partitions(facts.partitions, &facts.cluster);
  read_nodes(facts.nodes, &facts.cluster);
  facts.slurm_conf.path = "/etc/slurm/slurm.conf";
  facts.slurm_conf.there = true;
  facts.slurm_conf.text =
      "ClusterName=c1\n  JobSubmitPlugins=dl\nPartitionName=batch Nodes=ALL\nPartitionName=borrow\tNodes=ALL\nInclude "
      "dl-licenses.conf\n";
  facts.plugin_dirs = {"/usr/lib/slurm"};
  facts.plugstack_path = "/etc/slurm/plugstack.conf";
  facts.plugstack.lines = {{"/etc/slurm/plugstack.conf", 3, true, "/usr/lib/slurm/spank_dl.so", "", false}};
  facts.spank = {good_plugin("/usr/lib/slurm/spank_dl.so", "spank")};
  facts.job_submit = good_plugin("/usr/lib/slurm/job_submit_dl.so", "job_submit/dl");
  facts.site_file.path = "/etc/slurm/dl.toml";
  facts.site_file.there = true;
  facts.site_file.text = toml;
  auto site = parse_site_config(toml, "/etc/slurm/dl.toml");
  if (site)
    facts.site = *std::move(site);
  else
    facts.site_fault = site.error().text;
  facts.flags = true;
  facts.python = "/usr/bin/python3";
  facts.folders = {{"home directory", "/home/ann", true, true, "nfs", true}};
  return facts;
}

inline std::vector<Finding> found_by(const Facts& facts, const std::string& check) {
  std::vector<Finding> found;
  for (const Answer& answer : examine(facts, {check})) found.push_back(answer.finding);
  return found;
}
inline Finding first(const Facts& facts, const std::string& check) {
  return found_by(facts, check).at(0);
}
inline int wrongs(const Facts& facts, const std::string& check) {
  return count_wrong(examine(facts, {check}));
}
inline Grade grade_of(const Facts& facts, const std::string& check) {
  Grade worst = Grade::kOk;
  for (const Finding& finding : found_by(facts, check)) worst = std::max(worst, finding.grade);
  return worst;
}
// The sentences of a check, one after the other.
inline std::string text_of(const Facts& facts, const std::string& check) {
  std::string text;
  for (const Finding& finding : found_by(facts, check)) text += (text.empty() ? "" : "\n") + finding.text;
  return text;
}

}  // namespace dl::ctl::doctor
