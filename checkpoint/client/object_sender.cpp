// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/object_sender.h"

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "checkpoint/client/object_program.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/out_of_memory.h"
#include "common/contract/request_values.h"

namespace dl::ckpt {

namespace {

// The places that senders of this process have.
struct Places {
  std::mutex mutex;
  std::set<std::string> taken;
};
Places& places() {
  static Places all;
  return all;
}

}  // namespace

ObjectSender::ObjectSender(std::string dir, std::string place, RetentionPolicy policy)
    : dir_(std::move(dir)), place_(std::move(place)), policy_(std::move(policy)), program_(find_object_program()) {}

ObjectSender::~ObjectSender() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!has_place_) return;
  const std::lock_guard<std::mutex> lock(places().mutex);
  places().taken.erase(place_);
}

Status ObjectSender::open() {
  {
    const std::lock_guard<std::mutex> lock(places().mutex);
    has_place_ = places().taken.insert(place_).second;
  }
  if (!has_place_)
    return Error{Errc::kInvalid, "objects=" + place_ +
                                     ": another checkpoint directory of this program uses this place; allowed: a place "
                                     "for each directory (options.objects)"};
  if (!program_) return Error{Errc::kInvalid, "objects=" + place_ + ": " + program_.error().text};
  const auto checked = run_object_program(*program_, {"send", dir_, place_, "--check"}, "", [] { return Status(); });
  if (!checked) return Error{Errc::kInvalid, "objects=" + place_ + ": " + checked.error().text};
  return {};
}

void ObjectSender::offer(const CheckpointName& name) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = unsent_ = name;
    failure_.clear();
    if (!thread_.running()) {
      auto started = QuietThread::start([this] { work(); });
      if (started)
        thread_ = *std::move(started);
      else
        waiting_.reset(), ++stats_.failed, failure_ = started.error().text,
                                           warning_ = "objects=" + place_ + ": " + failure_;
    }
  }
  changed_.notify_all();
}

std::set<uint64_t> ObjectSender::held() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<uint64_t> ids;
  for (const auto& name : {waiting_, running_})
    if (name) ids.insert(name->save_id);
  return ids;
}

bool ObjectSender::wait_for(double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return !waiting_ && !running_; });
}

uint64_t ObjectSender::moved() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return moved_;
}

std::string ObjectSender::unsent(const std::string& why) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!unsent_) return std::string();
  return "objects=" + place_ + ": the newest checkpoint, that of train step " + std::to_string(unsent_->step) +
         ", is not there: " + (failure_.empty() ? why : failure_) + "; it is in " + dir_ +
         ", and the next run that restores from there sends it, as does: dlckpt send " + dir_ + " " + place_;
}

SendStats ObjectSender::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

std::string ObjectSender::take_warning() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(warning_, std::string());
}

void ObjectSender::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return end_ || waiting_; });
    if (end_) return;
    running_ = std::exchange(waiting_, std::nullopt);
    const CheckpointName name = *running_;
    lock.unlock();
    Status sent = Error{Errc::kInternal, "out of memory"};
    try {
      sent = send(name);
    } catch (const std::exception&) {  // out of memory, as `sent` says already
    }
    lock.lock();
    running_.reset();
    const bool newest = unsent_ && unsent_->save_id == name.save_id;
    if (sent) {
      if (newest) unsent_.reset();
      ++stats_.sent;
      stats_.step = name.step;
    } else {
      ++stats_.failed;
      if (newest) failure_ = sent.error().text;
      if (!failing_)
        warning_ = "objects=" + place_ + ": train step " + std::to_string(name.step) +
                   " was not sent: " + sent.error().text +
                   "; it is in the checkpoint directory, and the next one is tried";
    }
    failing_ = !sent;
    changed_.notify_all();
  }
}

Status ObjectSender::send(const CheckpointName& name) {
  std::vector<std::string> words{"send", checkpoint_path(dir_, name), place_, "--keep", std::to_string(policy_.keep)};
  if (policy_.keep_every > 0) words.insert(words.end(), {"--keep-every", std::to_string(policy_.keep_every)});
  if (policy_.best) words.insert(words.end(), {"--best", format_best(*policy_.best)});
  const auto tick = [this]() -> Status {
    const std::lock_guard<std::mutex> lock(mutex_);
    return end_ ? Status(Error{Errc::kBusy, "the run has ended"}) : Status();
  };
  if (!program_) return Status(program_.error());
  const auto moving = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++moved_;
  };
  const auto done = run_object_program(*program_, words, "", tick, nullptr, moving);
  return done ? Status() : Status(done.error());
}

}  // namespace dl::ckpt
