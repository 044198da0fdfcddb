// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/server.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace dl::learner {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBusyProbes = 2000;                   // until a server without work lets other processes have its core
constexpr std::chrono::microseconds kIdleNap{100};  // from then on, the pause between probes

class Server {
 public:
  Server(Channel* channel, int servers, double timeout_s, dllearner_update_fn update, void* user)
      : channel_(channel),
        servers_(servers),
        learners_(channel->size() - servers),
        server_(channel->rank() - learners_),
        timeout_s_(timeout_s),
        update_(update),
        user_(user) {}

  Status run() {
    DL_TRY(meet());
    while (!rules_->all_left()) {
      DL_TRY_ASSIGN(const Arrival arrival, next());
      DL_TRY_ASSIGN(const Order order, take(arrival));
      DL_TRY(obey(order, arrival.from));
      for (const int learner : rules_->release())
        DL_TRY(send(learner, kDataTag, shard_->weights().data(), shard_->weights().size(), DLLEARNER_F32));
    }
    return {};
  }

 private:
  Status send(int to, int tag, const void* data, size_t count, int dtype) {
    DL_TRY_ASSIGN(const auto request, channel_->start_send(to, tag, data, count, dtype));
    return request->wait();
  }
  Status receive(int from, int tag, void* data, size_t count, int dtype) {
    DL_TRY_ASSIGN(const auto request, channel_->start_receive(from, tag, data, count, dtype));
    return request->wait();
  }

  Result<Arrival> next() {
    const auto begin = Clock::now();
    for (int turn = 0;; ++turn) {
      DL_TRY_ASSIGN(const auto arrival, channel_->probe(kOrderTag));
      if (arrival) return *arrival;
      if (turn < kBusyProbes) continue;
      std::this_thread::sleep_for(kIdleNap);
      if (timeout_s_ > 0 && Clock::now() - begin > std::chrono::duration<double>(timeout_s_))
        return Error{Errc::kTimeout, "parameter server: no learner sent anything within " +
                                         std::to_string(static_cast<long>(timeout_s_)) + " s"};
    }
  }

  Result<Order> take(const Arrival& arrival) {
    if (arrival.bytes != sizeof(Order) || arrival.from >= learners_)
      return Error{Errc::kInternal, "parameter server: rank " + std::to_string(arrival.from) + " sent " +
                                        std::to_string(arrival.bytes) +
                                        " bytes, which are no order; all ranks need the same version of libdllearner"};
    Order order;
    DL_TRY(receive(arrival.from, kOrderTag, &order, sizeof order, DLLEARNER_U8));
    return order;
  }

  // All learners send what is to be created. Their orders must be the same, and each learner is told whether they were.
  Status meet() {
    std::vector<Order> orders(static_cast<size_t>(learners_));
    for (int i = 0; i < learners_; ++i) {
      Order& order = orders[static_cast<size_t>(i)];
      DL_TRY(receive(i, kOrderTag, &order, sizeof order, DLLEARNER_U8));
      if (order.kind != OrderKind::kCreate)
        return Error{Errc::kBusy, "learner " + std::to_string(i) +
                                      " uses a parameter server that it has not created; allowed: to create one first"};
    }
    const Order& first = orders.front();
    const auto agrees = [&first](const Order& o) {
      return o.mode == first.mode && o.staleness == first.staleness && o.learning_rate == first.learning_rate &&
             o.momentum == first.momentum && o.count == first.count;
    };
    const size_t begin = shard_begin(first.count, servers_, server_);
    const size_t count = shard_begin(first.count, servers_, server_ + 1) - begin;
    shard_ = std::make_unique<Shard>(first, begin, count, learners_, update_, user_);
    rules_ = std::make_unique<Consistency>(first.mode, first.staleness, learners_);
    DL_TRY(receive(0, kDataTag, shard_->weights().data(), count, DLLEARNER_F32));
    const int32_t answer = std::all_of(orders.begin(), orders.end(), agrees) ? 1 : 0;
    for (int i = 0; i < learners_; ++i) DL_TRY(send(i, kAnswerTag, &answer, 1, DLLEARNER_I32));
    if (answer == 0)
      return Error{Errc::kConflict,
                   "learners gave the parameter server different options or counts; allowed: the same on all learners"};
    return {};
  }

  Status obey(const Order& order, int from) {
    Consistency::Apply apply = Consistency::Apply::kNothing;
    switch (order.kind) {
      case OrderKind::kPush: {
        DL_TRY_ASSIGN(apply, rules_->push(from));
        DL_TRY(receive(from, kDataTag, shard_->inbox(from), shard_->weights().size(), DLLEARNER_F32));
        shard_->came(from);
        break;
      }
      case OrderKind::kPull:
        return rules_->pull(from);
      case OrderKind::kLeave: {
        DL_TRY_ASSIGN(apply, rules_->leave(from));
        break;
      }
      default:
        return Error{Errc::kBusy,
                     "learner " + std::to_string(from) + " creates a second parameter server; allowed: one"};
    }
    if (apply == Consistency::Apply::kThis) shard_->apply_one(from);
    if (apply == Consistency::Apply::kRound) shard_->apply_round();
    return {};
  }

