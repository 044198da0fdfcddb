// SPDX-License-Identifier: Apache-2.0
// The agent's side of the progress page (common/contract/progress_page.h): creates the file, maps it, writes requests
// and reads answers.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/contract/progress_page.h"

namespace dl::protocol {

// Removes pages that this user's agents have left because they were killed. Only processes of this pid namespace can be
// seen to have ended. Returns the number of removed pages.
int remove_orphaned_pages();

class ProgressFile {
 public:
  ProgressFile() = default;
  ProgressFile(const ProgressFile&) = delete;
  ProgressFile& operator=(const ProgressFile&) = delete;
  // Unmaps and removes the file.
  ~ProgressFile();

  // Creates the page in /dev/shm, $TMPDIR or /tmp (the first where it is possible), with mode 0600 and a random name.
  // Fails with the error of the last of them.
  Status create(int rank);
  const std::string& path() const { return path_; }

  struct View {
    uint32_t state = 0;
    int64_t step = ProgressPage::kNoStep;
    int64_t saved_step = -1;
    uint64_t save_ms = 0, local_ms = 0, cost_ms = 0, noise = 0, sending = 0;
    bool acted = true;  // the learner has acted upon the newest request
  };
  View read() const;
  // The place of the learner's vote (common/contract/vote.h), as it is now; empty if there is no page.
  std::string vote() const;

  // Writes an undecided request, then reads what the learner has announced; this order matters (progress_page.h).
  View request(uint32_t kind);
  void decide(uint32_t kind, int64_t stop_step);
  void withdraw();

 private:
  ProgressPage* page_ = nullptr;
  std::string path_;
};

}  // namespace dl::protocol
