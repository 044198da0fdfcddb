// SPDX-License-Identifier: Apache-2.0
// Shared by families.cpp (the tables) and job_environment.cpp (all learners of a job at once), and not meant for other
// files.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "common/base/result.h"
#include "frameworks/families.h"

namespace dl {

// kDefault: a value that the user has set stays. kIdentity: the value differs between learners, so a value inherited
// from a shell (of another launcher, or of a notebook) cannot be right and is replaced. kKnown: as kIdentity if our
// value is known; else the present one, which is Slurm's own, stays.
enum class Kind { kDefault, kIdentity, kKnown };

// Empty: left unset (a framework that tests whether a variable exists must not find an empty one). A value that has to
// be empty is not possible, and so far not needed.
using OfJob = std::string (*)(const JobContext&);
using OfLearner = std::string (*)(const LearnerContext&);

// A value of the job's context cannot differ between its learners: with 10,000 of them it is made once.
struct Variable {
  template <typename Function>
  constexpr Variable(const char* its_name, Kind its_kind, Function function, const char* left_alone_with = nullptr)
      : name(its_name), kind(its_kind), unless(left_alone_with) {
    if constexpr (std::is_convertible_v<Function, OfJob>) {
      of_job = function;
    } else {
      of_learner = function;
    }
  }
  std::string value(const LearnerContext& context) const {
    return of_job != nullptr ? of_job(context) : of_learner(context);
  }

  const char* name;
  Kind kind;
  OfJob of_job = nullptr;
  OfLearner of_learner = nullptr;
  const char* unless;  // left alone where the user has set this one
};

void add_variable(const Variable& variable, const LearnerContext& context, Environment* env);

// The variables of a family that are to be added to env, all of them chosen before the first is added: the one named by
// `unless` may be of the same family. kNotFound: there is no such family.
Result<std::vector<const Variable*>> choose_variables(const std::string& family, const JobContext& context,
                                                      const Environment& env);

// Removes a MASTER_ADDR or MASTER_PORT without a value: they name no store of the user's. A script that exports what it
// took from an empty variable, or from a command that printed nothing, leaves them so.
void forget_empty_store(Environment* env);
// A store of the user's own, whatever the entry says.
bool has_users_store(const Environment& env);

// Some family has a value of its own for each learner.
bool may_differ(const std::string& name);

}  // namespace dl
