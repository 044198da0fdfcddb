// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/cache_commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/data/node_cache.h"

namespace dl::data {
namespace {

constexpr size_t kShownKey = 12;

std::string state_of(const SetInfo& set) {
  std::string state = set.complete ? (set.leased ? "in use" : "kept") : (set.leased ? "being fetched" : "in part");
  return set.pinned ? state + ", pinned" : state;
}

Result<std::string> list_sets(const CacheArguments& arguments) {
  DL_TRY_ASSIGN(const NodeCache cache, NodeCache::open(arguments.cache, {}));
  DL_TRY_ASSIGN(const std::vector<SetInfo> sets, cache.list());
  if (arguments.json) {
    Json list = Json::array();
    for (const SetInfo& set : sets)
      list.push_back({{"key", set.key},
                      {"source", set.source},
                      {"bytes", set.bytes},
                      {"files", set.files},
                      {"used_ms", set.used_ms},
                      {"created_ms", set.created_ms},
                      {"complete", set.complete},
                      {"leased", set.leased},
                      {"pinned", set.pinned}});
    return list.dump() + "\n";
  }
  if (sets.empty()) return std::string("nothing is in the cache\n");
  std::string text =
      fmt::format("{:<12}  {:>10}  {:>9}  {:>12}  {:<16}  {}\n", "KEY", "SIZE", "FILES", "USED", "STATE", "SOURCE");
  for (const SetInfo& set : sets) {
    const int64_t ago = std::max<int64_t>(0, unix_ms() - set.used_ms) / 1000;
    const std::string used =
        set.used_ms == 0 ? "-" : format_duration(std::chrono::seconds(ago < 60 ? ago : ago / 60 * 60)) + " ago";
    text += fmt::format("{:<12}  {:>10}  {:>9}  {:>12}  {:<16}  {}\n", set.key.substr(0, kShownKey),
                        format_bytes(set.bytes), set.files, used, state_of(set), printable(set.source, 200));
  }
  return text;
}

Result<std::string> pin_set(const CacheArguments& arguments, bool pinned) {
  DL_TRY_ASSIGN(const NodeCache cache, NodeCache::open(arguments.cache, {}));
  DL_TRY_ASSIGN(const SetInfo set, cache.find(arguments.name));
  DL_TRY(cache.pin(set.key, pinned));
  return fmt::format("{} {}\n", pinned ? "pinned" : "no longer pinned:", printable(set.source, 200));
}

Result<std::string> collect_sets(const CacheArguments& arguments) {
  DL_TRY_ASSIGN(const NodeCache cache, NodeCache::open(arguments.cache, {}));
  DL_TRY_ASSIGN(const uint64_t freed, cache.collect(arguments.all));
  if (arguments.json) {
    Json told = Json::object();
    told["freed"] = freed;
    return told.dump() + "\n";
  }
  return fmt::format("removed {} of complete sets, and what fetches have left behind\n", format_bytes(freed));
}

}  // namespace

void add_cache_commands(CommandLine* line, CacheArguments* arguments,
                        const std::function<void(const Result<std::string>&)>& done) {
  auto add = [&](const char* name, const char* summary) {
    CommandLine* command = line->subcommand(name, summary);
    command->option("--cache", &arguments->cache, "the site's folder for caches").form("DIR").required();
    return command;
  };
  CommandLine* list = add("ls", "Lists what this user has in the cache of this node.");
  list->flag("--json", &arguments->json, "for programs");
  list->action([=] { done(list_sets(*arguments)); });
  CommandLine* pin = add("pin", "Keeps a set from being evicted, until unpin.");
  pin->argument("NAME", &arguments->name, "its source, or the beginning of its key").required();
  pin->action([=] { done(pin_set(*arguments, true)); });
  CommandLine* unpin = add("unpin", "Undoes pin.");
  unpin->argument("NAME", &arguments->name, "its source, or the beginning of its key").required();
  unpin->action([=] { done(pin_set(*arguments, false)); });
  CommandLine* collect = add("gc", "Removes what fetches have left behind.");
  collect->flag("--all", &arguments->all, "also all sets that no job uses and nobody has pinned");
  collect->flag("--json", &arguments->json, "for programs");
  collect->action([=] { done(collect_sets(*arguments)); });
}

}  // namespace dl::data
