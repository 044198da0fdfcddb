// SPDX-License-Identifier: Apache-2.0
// The checks of `dlctl doctor`, one function each, for the table in doctor_checks.cpp. All are pure. Those that the
// table says need Slurm (kSlurm) may rely on facts.answers, those that need kSite on facts.site.
#pragma once

#include <string>
#include <string_view>

#include "launcher/ctl/doctor_facts.h"

namespace dl::ctl::doctor {

// doctor_daemons.cpp: Slurm's daemons and ours, and the hosts.
Findings judge_slurmctld(const Facts& facts);
Findings judge_munge(const Facts& facts);
Findings judge_clock(const Facts& facts);
Findings judge_versions(const Facts& facts);
Findings judge_policyd(const Facts& facts);
// doctor_plugins.cpp: the two plugins, and the lines that load them.
Findings judge_plugins(const Facts& facts);
Findings judge_plugstack(const Facts& facts);
Findings judge_job_submit(const Facts& facts);
// doctor_site.cpp: dl.toml, and what it needs of Slurm.
Findings judge_site_file(const Facts& facts);
Findings judge_tiers(const Facts& facts);
Findings judge_quotas(const Facts& facts);
Findings judge_licences(const Facts& facts);
Findings judge_accounts(const Facts& facts);
// doctor_preemption.cpp: how jobs give way, and the time that they have for it.
Findings judge_preemption(const Facts& facts);
Findings judge_grace(const Facts& facts);
Findings judge_requeue(const Facts& facts);
// doctor_nodes.cpp: what Slurm does with nodes and their GPUs.
Findings judge_gpus(const Facts& facts);
Findings judge_cgroups(const Facts& facts);
Findings judge_network(const Facts& facts);
Findings judge_pmix(const Facts& facts);
Findings judge_tmp(const Facts& facts);
// doctor_user.cpp: what a user meets.
Findings judge_programs(const Facts& facts);
Findings judge_flags(const Facts& facts);
Findings judge_python(const Facts& facts);
Findings judge_folders(const Facts& facts);
Findings judge_user(const Facts& facts);

// For all of them.
// A setting of slurmctld's; empty if it has none or one of Slurm's words for none.
std::string slurm_setting(const Facts& facts, std::string_view name);
// Whether a list such as "Alloc,Contain" has this word, whatever their case.
bool has_word(const std::string& list, std::string_view word);
// Where a key of slurm.conf is to be changed: "/etc/slurm/slurm.conf:12" if a line of it sets the key, else the path.
std::string slurm_conf_place(const Facts& facts, std::string_view key);
// The same for the heading of a table of dl.toml, such as "[tiers.borrow]".
std::string site_place(const Facts& facts, const std::string& heading);
// Seconds of "30 sec", "5 min", "1-02:00:00", "UNLIMITED" (-1); none if the text is no time.
std::optional<int64_t> slurm_seconds(const std::string& text);
std::string version_text(const slurm_cli::Version& version);  // "22.05.8"

}  // namespace dl::ctl::doctor
