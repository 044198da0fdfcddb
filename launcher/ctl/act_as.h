// SPDX-License-Identifier: Apache-2.0
// Root's dlctl and what belongs to users: job directories, logs, control files, and the connection that such a file
// names, are their users' to shape. Root touches none of it with its own rights, but with those of the job's user.
// Callers other than root have no rights but their own, and nothing here changes anything for them.
#pragma once

#include <sys/types.h>

#include <functional>
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

// The same for commands that deal with all that lies in some folders: the rights of these folders' owner. A folder of
// root's own has to be one in which nobody else can put a link; kDenied where it is not. kInvalid for folders of
// several users, or what is no folder (a link to one is none).
Status act_as_owner_of(const std::vector<std::string>& folders);

// The text that `make` gives, made by a process that has the rights of the job's user, and bounded memory and time: for
// commands that deal with jobs of several users.
Result<std::string> made_as_owner(const Job& job, const std::function<std::string()>& make);

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;  // empty: a number without one
};

// While it lives, root has the file rights of this user (""; root's own), or of the job's; of one whom this machine
// does not know, nobody's.
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
