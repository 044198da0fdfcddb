// SPDX-License-Identifier: Apache-2.0
// Compresses logs of attempts that are over.
#pragma once

#include <atomic>
#include <string>

#include "common/base/result.h"

namespace dl::logs {

// Replaces `path` by path.zst (frames.h): the new file is written beside it, made durable and renamed, and only then is
// the log removed. So the log exists at any moment, even if this process is killed. Does nothing where the log is
// smaller than 64 KiB or not a regular file. The time of its last change and its mode are kept. kNoSpace, kDenied, kIo,
// kInternal (zstd failed), and kBusy if *stop becomes true or the log is still being written; after an error the log is
// as it was.
Status compress_log(const std::string& path, const std::atomic<bool>* stop = nullptr);

// Compresses the logs of all attempts up to `last` in this folder ("…/logs"). Goes on after a failure, and returns the
// first one.
Status compress_attempts(const std::string& logs, int last, const std::atomic<bool>* stop = nullptr);

}  // namespace dl::logs
