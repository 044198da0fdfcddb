// SPDX-License-Identifier: Apache-2.0
// The error file of torch's @record (TORCHELASTIC_ERROR_FILE, which frameworks/families.cpp sets): it has the exception
// of a learner whose traceback may not be in its log.
#pragma once

#include <string>

namespace dl::agent {

// The exception in one line, "RuntimeError: the message", at most 400 bytes; empty if the text has neither of the two
// known formats: {"message":{"message":"RuntimeError: ...","errorCode":1,"extraInfo":{...}}}, which the Python side
// writes, and {"message":"..."}. Pure.
std::string parse_error_file(const std::string& text);

// The same for a file; empty if it cannot be read or is larger than 1 MiB.
std::string read_error_file(const std::string& path);

}  // namespace dl::agent
