// SPDX-License-Identifier: Apache-2.0
// Compresses logs of attempts that are over.
#pragma once

#include <atomic>
#include <string>

#include "common/base/result.h"

namespace dl::logs {

// Replaces `path` by path.zst (frames.h): written beside it, made durable, renamed, and only then is the log removed,
// so that it is there at any moment whatever kills this process. Does nothing where the log is smaller than 64 KiB or
// not a regular file. The time of its last change and its mode are kept. kNoSpace, kDenied, kIo, and kBusy once *stop
// is true: the log is as it was.
Status compress_log(const std::string& path, const std::atomic<bool>* stop = nullptr);

// The logs of all attempts up to `last` of this folder ("…/logs"). Goes on after a failure; the first one is returned.
Status compress_attempts(const std::string& logs, int last, const std::atomic<bool>* stop = nullptr);

}  // namespace dl::logs
