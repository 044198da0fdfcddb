// SPDX-License-Identifier: Apache-2.0
// The reader of the records that `scontrol --oneliner show` prints of nodes, partitions, reservations and licences, and
// `scontrol show assoc_mgr` of limits, for all versions from 22.05 to 26.05. Pure; any thread. (`scontrol show job` is
// read by job_text.h: users can write into it whatever they like.)
//
//   NodeName=n1 Arch=x86_64 … State=IDLE+DRAIN … Reason=bad disk [root@2026-11-21T03:00:00]
//
// A record is one line of words. A word KEY=VALUE begins a value if its key is one that Slurm could have: an upper-case
// letter, then letters, digits, '_', ':' and '/'. Any other word belongs to the value before it, with one blank between
// them, so that a reason may contain blanks, and words such as "sda=failed". A key is the text up to the first '=', so
// that a value may contain others: "CfgTRES=cpu=4,mem=1G". If a key occurs twice, the first one counts: texts that
// admins write come after what Slurm says itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dl::slurm_cli {

class Record {
 public:
  // Reads the first line of the text that has anything in it but blanks; a line may end with "\r\n".
  explicit Record(std::string_view text);
  // Empty if the key is not there, or if its value is empty or one of Slurm's words for none (given() in job_text.h).
  std::string value(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> words_;
};

// The records of a text that have a value for `key` ("NodeName"), in its order; other lines are messages of scontrol's.
std::vector<Record> parse_records(std::string_view text, std::string_view key);

struct Licence {
  std::string name;  // as Slurm shows it: "matlab", of a remote one "matlab@server"
  int64_t total = 0;
  int64_t used = 0, free = 0;  // 0 if the text does not tell
  bool remote = false;         // of slurmdbd; slurm.conf does not define it
};
// What `scontrol --oneliner show licenses` prints, in its order. Lines without a name and a total are left out.
std::vector<Licence> parse_licences(std::string_view text);

}  // namespace dl::slurm_cli
