// SPDX-License-Identifier: Apache-2.0
// Classes of failures: whose fault one is decides what the job does next. Each class is an exit status of dl-data.
// Pure.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::data {

constexpr int kExitDone = 0;
constexpr int kExitWrongCommand = 64;
constexpr int kExitUser = 65;       // not found, forbidden, wrong checksum, names that cannot be files: no requeue
constexpr int kExitFault = 70;      // a fault of slurm-dl itself
constexpr int kExitLate = 73;       // it does not fit the deadline; what is done is kept
constexpr int kExitLocalDisk = 74;  // this node's disk is broken or full: another node may do
constexpr int kExitLater = 75;      // time-outs and errors of a server: what is done is kept, try again

// The error of a call on what is fetched from. Missing and forbidden are the user's (kNotFound, kDenied); all else,
// such as an I/O error or a stale handle, is that of a file server (kBusy), and may be gone later.
Error source_error(const std::string& what, int sys_errno);
// The error of a call on the disk of this node: kNoSpace or kIo, whatever it is, since the folders there are ours.
Error local_error(const std::string& what, int sys_errno);
// The error of a call on the place where results are stored, which the user has named: kNotFound and kDenied as above,
// a full disk or quota kDenied too, since no other node has another one there; kExists where something of another kind
// lies there; all else kBusy.
Error destination_error(const std::string& what, int sys_errno);
// What a program that stores to a destination says of a disk is said of the destination's, not of this node's: a full
// one becomes kDenied, an I/O error kBusy, as in destination_error(). Other errors stay as they are.
Error of_destination(Error error);
// The error for work that is not done at the deadline: kTimeout, marked so that exit_status() recognises it.
Error late_error(std::string text);

int exit_status(const Error& error);
// Whether it may go away by itself, so that it is worth while to try again.
bool may_pass(const Error& error);

}  // namespace dl::data
