// SPDX-License-Identifier: Apache-2.0
// What `dlctl doctor` has found out about this host and its Slurm, and what a check makes of it. Plain data:
// doctor_look.h gathers the facts, doctor_checks.h judges them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/site/site_config.h"
#include "launcher/ctl/plugin_file.h"
#include "launcher/ctl/site_and_slurm.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl::doctor {

// A file, or a folder, on this host.
struct SeenFile {
  std::string path;
  bool there = false;
  std::string fault;          // why it cannot be read; empty: it can, or is not there
  bool others_write = false;  // its group, or everybody, may write it, or its owner is neither root nor SlurmUser
  std::string text;           // of a small file that is judged by its lines
};

struct SeenPlugin {
  SeenFile file;
  std::optional<PluginSigns> signs;  // none: it is no plugin, as file.fault says
};

// What job_submit_dl.so opens for a release of Slurm: slurm-dl/22.05/job_submit.so beside it.
struct SeenPart {
  std::string path;
  std::optional<PluginSigns> signs;  // none: it is no plugin, as fault says
  std::string fault;
};

// A folder in which a job of the caller would write.
struct SeenFolder {
  std::string what;  // "home directory", "working directory", "job_dir of dl.toml"
  std::string path;
  bool there = false, writable = false;
  std::string kind;     // of the file system: "nfs", "ext4"; empty: not known
  bool shared = false;  // that kind is one that several hosts see
};

// How long the last saves of a job took.
struct SeenSave {
  std::string job;
  double seconds = 0;
};

struct Facts {
  bool admin = false;                         // the caller may change the cluster, so he is told of it
  std::string release;                        // of this dlctl
  std::optional<slurm_cli::Version> planned;  // the Slurm for which plugins are judged in place of the one that runs
  std::string user;
  int64_t now_s = 0;  // when slurmctld was asked

  // Slurm, as it answers here
  bool answers = false;
  std::string slurm_fault;                  // why not
  std::string config;                       // `scontrol show config`
  int64_t slurm_s = 0;                      // slurmctld's time then; 0: not told
  std::optional<slurm_cli::Version> tools;  // of Slurm's commands here
  std::string partitions, nodes;            // `scontrol --oneliner show ...`
  SlurmCluster cluster;                     // the same, with licences, associations and QOS
  std::string qos;  // `sacctmgr show qos format=name,preempt,preemptmode,gracetime`; empty without slurmdbd
  std::string accounting_fault;            // why slurmdbd does not answer; empty: it does, or there is none
  std::string module_fault;                // why dlctl cannot read Slurm's records (quota, why); empty: it can
  std::vector<std::string> mpi;            // what srun --mpi accepts
  bool on_controller = false;              // this host is one of SlurmctldHost
  std::optional<std::string> munge_fault;  // none: not tried; empty: munge works here

  // Files of the cluster
  SeenFile slurm_conf;
  std::vector<std::string> plugin_dirs;
  std::string plugstack_path;
  Plugstack plugstack;
  std::vector<SeenPlugin> spank;   // in the order of those lines of plugstack that name spank_dl.so
  SeenPlugin spank_installed;      // spank_dl.so of PluginDir, if no line names one that is there
  SeenPlugin job_submit;           // job_submit_dl.so of PluginDir
  std::vector<SeenPart> parts;     // all that are beside it
  SeenFile site_file;              // dl.toml as the programs find it here
  std::optional<SiteConfig> site;  // none: it has a fault
  std::string site_fault;
  std::string controller_site;  // the path where slurmctld finds it; empty: not known
  bool same_site = true;        // on the controller: both paths lead to one file
  bool handed_out = false;      // slurm.conf comes from slurmctld, so no dl.toml is beside it

  // dlpolicyd on this host
  bool policyd_runs = false;             // a process of that name
  std::optional<int64_t> policyd_age_s;  // of the file of metrics that it writes in each round; none: there is none
  std::vector<SeenSave> saves;           // of jobs that run, as far as their files could be read

  // What users meet
  std::optional<bool> flags;  // sbatch --help has --dl-framework; none: sbatch does not run, as flags_fault says
  std::string flags_fault;
  std::vector<std::string> missing_programs;  // of slurm-dl, that are not where dlctl is
  bool in_path = true;                        // dlrun is found in PATH
  std::string python;                         // the python3 in PATH; empty: none
  std::string python_fault;                   // its last line when it cannot import dlckpt; empty: it can
  std::vector<SeenFolder> folders;
  std::vector<std::string> accounts;  // of the user, by slurmdbd
};

enum class Grade { kOk, kNote, kWrong };
// One line of the answer. place and line: what to change, "/etc/slurm/slurm.conf:12" and "KillWait=30".
struct Finding {
  Grade grade = Grade::kOk;
  std::string text;
  std::string place, line;
};
using Findings = std::vector<Finding>;

inline Finding ok(std::string text) {
  return {Grade::kOk, std::move(text), "", ""};
}
inline Finding note(std::string text, std::string place = "", std::string line = "") {
  return {Grade::kNote, std::move(text), std::move(place), std::move(line)};
}
inline Finding wrong(std::string text, std::string place = "", std::string line = "") {
  return {Grade::kWrong, std::move(text), std::move(place), std::move(line)};
}

}  // namespace dl::ctl::doctor
