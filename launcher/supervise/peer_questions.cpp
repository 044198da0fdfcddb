// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/peer_questions.h"

#include <fmt/core.h>

#include <utility>

namespace dl::supervise {
namespace {

// Until a question that no agent answers is refused. As long as gloo waits for its store: on a node whose CPUs others
// use an agent may take long, and a refusal is final, since Horovod does not ask again.
constexpr int64_t kLimitMs = 30000;

}  // namespace

PeerQuestions::PeerQuestions(uv_loop_t* loop, unsigned own_uid, Ask ask, Tell tell)
    : own_uid_(own_uid), ask_(std::move(ask)), tell_(std::move(tell)) {
  uv_async_init(loop, &async_, [](uv_async_t* async) { static_cast<PeerQuestions*>(async->data)->take(); });
  async_.data = this;
  uv_unref(reinterpret_cast<uv_handle_t*>(&async_));  // open questions do not keep the loop running at the job's end
}

rendezvous::PeerCheck PeerQuestions::check() {
  return [this](const rendezvous::Connection& connection, std::function<void(bool)> answer) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (shut_) {
      lock.unlock();
      return answer(false);
    }
    incoming_.push_back({connection, std::move(answer), 0, 0});
    uv_async_send(&async_);
  };
}

void PeerQuestions::take() {
  std::vector<Question> taken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken.swap(incoming_);
  }
  for (Question& question : taken) {
    const int64_t query = next_++;
    question.since_ms = static_cast<int64_t>(uv_hrtime() / 1000000);
    question.waiting_for = ask_(query, question.connection);
    const bool nobody = question.waiting_for == 0;
    open_.emplace(query, std::move(question));
    if (nobody) settle(query, false, "no node of the job is left to ask");
  }
}

void PeerQuestions::answered(int64_t query, int uid) {
  const auto found = open_.find(query);
  if (found == open_.end()) return;
  if (uid >= 0) {
    const auto whose = static_cast<unsigned>(uid);
    return settle(query, whose == own_uid_ || whose == 0, fmt::format("it is user {}'s", whose));
  }
  if (--found->second.waiting_for == 0) settle(query, false, "no node of the job has such a connection");
}

void PeerQuestions::settle(int64_t query, bool allowed, const std::string& whose) {
  const auto found = open_.find(query);
  Question question = std::move(found->second);
  open_.erase(found);
  if (!allowed)
    tell_(fmt::format("a connection from {} port {} to the rendezvous was refused: {}", question.connection.client,
                      question.connection.client_port, whose));
  question.answer(allowed);
}

void PeerQuestions::tick(int64_t now_ms) {
  std::vector<int64_t> late;
  for (const auto& [query, question] : open_)
    if (now_ms - question.since_ms > kLimitMs) late.push_back(query);
  for (const int64_t query : late) settle(query, false, "no agent has told in time to which user it belongs");
}

void PeerQuestions::shut() {
  std::vector<Question> left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    shut_ = true;
    left.swap(incoming_);
  }
  for (auto& item : open_) left.push_back(std::move(item.second));
  open_.clear();
  for (const Question& question : left) question.answer(false);
}

void PeerQuestions::open() {
  const std::lock_guard<std::mutex> lock(mutex_);
  shut_ = false;
}

void PeerQuestions::close() {
  shut();
  uv_close(reinterpret_cast<uv_handle_t*>(&async_), nullptr);
}

}  // namespace dl::supervise
