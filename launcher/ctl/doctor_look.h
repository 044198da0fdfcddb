// SPDX-License-Identifier: Apache-2.0
// Gathers what `dlctl doctor` judges. It only reads: files of the cluster and of the caller, and a handful of questions
// to Slurm, each asked once.
#pragma once

#include "launcher/ctl/doctor_facts.h"

namespace dl::ctl::doctor {

// as_user: only what a user without rights meets. Never fails: what cannot be found out stays unknown. Blocks, up to a
// minute where Slurm does not answer.
Facts look(bool as_user);

// doctor_look_files.cpp
// Files of the cluster and of dlpolicyd. Needs facts->config, and slurm_conf's path.
void look_at_cluster_files(Facts* facts);
void look_at_policyd(Facts* facts);
// dl.toml. Needs facts->config.
void look_at_site(Facts* facts);
// slurm.conf of this host, and, if slurmctld does not answer, the settings that it tells of, as facts->config.
void look_at_slurm_conf(Facts* facts);
// doctor_look_user.cpp
// Programs, flags, Python, folders.
void look_at_user(Facts* facts);

}  // namespace dl::ctl::doctor
