// SPDX-License-Identifier: Apache-2.0
// Each tenant's quota and use (slurm-plugin/policy/quota_rows.h) as text and JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/quota_rows.h"

namespace dl::ctl {

// A table with a row for each tenant. With `bars`, also a bar of `width` characters: own '#', lent '+', idle '.', and
// beyond the quota borrowed '>'.
std::string quota_text(const std::vector<policy::QuotaRow>& rows, bool bars, int width = 24);
// A line for each running job with unused GPUs, at most ten, those unused for longest first; empty if there is none.
std::string unused_text(const policy::ClusterState& state);
// The text for one such job: "job 17 has not used 2 of its 4 GPUs for 32m10s".
std::string unused_text(const policy::ClusterState& state, const policy::Job& job);
// A line for each GPU type: how many are free, and their fragmentation.
std::string free_text(const policy::ClusterState& state);
// A line for each group of tenants that owns GPUs itself.
std::string groups_text(const policy::ClusterState& state);
// A line for each tenant that has jobs but is no longer in dl.toml; empty if there is none.
std::string uncharged_text(const std::vector<observe::Uncharged>& uncharged);
// A JSON object of arrays: "tenants" (the rows), "groups", "free" (by GPU type), and "uncharged" (tenants that are no
// longer in dl.toml, with what their jobs hold).
std::string quota_json(const std::vector<policy::QuotaRow>& rows, const policy::ClusterState& state,
                       const std::vector<observe::Uncharged>& uncharged = {});

}  // namespace dl::ctl
