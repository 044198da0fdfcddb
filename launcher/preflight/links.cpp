// SPDX-License-Identifier: Apache-2.0
// dl-preflight-links: an MPI program with one rank on each node. All pairs of nodes exchange data, in rounds in which
// every node has one partner, so that two pairs never share a node. Rank 0 prints "A B BYTES_PER_S" for each pair, and
// then "- - BYTES_PER_S" for an all-reduce of all. The latter is the bus bandwidth as nccl-tests define it: 2 (n - 1) /
// n times the bytes per second, which does not depend on the number of nodes.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// Short enough that an exchange fits into the time for which a busy machine lets both processes run.
constexpr int kBytes = 2 << 20, kTimes = 16;
constexpr int kAllReduceFloats = 4 << 20, kAllReduceTimes = 4;
constexpr int kName = 64;

// The partner of `rank` in a round of a tournament of `players` (an even number). One player keeps its place and the
// others move round it. A rank without a partner gets itself.
int partner(int rank, int round, int players) {
  const int ring = players - 1;
  if (rank == ring) return round % ring * (players / 2) % ring;
  const int other = ((round - rank) % ring + ring) % ring;
  return other == rank ? ring : other;
}

// A barrier at which a rank sleeps: MPI's own spins, on a core that the ranks which are measured may need.
void wait_for_all() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) usleep(500);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 0;
  char name[kName] = "";
  const char* slurm = std::getenv("SLURMD_NODENAME");
  std::snprintf(name, sizeof name, "%s", slurm != nullptr ? slurm : ("rank" + std::to_string(rank)).c_str());
  std::vector<char> names(static_cast<size_t>(size) * kName);
  MPI_Allgather(name, kName, MPI_CHAR, names.data(), kName, MPI_CHAR, MPI_COMM_WORLD);
  std::vector<char> out(kBytes, 1), in(kBytes, 0);
  std::vector<double> rates(static_cast<size_t>(size), 0);  // rates to all other ranks
  const int players = size + size % 2;
  for (int round = 0; round < players - 1; ++round) {
    const int other = partner(rank, round, players);
    wait_for_all();
    if (other >= size || other == rank) continue;
    double best = 1e9;
    // Both must stop after the same exchange, so the lower rank decides, and says it in the first byte of the one
    // before.
    const bool decides = rank < other;
    const double until = MPI_Wtime() + seconds;
    bool more = true;
    for (int i = 0; more; ++i) {  // the first exchange sets up the connection and is not measured
      const double begin = MPI_Wtime();
      out[0] = i < kTimes || begin < until ? 1 : 0;
      MPI_Sendrecv(out.data(), kBytes, MPI_CHAR, other, 0, in.data(), kBytes, MPI_CHAR, other, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      if (i > 0) best = std::min(best, MPI_Wtime() - begin);
      more = (decides ? out[0] : in[0]) != 0;
    }
    rates[static_cast<size_t>(other)] = 2.0 * kBytes / best;
  }
  wait_for_all();
  std::vector<double> all(rank == 0 ? static_cast<size_t>(size) * static_cast<size_t>(size) : 0);
  MPI_Gather(rates.data(), size, MPI_DOUBLE, all.data(), size, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int a = 0; rank == 0 && a < size; ++a)
    for (int b = a + 1; b < size; ++b)
      std::printf("%s %s %.0f\n", &names[static_cast<size_t>(a) * kName], &names[static_cast<size_t>(b) * kName],
                  all[static_cast<size_t>(a) * static_cast<size_t>(size) + static_cast<size_t>(b)]);
  std::vector<float> sum(kAllReduceFloats, 1.0F);
  double best = 1e9;
  const double until = MPI_Wtime() + seconds;
  int more = size > 1 ? 1 : 0;
  for (int i = 0; more != 0; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, sum.data(), kAllReduceFloats, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    if (i > 0) best = std::min(best, MPI_Wtime() - begin);
    more = i < kAllReduceTimes || MPI_Wtime() < until ? 1 : 0;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  double slowest = 0;
  MPI_Reduce(&best, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0 && size > 1)
    std::printf("- - %.0f\n", 2.0 * (size - 1) / size * kAllReduceFloats * sizeof(float) / slowest);
  MPI_Finalize();
  return 0;
}
