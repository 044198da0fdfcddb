// SPDX-License-Identifier: Apache-2.0
// Moves what a set lacks from its source into its work folder, on several threads.
#pragma once

#include "common/base/result.h"
#include "launcher/data/origin.h"
#include "launcher/data/progress.h"
#include "launcher/data/retry.h"
#include "launcher/data/work.h"

namespace dl::data {

struct TransferOptions {
  unsigned streams = 0;  // 0: what the origin advises
  bool compare = false;  // also checksums that a program which fetches many files has compared: they are of the user
  Patience patience;
};

// Returns when all files are there, or with the error that ended it; what was fetched stays. kConflict: a file is not
// what the manifest says (any more). Errors of Origin and Work.
Status transfer(Origin* origin, const Manifest& manifest, Work* work, Counts* counts, const TransferOptions& options);

}  // namespace dl::data
