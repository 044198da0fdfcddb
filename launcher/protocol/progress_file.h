// SPDX-License-Identifier: Apache-2.0
// The agent's side of the progress page (common/contract/progress_page.h): makes the file, maps it, asks and reads.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/contract/progress_page.h"

namespace dl::agent {

// Removes the pages of this user's agents that live no more: an agent that was killed could not. Only those of this
// process-id namespace are seen to be dead. Returns how many there were.
int remove_orphaned_pages();

class ProgressFile {
 public:
  ProgressFile() = default;
  ProgressFile(const ProgressFile&) = delete;
  ProgressFile& operator=(const ProgressFile&) = delete;
  // Unmaps and removes the file.
  ~ProgressFile();

  // Makes the page in /dev/shm, $TMPDIR or /tmp (the first that takes it; mode 0600, a name nobody can guess).
  Status create(int rank);
  const std::string& path() const { return path_; }

  struct View {
    uint32_t state = 0;
    int64_t step = ProgressPage::kNoStep;
    int64_t saved_step = -1;
    uint64_t save_ms = 0, local_ms = 0, cost_ms = 0;
    bool acted = true;  // the learner has seen the newest request
  };
  View read() const;

  // Puts a request there, undecided, then reads what the learner announced (in this order: see the protocol).
  View request(uint32_t kind);
  void decide(uint32_t kind, int64_t stop_step);
  void withdraw();

 private:
  ProgressPage* page_ = nullptr;
  std::string path_;
};

}  // namespace dl::agent
