// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/context.h"

#include <cstdlib>
#include <utility>

#include "launcher/collectives/device.h"

namespace dl::learner {

Result<std::unique_ptr<Context>> Context::open(const dllearner_options* options) {
  std::unique_ptr<Context> context(new Context);
  DL_TRY_ASSIGN(const bool running, mpi_running());
  const Environment environment = [](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  };
  DL_TRY_ASSIGN(context->plan_, plan_world(options, environment, running));
  if (context->plan_.use_mpi) {
    DL_TRY_ASSIGN(context->world_, open_mpi_world(context->plan_));
  } else {
    context->world_.group = make_alone_backend();
  }
  return context;
}

Context::~Context() {
  if (world_.group == nullptr) return;  // it was not opened
  if (broken_) world_.group->abandon();
  if (broken_ && device_ != nullptr) device_->abandon();
  device_.reset();
  world_.group.reset();
  world_.channel.reset();
  if (plan_.use_mpi) close_mpi_world(broken_);
}

Status Context::usable(bool learners_only) const {
  if (broken_)
    return Error{Errc::kBusy,
                 "an earlier call found another rank gone or late, so that this context is of no more use; allowed: to "
                 "close it"};
  if (learners_only && world_.server)
    return Error{Errc::kBusy, "this rank is a parameter server: collective operations are those of the learners"};
  return {};
}

void Context::note(const Error& error) {
  if (error.code == Errc::kIo || error.code == Errc::kTimeout) broken_ = true;
}

Result<Backend*> Context::backend_for(const Operation& operation) {
  DL_TRY(usable(true));
  DL_TRY(check_operation(operation, size()));
  if (operation.kind == Kind::kBarrier || operation.count == 0 || !is_device_memory(operation.out))
    return world_.group.get();
  if (device_ == nullptr) {
    auto opened = open_device_backend(world_.group.get(), plan_.timeout_s);
    if (!opened) {
      note(opened.error());
      return std::move(opened).error();
    }
    device_ = std::move(opened).value();
  }
  return device_.get();
}

Status Context::run(const Operation& operation) {
  DL_TRY_ASSIGN(Backend* const backend, backend_for(operation));
  Status status = backend->run(operation);
  if (!status) note(status.error());
  return status;
}

Result<std::unique_ptr<Request>> Context::start(const Operation& operation) {
  DL_TRY_ASSIGN(Backend* const backend, backend_for(operation));
  auto request = backend->start(operation);
  if (!request) note(request.error());
  return request;
}

Result<std::unique_ptr<Backend>> Context::duplicate_group() {
  DL_TRY(usable(true));
  auto group = world_.group->duplicate();
  if (!group) note(group.error());
  return group;
}

}  // namespace dl::learner
