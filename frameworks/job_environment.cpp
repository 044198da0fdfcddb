// SPDX-License-Identifier: Apache-2.0
// The environment of all learners of a job at once: values that may differ between learners are kept as steps, which
// are carried out for each learner.
#include <algorithm>
#include <utility>

#include "frameworks/families.h"
#include "frameworks/family_table.h"
#include "frameworks/placeholders.h"

namespace dl {

// One of the values that a variable gets, one after the other.
struct JobEnvironment::Step {
  const Variable* variable = nullptr;  // nullptr: the value is `text`
  Kind kind = Kind::kDefault;
  bool users_store = false;
  std::string text;
  bool fill = false;  // the placeholders in the text are filled for each learner
};
struct JobEnvironment::Name {
  std::optional<std::string> inherited;
  std::vector<Step> steps;
};

JobEnvironment::JobEnvironment(const LearnerContext& first, Environment inherited)
    : context_(&first), first_(std::move(inherited)) {
  forget_empty_store(&first_);
}
JobEnvironment::~JobEnvironment() = default;

Status JobEnvironment::add(const std::string& family) {
  DL_TRY_ASSIGN(const std::vector<const Variable*> wanted, choose_variables(family, *context_, first_));
  LearnerContext seen = *context_;
  const bool users_store = has_users_store(first_);
  if (users_store) seen.launcher_store = false;
  for (const Variable* variable : wanted) {
    if (may_differ(variable->name)) note(variable->name, Step{variable, variable->kind, users_store, {}});
    add_variable(*variable, seen, &first_);
  }
  return {};
}

void JobEnvironment::add_default(const std::string& name, const std::string& value) {
  if (may_differ(name)) note(name, Step{nullptr, Kind::kDefault, false, value});
  first_.emplace(name, value);
}

void JobEnvironment::add_filled(const std::string& name, const std::string& text) {
  if (!has_placeholders(text)) return add_default(name, text);
  const bool differs = placeholders_differ(text);
  if (!differs && first_.count(name) != 0) return;
  const std::string value = fill_placeholders(text, *context_);
  if (differs) {
    note(name, Step{nullptr, Kind::kIdentity, false, text, true});
    first_.erase(name);
  } else if (may_differ(name) && !value.empty()) {
    note(name, Step{nullptr, Kind::kDefault, false, value});
  }
  if (!value.empty()) first_.emplace(name, value);
}

void JobEnvironment::set(const std::string& name, const std::string& value) {
  if (may_differ(name)) note(name, Step{nullptr, Kind::kIdentity, false, value});
  first_[name] = value;
}

// Records a step of a variable; must be called before the step changes the first learner's environment.
void JobEnvironment::note(const std::string& name, Step step) {
  const auto place = std::lower_bound(names_.begin(), names_.end(), name) - names_.begin();
  const auto at = static_cast<size_t>(place);
  if (at == names_.size() || names_[at] != name) {
    Name its;
    if (const auto found = first_.find(name); found != first_.end()) its.inherited = found->second;
    names_.insert(names_.begin() + place, name);
    its_.insert(its_.begin() + place, std::move(its));
  }
  its_[at].steps.push_back(std::move(step));
}

std::optional<std::string> JobEnvironment::value_of(size_t name, const LearnerContext& other) const {
  std::optional<std::string> value = its_[name].inherited;
  for (const Step& step : its_[name].steps) {
    if (value && step.kind == Kind::kDefault) continue;
    std::string next = step.fill ? fill_placeholders(step.text, other) : step.text;
    if (step.variable != nullptr && step.users_store && other.launcher_store) {
      LearnerContext seen = other;
      seen.launcher_store = false;
      next = step.variable->value(seen);
    } else if (step.variable != nullptr) {
      next = step.variable->value(other);
    }
    if (!next.empty() || (step.variable == nullptr && !step.fill)) {
      value = std::move(next);
    } else if (step.kind == Kind::kIdentity) {
      value.reset();
    }
  }
  return value;
}

}  // namespace dl
