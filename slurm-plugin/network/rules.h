// SPDX-License-Identifier: Apache-2.0
// What the kernel is told of a job whose tenant requires network = "job": its sockets, told by the cgroup of version 2
// that they were made in, speak to its own nodes and to what the site lists, and to nothing else. Pure.
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

// A script for `nft -f -`: makes the table anew, whole or not at all. `cgroup`: relative to /sys/fs/cgroup, as nft
// looks it up; `level`: of it in the hierarchy, whose root has 0. `peers`: addresses and prefixes. kInvalid if one is
// none, or if the path holds what cannot be quoted.
Result<std::string> rules_text(int64_t job, const std::string& cgroup, int level,
                               const std::vector<std::string>& peers);

// A script that removes the table, and is content if there is none.
std::string no_rules_text(int64_t job);

// The mount point of the hierarchy of version 2 in the text of /proc/self/mountinfo; nothing if there is none.
std::optional<std::string> cgroup2_mount(std::string_view mountinfo);

// The cgroup of the job itself, as Slurm's cgroup/v2 makes it, in the text of /proc/self/cgroup: the path up to
// "/job_N". Nothing where Slurm has none of version 2 for it.
std::optional<std::string> slurm_job_cgroup(std::string_view self_cgroup, int64_t job);

// How deep a path lies: 2 for "/a/b".
int depth_of(std::string_view path);

// Of lines of slurm.conf: the addresses that it has for these nodes (NodeAddr), and the controllers (SlurmctldHost).
// Names for which it has none are given back as names.
struct SlurmAddresses {
  std::vector<std::string> nodes, controllers;
};
SlurmAddresses addresses_in(std::string_view slurm_conf, const std::vector<std::string>& nodes);

}  // namespace dl::network
