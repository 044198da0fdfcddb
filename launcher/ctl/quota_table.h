// SPDX-License-Identifier: Apache-2.0
// Who has and holds what (slurm-plugin/policy/quota_rows.h), as text and JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/quota_rows.h"

namespace dl::ctl {

// With `bars`, a bar of `width` characters for each: own '#', lent '+', idle '.', borrowed beyond it '>'.
std::string quota_text(const std::vector<policy::QuotaRow>& rows, bool bars, int width = 24);
// A line for each running job that does not use GPUs it holds, longest first; empty if there is none. At most ten.
std::string unused_text(const policy::ClusterState& state);
// The same of one such job: "job 17 has not used 2 of its 4 GPUs for 32m10s".
std::string unused_text(const policy::ClusterState& state, const policy::Job& job);
// A line for each type: what is free of it, and how torn that is.
std::string free_text(const policy::ClusterState& state);
// A line for each group of tenants that owns GPUs itself.
std::string groups_text(const policy::ClusterState& state);
// A line for each tenant that has jobs and is not in dl.toml any more; empty if there is none.
std::string uncharged_text(const std::vector<observe::Uncharged>& uncharged);
// An object: "tenants", an array of the rows; "free", one of the types; "uncharged", one of tenants that are not in
// dl.toml any more, with what their jobs hold.
std::string quota_json(const std::vector<policy::QuotaRow>& rows, const policy::ClusterState& state,
                       const std::vector<observe::Uncharged>& uncharged = {});

}  // namespace dl::ctl
