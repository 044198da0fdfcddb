// SPDX-License-Identifier: Apache-2.0
#include "frameworks/learner_environment.h"

#include <utility>

#include "common/contract/env_names.h"

namespace dl {
namespace {

constexpr const char* kPythonPath = "PYTHONPATH";

// Appends the folder to the path, unless it is in it already.
std::string with_folder(std::string path, const std::string& folder) {
  if ((':' + path + ':').find(':' + folder + ':') != std::string::npos) return path;
  if (!path.empty()) path += ':';
  return path + folder;
}

}  // namespace

std::string installed_python_folder() {
  return DL_PKGDATADIR "/python";
}

void drop_launcher_variables(Environment* inherited) {
  for (const char* name : {env::kControl, env::kSecret, env::kControlRank, env::kHoldPorts, env::kPmixServer,
                           env::kLease, env::kProgress, env::kMetricsFile, env::kMayRequeue})
    inherited->erase(name);
}

Status compose(const LearnerRecipe& recipe, JobEnvironment* environment) {
  DL_TRY(environment->add("dl"));
  if (recipe.version != nullptr)
    for (const auto& [name, value] : *recipe.version) environment->add_filled(name, value);
  if (recipe.families != nullptr)
    for (const std::string& family : *recipe.families) DL_TRY(environment->add(family));
  if (!recipe.python_folder.empty()) {
    const auto there = environment->first().find(kPythonPath);
    const std::string before = there == environment->first().end() ? std::string() : there->second;
    environment->set(kPythonPath, with_folder(before, recipe.python_folder));
  }
  if (recipe.piped) environment->add_default("PYTHONUNBUFFERED", "1");
  if (recipe.known != nullptr)
    for (const auto& [name, value] : *recipe.known) environment->set(name, value);
  return {};
}

Status compose(const LearnerRecipe& recipe, const LearnerContext& context, Environment* environment) {
  Environment inherited = *environment;
  drop_launcher_variables(&inherited);
  JobEnvironment composed(context, std::move(inherited));
  DL_TRY(compose(recipe, &composed));
  *environment = composed.first();
  return {};
}

}  // namespace dl
