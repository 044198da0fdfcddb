// SPDX-License-Identifier: Apache-2.0
// Root's dlctl and what belongs to users: job directories, logs, control files, and the connection that such a file
// names, are their users' to shape. Root touches none of it with its own rights, but with those of the job's user.
// Callers other than root have no rights but their own, and nothing here changes anything for them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/find_job.h"

namespace dl::ctl {

// Whether the job is another user's than the caller's: then less is read of what it wrote.
bool is_foreign(const Job& job);

// From now on this process has the rights of the job's user, for good: for commands that deal with one job. Nothing
// happens unless root calls it for a job that is not root's. kDenied where the user is not known here, or where the job
// directory is root's and others may write to it.
Status act_as_owner(const Job& job);

// The text that `make` gives, made by a process that has the rights of the job's user, and bounded memory and time: for
// commands that deal with jobs of several users.
Result<std::string> made_as_owner(const Job& job, const std::function<std::string()>& make);

// While it lives, root has the file rights of this user ("" or an unknown one: none but its own).
class FileRights {
 public:
  explicit FileRights(const std::string& user);
  ~FileRights();
  FileRights(const FileRights&) = delete;
  FileRights& operator=(const FileRights&) = delete;

 private:
  bool changed_ = false;
  std::vector<gid_t> groups_;
};

}  // namespace dl::ctl
