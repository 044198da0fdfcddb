// SPDX-License-Identifier: Apache-2.0
// How dlctl, run by root, handles what users control: job directories, logs, control files, and the connection that a
// control file names. Root uses none of these with its own rights; it takes the rights of the job's user first. That
// user could take over a program that is started then, so such a program gets neither a terminal of root's nor those
// variables of its environment that it does not need. For callers other than root these functions change nothing.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/find_job.h"

namespace dl::ctl {

// True if the job belongs to another user than the caller; dlctl then reads less of its files, and trusts them less.
bool is_foreign(const Job& job);

// Gives this process the rights of the job's user, permanently; for commands that deal with one job. Does nothing
// unless root calls it for a job of another user. kDenied if that user is not known on this machine, or if the job
// directory belongs to root and others may write to it.
Status act_as_owner(const Job& job);

// The same for commands that deal with whole folders: takes the rights of their owner. kNotFound if one is not a folder
// (a link to a folder is refused too), kInvalid if they belong to several users. kDenied for a folder of root's if
// others may write to it or to a folder above it, since they could put a link there.
Status act_as_owner_of(const std::vector<std::string>& folders);

// Returns the text that `make` returns. If root calls it for another user's job, `make` runs in a child process with
// that user's rights and at most 1 GiB and 30 s. For commands that deal with jobs of several users.
Result<std::string> made_as_owner(const Job& job, const std::function<std::string()>& make);

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;  // empty: the user id has no name
};

// While this object exists, root accesses files with the rights of this user ("": root's own) or of the job's user. If
// this machine does not know the user, the rights are those of uid 65534 (nobody).
class FileRights {
 public:
  explicit FileRights(const std::string& user);
  explicit FileRights(const Job& job);
  ~FileRights();
  FileRights(const FileRights&) = delete;
  FileRights& operator=(const FileRights&) = delete;

 private:
  void take(const Identity& who);
  bool changed_ = false;
  std::vector<gid_t> groups_;
};

}  // namespace dl::ctl
