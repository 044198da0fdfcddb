// SPDX-License-Identifier: Apache-2.0
// The parser of what `scontrol show job` (and `show job -d`) prints, for all versions from 22.05 to 26.05. Pure; any
// thread.
//
// scontrol quotes nothing, and users may write anything, line breaks too, into the name of a job, its comment, its
// command and (printed from 25.11 on) the line that they submitted it with. So the text is read by its form, which is
// that of _sprint_job_info() in Slurm's src/scontrol/info_job.c (slurm_sprint_job_info() in src/api/job_info.c before):
//
//   JobId=12 ArrayJobId=… JobName=…          the name is all up to the line of UserId=
//      UserId=… GroupId=… MCS_label=…        the head: words KEY=VALUE, of which users choose no more than the form
//      …                                     allows
//      OverSubscribe=… … Network=…           Network is all up to the line of Command=
//      Command=…                             from here on one key a line, in this order: Command, SubmitLine, WorkDir,
//      SubmitLine=…                          AdminComment, SystemComment, Comment, Extra, StdErr, StdIn, StdOut, and
//      …                                     what Slurm itself writes. A line that begins with none of them belongs to
//                                            the value before it.
//
// A text with a key that occurs twice or out of order is refused as a whole, since a user may be imitating scontrol.
// One trick remains: a working directory whose name has a line break can add an AdminComment to a job that has none.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::slurm_cli {

// What a job has on each of a group of nodes with equal shares, from `show job -d`.
struct NodeShare {
  std::string nodes;    // compressed
  std::string cpu_ids;  // "0-3,8"
  std::string gres;     // "gpu:a100:2(IDX:0-1)"; empty if none
};

struct JobText {
  std::map<std::string, std::string, std::less<>> values;  // by scontrol's own keys, "(null)" and the like kept
  std::vector<NodeShare> node_shares;                      // empty without -d

  // Empty if the key is not there.
  const std::string& value(std::string_view key) const;
};

// The value, or empty if it is one of Slurm's words for none: "(null)", "N/A", "n/s", "None".
std::string given(const std::string& value);

// The jobs of a text, in its order; an array may have several records. kInvalid if the text has another form (a
// message, the output of --oneliner), also if only one job has.
Result<std::vector<JobText>> parse_job_texts(std::string_view text);

// The record of one job in the text: the one whose JobId is `job_id`; else, for an element of an array ("12_3"), its
// own or the one of the elements that wait together with it; else, for an array that no JobId names any more, the last
// record. kInvalid as above, and if no record or two records match.
Result<JobText> parse_job_text(std::string_view text, const std::string& job_id);

// The id by which Slurm's commands mean this record and no other: "12"; "12_3" for an element of an array; "12_[0-3,7]"
// for elements that wait in one record. JobId is not used: for the last element it equals the array's id, which
// scontrol and scancel take for all elements.
std::string own_id(const JobText& job);

// "12_3" is array "12", as is "12_[0-3]"; empty for any other id.
std::string array_of(const std::string& job_id);

// The number of GPUs in a list of GRES in any form that Slurm prints: "gpu:2(IDX:0-1)",
// "gpu:a100:1(IDX:0),shard:8(IDX:1)", and from 24.05 on with '=' before the count: "gpu:a100=2", "gres/gpu=2". 0 to
// 1,000,000.
int count_gpus(std::string_view gres);

}  // namespace dl::slurm_cli