  Channel* channel_;
  int servers_, learners_, server_;
  double timeout_s_;
  dllearner_update_fn update_;
  void* user_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<Consistency> rules_;
};

}  // namespace

Shard::Shard(const Order& create, size_t first, size_t count, int learners, dllearner_update_fn update, void* user)
    : create_(create),
      first_(first),
      weights_(count),
      velocity_(update == nullptr ? count : 0),
      sum_(count),
      inbox_(static_cast<size_t>(learners)),
      came_(static_cast<size_t>(learners)),
      update_(update),
      user_(user) {}

float* Shard::inbox(int learner) {
  // Only a synchronous server keeps gradients for later; the others need one inbox.
  std::vector<float>& box = inbox_[create_.mode == DLLEARNER_PS_SYNC ? static_cast<size_t>(learner) : 0];
  box.resize(weights_.size());
  return box.data();
}

void Shard::apply_one(int learner) {
  const float* gradient = inbox(learner);
  const auto learners = static_cast<float>(inbox_.size());
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] = gradient[i] / learners;
  came_[static_cast<size_t>(learner)] = false;
  step(sum_);
}

void Shard::apply_round() {
  std::fill(sum_.begin(), sum_.end(), 0.0F);
  int gradients = 0;
  for (size_t l = 0; l < inbox_.size(); ++l) {
    if (!came_[l]) continue;
    came_[l] = false;
    ++gradients;
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += inbox_[l][i];
  }
  for (float& value : sum_) value /= static_cast<float>(gradients);
  step(sum_);
}

void Shard::step(const std::vector<float>& gradient) {
  if (update_ != nullptr) {
    update_(user_, weights_.data(), gradient.data(), weights_.size(), first_, updates_++);
    return;
  }
  const auto rate = static_cast<float>(create_.learning_rate);
  const auto momentum = static_cast<float>(create_.momentum);
  for (size_t i = 0; i < weights_.size(); ++i) {
    velocity_[i] = momentum * velocity_[i] + gradient[i];
    weights_[i] -= rate * velocity_[i];
  }
}

Status serve(Channel* channel, int servers, double timeout_s, dllearner_update_fn update, void* user) {
  return Server(channel, servers, timeout_s, update, user).run();
}

Client::Client(Channel* channel, int servers, uint64_t count) : channel_(channel), servers_(servers), count_(count) {}

Status Client::tell(const Order& order, const float* data) {
  std::vector<std::unique_ptr<Request>> sent;
  for (int s = 0; s < servers_; ++s) {
    DL_TRY_ASSIGN(auto head, channel_->start_send(rank_of(s), kOrderTag, &order, sizeof order, DLLEARNER_U8));
    sent.push_back(std::move(head));
    if (data == nullptr) continue;
    DL_TRY_ASSIGN(auto body, channel_->start_send(rank_of(s), kDataTag, data + begin(s), size(s), DLLEARNER_F32));
    sent.push_back(std::move(body));
  }
  for (const auto& request : sent) DL_TRY(request->wait());
  return {};
}

Result<std::unique_ptr<Client>> Client::create(Channel* channel, int servers, const Order& create,
                                               const float* weights) {
  std::unique_ptr<Client> client(new Client(channel, servers, create.count));
  DL_TRY(client->tell(create, channel->rank() == 0 ? weights : nullptr));
  bool agreed = true;
  for (int s = 0; s < servers; ++s) {
    int32_t answer = 0;
    DL_TRY_ASSIGN(const auto request,
                  channel->start_receive(client->rank_of(s), kAnswerTag, &answer, 1, DLLEARNER_I32));
    DL_TRY(request->wait());
    agreed = agreed && answer == 1;
  }
  if (!agreed)
    return Error{Errc::kConflict,
                 "learners gave the parameter server different options or counts; allowed: the same on all learners"};
  return client;
}

Status Client::pull(float* weights) {
  std::vector<std::unique_ptr<Request>> parts;
  for (int s = 0; s < servers_; ++s) {
    DL_TRY_ASSIGN(auto part, channel_->start_receive(rank_of(s), kDataTag, weights + begin(s), size(s), DLLEARNER_F32));
    parts.push_back(std::move(part));
  }
  Order order;
  order.kind = OrderKind::kPull;
  DL_TRY(tell(order, nullptr));
  for (const auto& part : parts) DL_TRY(part->wait());
  pulled_ = true;
  return {};
}

Status Client::push(const float* gradient) {
  if (!pulled_) return Error{Errc::kBusy, "push: no pull came before this push; allowed: a pull before each push"};
  pulled_ = false;
  Order order;
  order.kind = OrderKind::kPush;
  return tell(order, gradient);
}

Status Client::leave() {
  Order order;
  order.kind = OrderKind::kLeave;
  return tell(order, nullptr);
}

}  // namespace dl::learner
