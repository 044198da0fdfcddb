// SPDX-License-Identifier: Apache-2.0
// The object behind a dllearner_ctx: an opened world.
#pragma once

#include <memory>

#include "launcher/collectives/backend.h"
#include "launcher/collectives/mpi_world.h"
#include "launcher/collectives/world.h"

namespace dl::learner {

class Context {
 public:
  static Result<std::unique_ptr<Context>> open(const dllearner_options* options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int rank() const { return world_.group->rank(); }
  int size() const { return world_.group->size(); }
  int servers() const { return world_.servers; }
  bool is_server() const { return world_.server; }
  double timeout_s() const { return plan_.timeout_s; }
  Channel* channel() { return world_.channel.get(); }

  // The learners' collectives.
  Status run(const Operation& operation);
  Result<std::unique_ptr<Request>> start(const Operation& operation);
  // A second backend between the learners, for host memory (Backend::duplicate()). Collective.
  Result<std::unique_ptr<Backend>> duplicate_group();

  // kBusy once another rank was lost or late; with learners_only also on a server.
  Status usable(bool learners_only) const;
  // To be called with each error of a call that communicates: after kIo or kTimeout the context is broken.
  void note(const Error& error);
  bool broken() const { return broken_; }  // it can only be closed

 private:
  Context() = default;
  Result<Backend*> backend_for(const Operation& operation);

  WorldPlan plan_;
  MpiWorld world_;
  std::unique_ptr<Backend> device_;  // opened when memory of a GPU is first used
  bool broken_ = false;
};

}  // namespace dl::learner
