// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/commit_thread.h"

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/out_of_memory.h"

namespace dl::ckpt {
namespace {

// What the background thread still has to do after the result of the save is known.
struct Rest {
  SaveRequest request;  // to free a request with many tensors takes milliseconds
  std::vector<std::string> retired;
};

// To free the space of a gigabyte took the file system a quarter of a second (ext4 with discard). The checkpoint is
// durable before that, so nobody who waits for the save has to wait for this.
void remove_retired(Io& io, const std::vector<std::string>& folders) noexcept {
  for (const std::string& folder : folders)
    ignore(or_out_of_memory([&] { return remove_tree(io, folder); }), "the next run removes it");
}

}  // namespace

CommitThread::CommitThread(Io& io, std::unique_ptr<Committer> committer) : io_(io), committer_(std::move(committer)) {}

Committer& CommitThread::when_idle() {
  worker_.wait();
  return *committer_;
}

Status CommitThread::begin(SaveRequest request) {
  outcome_.reset();
  auto rest = std::make_shared<Rest>(Rest{std::move(request), {}});
  return worker_.run(
      [this, rest] {
        outcome_ = committer_->run(&rest->request, &rest->retired);
        rest->request.job.reset();  // the next save needs its staging memory
      },
      [this, rest] { remove_retired(io_, rest->retired); });
}

std::optional<SaveOutcome> CommitThread::take_outcome() {
  worker_.wait();
  return std::exchange(outcome_, std::nullopt);
}

}  // namespace dl::ckpt
