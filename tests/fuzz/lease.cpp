// SPDX-License-Identifier: Apache-2.0
// Any bytes as the LEASE of a directory: nobody crashes, and whoever gets it holds it.
#include "checkpoint/store/lease.h"

#include "tests/fuzz/target.h"
#include "tests/unit/checkpoint_model_io.h"

namespace dl::ckpt::fuzz {

void lease(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  test::ModelState disk;
  disk.nodes.resize(3);
  disk.nodes[0].entries["c"] = 1;
  disk.nodes[1].directory = true;
  disk.nodes[1].entries["LEASE"] = 2;
  disk.nodes[2].data = std::make_shared<std::string>(input.rest());
  disk.nodes[2].modified_ms = disk.now_ms - mode * 1000;
  test::ModelIo io(std::move(disk), /*record=*/false);
  auto record = read_lease(io, "/c");
  if (record) must(static_cast<bool>(check_lease(io, "/c", record->token)), "the holder's token is the lease's");
  if (mode % 8 != 0) return;  // asking the system who we are takes long
  auto mine = Lease::acquire(io, "/c", "fuzz", "7", 60);
  if (!mine) {
    must(mine.error().code == Errc::kBusy, "a lease that is not had is somebody's");
    return;
  }
  must(static_cast<bool>(check_lease(io, "/c", mine->token())), "whoever acquired the lease holds it");
  must(static_cast<bool>(mine->renew()), "it can be renewed");
  mine->release();
  must(!read_lease(io, "/c"), "released is gone");
}

}  // namespace dl::ckpt::fuzz
