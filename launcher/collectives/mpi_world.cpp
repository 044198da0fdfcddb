// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/mpi_world.h"

#include <array>

#include "launcher/collectives/mpi_handles.h"

namespace dl::learner {
namespace {

bool started_by_us = false;  // used by one thread at a time (dllearner.h)
int open_worlds = 0;

class MpiChannel final : public Channel {
 public:
  MpiChannel(MPI_Comm comm, double timeout_s) : comm_(comm), timeout_s_(timeout_s) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::unique_ptr<Request>> start_send(int to, int tag, const void* data, size_t count, int dtype) override {
    MPI_Request request = MPI_REQUEST_NULL;
    DL_TRY(mpi_status("send", MPI_Isend(data, static_cast<int>(count), mpi_type(dtype), to, tag, comm_, &request)));
    return make_mpi_request(request, "send", timeout_s_, {});
  }
  Result<std::unique_ptr<Request>> start_receive(int from, int tag, void* data, size_t count, int dtype) override {
    MPI_Request request = MPI_REQUEST_NULL;
    DL_TRY(
        mpi_status("receive", MPI_Irecv(data, static_cast<int>(count), mpi_type(dtype), from, tag, comm_, &request)));
    return make_mpi_request(request, "receive", timeout_s_, {});
  }
  Result<std::optional<Arrival>> probe(int tag) override {
    int there = 0;
    MPI_Status status{};
    DL_TRY(mpi_status("probe", MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &there, &status)));
    if (there == 0) return std::optional<Arrival>();
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return std::optional<Arrival>(Arrival{status.MPI_SOURCE, static_cast<size_t>(bytes < 0 ? 0 : bytes)});
  }

 private:
  // Not freed before MPI ends: freeing it would wait for peers once more.
  MPI_Comm comm_;
  double timeout_s_;
  int rank_ = 0;
  int size_ = 1;
};

// Checks that all ranks have the same options; otherwise they would wait for one another in different calls.
Status check_agreement(MPI_Comm comm, const WorldPlan& plan) {
  const double servers = plan.servers;
  std::array<double, 4> values = {servers, -servers, plan.timeout_s, -plan.timeout_s};
  DL_TRY(mpi_status("compare options", MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                                                     MPI_DOUBLE, MPI_MIN, comm)));
  if (values[0] != -values[1])
    return Error{Errc::kConflict, "servers: ranks were given different numbers, " +
                                      std::to_string(static_cast<int>(values[0])) + " to " +
                                      std::to_string(static_cast<int>(-values[1])) + "; allowed: the same on all"};
  if (values[2] != -values[3])
    return Error{Errc::kConflict, "timeout_s: ranks were given different times, " + std::to_string(values[2]) + " to " +
                                      std::to_string(-values[3]) + " s; allowed: the same on all"};
  return {};
}

Result<MpiWorld> divide(MPI_Comm all, const WorldPlan& plan, int rank, int size) {
  DL_TRY(check_agreement(all, plan));
  MpiWorld world;
  world.servers = plan.servers;
  world.server = rank >= size - plan.servers;
  if (plan.servers == 0) {
    world.group = make_mpi_backend(all, plan.timeout_s);
    return world;
  }
  MPI_Comm group = MPI_COMM_NULL;
  DL_TRY(mpi_status("divide learners from servers", MPI_Comm_split(all, world.server ? 1 : 0, rank, &group)));
  MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
  world.group = make_mpi_backend(group, plan.timeout_s);
  world.channel = std::make_unique<MpiChannel>(all, plan.timeout_s);
  return world;
}

}  // namespace

Result<bool> mpi_running() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    return Error{Errc::kBusy,
                 "MPI was finalised in this process, and can be started only once; open the context before "
                 "MPI_Finalize, and close it last"};
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

Result<MpiWorld> open_mpi_world(const WorldPlan& plan) {
  DL_TRY_ASSIGN(const bool running, mpi_running());
  if (!running) {
    int provided = 0;
    DL_TRY(mpi_status("start MPI", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided)));
    started_by_us = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ++open_worlds;
  const auto open = [&]() -> Result<MpiWorld> {
    DL_TRY(check_world(plan, rank, size));
    MPI_Comm all = MPI_COMM_NULL;
    DL_TRY(mpi_status("duplicate MPI_COMM_WORLD", MPI_Comm_dup(MPI_COMM_WORLD, &all)));
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    return divide(all, plan, rank, size);
  };
  auto world = open();
  // All ranks see a mismatch of options, so finalising then does not wait for a rank that does not come.
  if (!world) close_mpi_world(world.error().code == Errc::kIo);
  return world;
}

void close_mpi_world(bool broken) {
  if (--open_worlds > 0 || !started_by_us) return;
  if (broken) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  free_mpi_operations();
  MPI_Finalize();
}

// Any thread may ask, and several at once (dllearner.h). MPI gives its version even before it is initialised.
const char* mpi_version() {
  static const std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = [] {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
    int length = 0;
    MPI_Get_library_version(version.data(), &length);
    return version;
  }();
  return text.data();
}

}  // namespace dl::learner
