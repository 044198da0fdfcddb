// SPDX-License-Identifier: Apache-2.0
// The two ends of a parameter server. See dllearner_serve and dllearner_ps_create.
#pragma once

#include <memory>
#include <vector>

#include "launcher/collectives/channel.h"
#include "launcher/collectives/consistency.h"
#include "launcher/collectives/ps_messages.h"

namespace dl::learner {

// A server's part of the weights, and the application of gradients to it. update: nullptr: SGD with momentum.
class Shard {
 public:
  Shard(const Order& create, size_t first, size_t count, int learners, dllearner_update_fn update, void* user);
  std::vector<float>& weights() { return weights_; }
  // The buffer for the next gradient of a learner; valid until it is applied.
  float* inbox(int learner);
  void apply_one(int learner);  // applies its gradient, divided by the number of learners
  void apply_round();           // applies the mean of the gradients that came(), added in the order of ranks
  void came(int learner) { came_[static_cast<size_t>(learner)] = true; }

 private:
  void step(const std::vector<float>& gradient);

  Order create_;
  size_t first_;
  std::vector<float> weights_, velocity_, sum_;
  std::vector<std::vector<float>> inbox_;  // by learner; made when first used
  std::vector<bool> came_;
  dllearner_update_fn update_;
  void* user_;
  int64_t updates_ = 0;
};

// Serves one parameter server from its creation until all learners have left. Errors: see dllearner_serve.
Status serve(Channel* channel, int servers, double timeout_s, dllearner_update_fn update, void* user);

// A learner's end of the connection. Errors: see dllearner_ps_create and the functions after it.
class Client {
 public:
  static Result<std::unique_ptr<Client>> create(Channel* channel, int servers, const Order& create,
                                                const float* weights);
  Status pull(float* weights);
  Status push(const float* gradient);
  Status leave();

 private:
  Client(Channel* channel, int servers, uint64_t count);
  int rank_of(int server) const { return channel_->size() - servers_ + server; }
  size_t begin(int server) const { return shard_begin(count_, servers_, server); }
  size_t size(int server) const { return begin(server + 1) - begin(server); }
  // Sends an order to all servers, and after it the server's part of data (nullptr: none). Returns when all was sent.
  Status tell(const Order& order, const float* data);

  Channel* channel_;
  int servers_;
  size_t count_;
  bool pulled_ = false;  // since the last push
};

}  // namespace dl::learner
