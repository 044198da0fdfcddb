// SPDX-License-Identifier: Apache-2.0
// Rows of `dlctl top`, and what it shows of an opened job.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/ctl/job_pace.h"
#include "launcher/ctl/job_view.h"
#include "launcher/top/snapshot.h"

namespace dl::ctl {

// Pure.
top::Row top_row(const JobView& view, const JobPace& pace);

// The names by which top knows the job: of its row, and what `dlctl pause` is told. Pure.
std::string row_id(const Job& job);
std::string pause_target(const Job& job);

// Reads the job directory; what cannot be read is missing. From within made_as_owner().
top::Detail top_detail(const Job& job);

}  // namespace dl::ctl
