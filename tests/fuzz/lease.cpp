// SPDX-License-Identifier: Apache-2.0
// Any bytes as the LEASE of a directory: nobody crashes, and whoever gets it holds it. The first byte is its age in
// seconds, and says what is tried with it.
#include "checkpoint/store/lease.h"

#include "checkpoint/store/file.h"
#include "tests/fuzz/target.h"
#include "tests/unit/checkpoint_model_io.h"

namespace dl::ckpt::fuzz {
namespace {

constexpr uint64_t kMost = 1 << 20;

// This process as a job that asks for the lease. To ask the system who we are takes longer than all the rest.
LeaseRecord asker(uint8_t mode) {
  static const LeaseRecord asked = describe_holder("fuzz", "7", 60);
  LeaseRecord record = asked;
  record.restart = mode / 4 % 2;
  // As if on the host that the inputs of the corpus name: then it depends on a process whether the holder is gone.
  if (mode % 16 == 0) {
    record.host = "n1";
    record.boot_id = "b";
    record.pid_namespace = "pid:[1]";
  }
  return record;
}

void nothing_else(Io& io, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  must(io.list("/c", &names) == 0 && names == wanted, "nothing else is left in the directory");
}

}  // namespace

void lease(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  const std::string text = input.rest();
  test::ModelState disk;
  disk.nodes.resize(3);
  disk.nodes[0].entries["c"] = 1;
  disk.nodes[1].directory = true;
  disk.nodes[1].entries["LEASE"] = 2;
  disk.nodes[2].data = std::make_shared<std::string>(text);
  disk.nodes[2].modified_ms = disk.now_ms - mode * 1000;
  test::ModelIo io(std::move(disk), /*record=*/false);
  auto record = read_lease(io, "/c");
  if (record) must(static_cast<bool>(check_lease(io, "/c", record->token)), "the holder's token is the lease's");
  if (mode % 4 != 0) return;  // most inputs, since to acquire it takes several times as long as to read it
  auto mine = Lease::acquire(io, "/c", asker(mode));
  if (!mine) {
    must(mine.error().code == Errc::kBusy, "a lease that is not had is somebody's");
    auto still = read_small_file(io, "/c/LEASE", kMost);
    must(still && *still == text, "who does not get the lease leaves it as it is");
    return nothing_else(io, {"LEASE"});
  }
  must(static_cast<bool>(check_lease(io, "/c", mine->token())), "whoever acquired the lease holds it");
  must(static_cast<bool>(mine->renew()), "it can be renewed");
  nothing_else(io, {"LEASE"});
  mine->release();
  must(!read_lease(io, "/c"), "released is gone");
  nothing_else(io, {});
}

}  // namespace dl::ckpt::fuzz
