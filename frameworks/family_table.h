// SPDX-License-Identifier: Apache-2.0
// For families.cpp (the tables), family_needs.cpp and job_environment.cpp (all learners of a job at once); no other
// file may include it.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "common/base/result.h"
#include "frameworks/families.h"

namespace dl {

// kDefault: a value that the user has set stays. kIdentity: the value differs between learners, so a value inherited
// from a shell (of another launcher, or of a notebook) cannot be right and is replaced. kKnown: as kIdentity if our
// value is known; otherwise the present value, which Slurm has set, stays.
enum class Kind { kDefault, kIdentity, kKnown };

// An empty result leaves the variable unset (a framework that tests whether a variable exists must not find an empty
// one). So a variable cannot be set to an empty value, which was never needed so far.
using OfJob = std::string (*)(const JobContext&);
using OfLearner = std::string (*)(const LearnerContext&);

// A value computed from the job's context cannot differ between its learners, so it is computed once even for 10,000 of
// them.
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
  const char* unless;  // name of another variable: if the user has set that one, this one is left alone; or nullptr
};

// A row of the table: some variables, and what goes with them.
struct Family {
  const char* name;
  const Variable* variables;
  size_t count;
  bool (*applies)(const JobContext&);  // nullptr: always
  FamilyNeeds needs;
  bool alone = false;  // also for a learner that is told no rank: no program finds one in these variables
};
// nullptr: there is no family of this name.
const Family* find_family(const std::string& name);

void add_variable(const Variable& variable, const LearnerContext& context, Environment* env);

// The variables of a family that are to be added to env. All of them are chosen before the first is added, since
// `unless` may name one of the same family. kNotFound: there is no such family.
Result<std::vector<const Variable*>> choose_variables(const std::string& family, const JobContext& context,
                                                      const Environment& env);

// Removes a MASTER_ADDR or MASTER_PORT that is empty: it names no store. Scripts leave such a variable behind if they
// export the value of an empty variable, or of a command that printed nothing.
void forget_empty_store(Environment* env);
// Whether the user's environment names a store of his own, whatever the catalogue entry says.
bool has_users_store(const Environment& env);

// Whether some family has a variable of this name whose value differs between learners.
bool may_differ(const std::string& name);

}  // namespace dl
