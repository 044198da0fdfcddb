// SPDX-License-Identifier: Apache-2.0
// The nftables rules for a job whose tenant has network = "job": sockets of the job may speak only to its own nodes,
// Slurm's controllers and what the site lists. The kernel recognises these sockets by the cgroup of version 2 in which
// they were created. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::network {

// The table of nftables that holds a job's rules.
std::string table_name(int64_t job);

// A script for nft that replaces the table in one transaction. `cgroup` is its path relative to /sys/fs/cgroup, as nft
// expects it; `level` is its depth in the hierarchy, whose root has 0. `peers` are the addresses and prefixes that are
// allowed. kInvalid if one of these is not an address or prefix, or if the path has characters that cannot be quoted.
Result<std::string> rules_text(int64_t job, const std::string& cgroup, int level,
                               const std::vector<std::string>& peers);

// A script that removes the table; it succeeds even if there is none.
std::string no_rules_text(int64_t job);

// The mount point of the hierarchy of version 2 according to the text of /proc/self/mountinfo; none if it is not
// mounted.
std::optional<std::string> cgroup2_mount(std::string_view mountinfo);

// The cgroup that Slurm's cgroup/v2 plugin has made for the job, from the text of /proc/self/cgroup: the path up to
// "/job_N". None if Slurm has made no cgroup of version 2 for the job.
std::optional<std::string> slurm_job_cgroup(std::string_view self_cgroup, int64_t job);

// The number of folders in a path: 2 for "/a/b".
int depth_of(std::string_view path);

// The addresses that slurm.conf gives for these nodes (NodeAddr) and for the controllers (SlurmctldHost). If it gives
// none, the name is used instead.
struct SlurmAddresses {
  std::vector<std::string> nodes, controllers;
};
SlurmAddresses addresses_in(std::string_view slurm_conf, const std::vector<std::string>& nodes);

}  // namespace dl::network
