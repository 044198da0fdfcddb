// SPDX-License-Identifier: Apache-2.0
// Containers of texts, whose members nearly every unit would compile for itself. The precompiled header declares them
// as extern templates, and instances.cpp defines them: it sets DL_INSTANCE and reads this again, so there is no include
// guard. Containers of numbers are not here: rooms that compute much have them compiled where they are used, with all
// optimisation.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#ifndef DL_INSTANCE
#define DL_INSTANCE extern template
#endif
DL_INSTANCE class std::vector<std::string>;
DL_INSTANCE std::string& std::vector<std::string>::emplace_back<std::string>(std::string&&);
DL_INSTANCE class std::map<std::string, std::string>;
DL_INSTANCE class std::set<std::string>;
DL_INSTANCE class std::optional<std::string>;
#undef DL_INSTANCE
