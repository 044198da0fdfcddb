// SPDX-License-Identifier: Apache-2.0
// An MPI program whose state survives preemption, time limits, pauses and crashes, also at another number of ranks:
// fits a line to points by gradient descent with momentum. The weights are the same on all ranks; the points, and how
// often each was used, are divided over them.
//
//   mpicxx -std=c++17 fit_mpi.cpp -ldlckpt -o fit_mpi
//   dlrun --framework mpi --learners 4 --checkpoint ckpt,every=50steps -- ./fit_mpi [STEPS [DELAY_MS]]
//   sbatch --dl-framework=mpi --dl-learners=4 --dl-gpus=0 --dl-checkpoint=ckpt,every=10m --wrap 'dlrun -- ./fit_mpi'
#include <dlckpt.h>
#define OMPI_SKIP_MPICXX  // only the C interface is needed
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kPoints = 1000;

// libdlckpt reports an error of one rank on all ranks, so all of them leave here and none is left waiting.
void check(int rc, const char* what, const char* sentence) {
  if (rc == DLCKPT_OK) return;
  std::fprintf(stderr, "%s: %s (%s)\n", what, sentence, dlckpt_error_name(rc));
  MPI_Abort(MPI_COMM_WORLD, rc);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 200;
  const int delay_ms = argc > 2 ? std::atoi(argv[2]) : 0;

  // The state: four numbers that are the same on all ranks, and this rank's rows of a table of all points.
  double weights[4] = {0, 0, 0, 0};  // slope, intercept, and the momentum of each
  const int64_t begin = kPoints * rank / size, end = kPoints * (rank + 1) / size;
  std::vector<int64_t> uses(static_cast<size_t>(end - begin), 0);

  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.rank = rank;  // Open MPI under srun sets no OMPI_COMM_WORLD_*; the values from MPI are always right
  options.world_size = size;
  dlckpt_ctx* checkpoint = nullptr;
  const bool saving = std::getenv("DL_CHECKPOINT_DIR") != nullptr;  // dlrun sets it if --dl-checkpoint was given
  int64_t step = 0;
  if (saving) {
    check(dlckpt_open(&options, &checkpoint), "open", dlckpt_open_error());
    const int64_t four = 4, all = kPoints, mine = end - begin;
    check(dlckpt_tensor(checkpoint, "weights", DLCKPT_F64, 1, &four, nullptr, nullptr, weights, DLCKPT_REPLICATED),
          "register", dlckpt_errmsg(checkpoint));
    check(dlckpt_tensor(checkpoint, "uses", DLCKPT_I64, 1, &all, &begin, &mine, uses.data(), 0), "register",
          dlckpt_errmsg(checkpoint));
    const int rc = dlckpt_restore(checkpoint, DLCKPT_LATEST, &step);
    if (rc != DLCKPT_E_NOT_FOUND) check(rc, "restore", dlckpt_errmsg(checkpoint));
    if (rc == DLCKPT_OK && rank == 0) std::printf("resumed at train step %lld\n", static_cast<long long>(step));
  }

  for (; step < steps; ++step) {
    const int want = saving ? dlckpt_want(checkpoint, step) : 0;
    if (want & DLCKPT_WANT_SAVE) {
      const int rc = dlckpt_save(checkpoint, step);
      if (rc != DLCKPT_OK && rank == 0) std::fprintf(stderr, "not saved: %s\n", dlckpt_errmsg(checkpoint));
    }
    if (want & DLCKPT_WANT_EXIT) {
      const int code = dlckpt_exit_code(checkpoint);
      if (rank == 0) std::printf("stopping at train step %lld, exit status %d\n", static_cast<long long>(step), code);
      dlckpt_close(checkpoint);
      MPI_Finalize();
      return code;
    }
    double sums[2] = {0, 0};
    for (int64_t i = begin; i < end; ++i) {
      const double x = static_cast<double>(i) / kPoints, y = 3 * x - 1 + 0.1 * std::sin(50 * x);
      const double miss = weights[0] * x + weights[1] - y;
      sums[0] += miss * x;
      sums[1] += miss;
      ++uses[static_cast<size_t>(i - begin)];
    }
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int k = 0; k < 2; ++k) {
      weights[2 + k] = 0.9 * weights[2 + k] - 0.2 * sums[k] / kPoints;
      weights[k] += weights[2 + k];
    }
    if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  }

  if (saving) {
    check(dlckpt_save(checkpoint, steps), "save", dlckpt_errmsg(checkpoint));
    check(dlckpt_wait(checkpoint, -1, nullptr), "save", dlckpt_errmsg(checkpoint));  // waits until it is durable
    dlckpt_finished(checkpoint);
    dlckpt_close(checkpoint);
  }
  int64_t least = steps, most = 0;
  for (int64_t n : uses) {
    least = n < least ? n : least;
    most = n > most ? n : most;
  }
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf("line: %.4f x + %.4f; every point was used %lld to %lld times\n", weights[0], weights[1],
                static_cast<long long>(least), static_cast<long long>(most));
  MPI_Finalize();
  return 0;
}
