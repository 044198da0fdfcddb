// SPDX-License-Identifier: Apache-2.0
// Classifies failures: what happened, whose fault it is, and what is done about it. This is one table, which a site can
// extend (failure_row.h). The codes are FfDL's, and more of the same form: C... is yours (the program), S... is ours
// (nodes, network, storage). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/failure_row.h"
#include "launcher/record/event_log.h"
#include "launcher/supervise/first_cause.h"

namespace dl::supervise {

// The class of a PyTorch that was built without libuv, and so cannot use a store that dlrun hosts.
constexpr const char* kNoLibuv = "no-libuv";
// Codes of what data and results fail with; the first three are FfDL's.
constexpr const char* kDataCode = "S302";      // data could not be fetched
constexpr const char* kResultsCode = "S303";   // results could not be stored after a training that ended well
constexpr const char* kDataUserCode = "C103";  // data that is not there, or may not be read
// How often a job goes back into the queue in a row because data could not be fetched; then it is held.
constexpr int kMostWithoutData = 5;

struct FailureClass {
  std::string name = "exit";
  std::string code = "C201";
  Fault fault = Fault::kYours;
  Answer answer = Answer::kRestart;
  int budget = -1;  // restarts for this class in one run; -1: no limit of its own
};

// The first rule that fits: the site's in their order, then the built-in ones. A site's row applies to learners that
// ended with an exit code (other than 93, "do not start me again") or by a signal, and whose last lines or exception
// match its pattern.
FailureClass classify(const Failure& failure, const std::vector<FailureRow>& site);

// "gpu-memory (C211, yours)".
std::string format_class(const FailureClass& failure_class);

// The same failure has the same signature on any node, rank and attempt: class, exit code or signal, the exception with
// its numbers and addresses removed, and the train step. Empty where two failures cannot be told apart: if the train
// step is not known, or the failure is ours (a node fails whatever the program does).
std::string failure_signature(const Failure& failure, const FailureClass& failure_class);

// In how many attempts a learner failed with this signature, the last included; counted since a person last looked at
// the job (HALTED). 0 for an empty signature.
int attempts_with(const std::string& signature, const std::vector<record::Event>& events);

// How many attempts in a row failed because data could not be fetched at that moment (kDataCode), the last included:
// since learners last ran, or a person last looked at the job (HALTED).
int attempts_without_data(const std::vector<record::Event>& events);

}  // namespace dl::supervise
