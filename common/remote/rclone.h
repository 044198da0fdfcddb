// SPDX-License-Identifier: Apache-2.0
// How rclone is called, and what it says. Pure, but for the functions at the end.
//
// Names of remotes and paths are on its command line; credentials never are: rclone reads them from the configuration
// of its user. No -vv and no --dump, which would print them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/remote/helper.h"

namespace dl::data {

// The exit status by which rclone says that a folder, bucket or file to be listed is not there. Other errors that are
// kNotFound, such as a remote whose key file or base remote is missing, say nothing of what the place holds.
constexpr int kRcloneNoFolder = 3, kRcloneNoFile = 4;

// {"rclone", SUBCOMMAND, flags that all calls have}. The words after it are the caller's.
std::vector<std::string> rclone_command(const std::string& subcommand);

// "NAME:PATH" and a path below it as one text.
std::string below(const std::string& remote, const std::string& path);

// What an unsuccessful end of rclone means: kNotFound, kDenied, kInvalid: the user's; kNoSpace, kIo: this node's disk;
// kBusy: all else. The text is one sentence without secrets. what: "list NAME:PATH".
Error rclone_error(const std::string& what, const HelperEnd& end);
// The error of a run that did not take place: rclone is missing (kUnsupported), was stopped, or hung.
Error no_rclone(Error error);

// One line that rclone logs as JSON ("--use-json-log"). False: it is none.
struct RcloneLine {
  std::string level, message, object;
  uint64_t bytes = 0, total = 0;  // of statistics; 0 in other lines
};
bool parse_logged(std::string_view line, RcloneLine* logged);

// The type ("s3", "sftp") of a remote in the configuration of this user; empty if it has none of this name. Errors of
// no_rclone(). Asks nobody but rclone on this machine.
Result<std::string> remote_type(const std::string& remote);
// Whether asking for checksums of a listing costs the server nothing: where it keeps them. Others would read each file.
bool has_cheap_checksums(const std::string& type);
// kNotFound unless the remote is configured; kDenied if others than its user can read the configuration.
Status check_remote_known(const std::string& from);

}  // namespace dl::data
