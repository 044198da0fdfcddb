// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/blocking_calls.h"

namespace dl::supervise {

void BlockingCalls::post(std::function<void()> work, std::function<void()> done, const std::string& key) {
  auto task = std::make_unique<Task>();
  task->owner = this;
  task->key = key;
  task->work = std::move(work);
  task->done = std::move(done);
  task->request.data = task.get();
  for (auto& waiting : queue_) {
    if (key.empty() || waiting->key != key) continue;
    waiting = std::move(task);
    return;
  }
  queue_.push_back(std::move(task));
  start_next();
}

void BlockingCalls::start_next() {
  if (running_ || queue_.empty()) return;
  running_ = std::move(queue_.front());
  queue_.pop_front();
  int rc = uv_queue_work(
      loop_, &running_->request, [](uv_work_t* request) { static_cast<Task*>(request->data)->work(); },
      [](uv_work_t* request, int /*status*/) {
        auto* task = static_cast<Task*>(request->data);
        BlockingCalls* owner = task->owner;
        std::unique_ptr<Task> finished = std::move(owner->running_);
        owner->start_next();
        if (finished->done) finished->done();
      });
  if (rc != 0) running_.reset();  // uv_queue_work fails only for a malformed request
}

}  // namespace dl::supervise
