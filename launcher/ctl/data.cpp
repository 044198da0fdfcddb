// SPDX-License-Identifier: Apache-2.0
// dlctl data: the site's catalogue of data sets, the user's cache on this machine, and data that is fetched before a
// job has its nodes.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/json/json.h"
#include "common/site/site_config.h"
#include "common/site/site_data.h"
#include "launcher/ctl/data_prefetch.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

struct DataOptions {
  bool json = false;
  bool shared = false;
  bool all = false;
  std::string name;
  PrefetchOptions prefetch;
};

// The folder of caches: of this machine's own disk, or the one that all nodes see.
Result<std::string> cache_folder(const SiteConfig& site, bool shared) {
  if (shared && site.data.shared.empty())
    return Error{Errc::kNotFound,
                 "--shared: this site has no shared cache; allowed: [data] shared in dl.toml, or "
                 "without --shared"};
  if (shared) return site.data.shared;
  return site.data.cache.empty() ? fmt::format("/tmp/slurm-dl-data-{}", ::geteuid()) : site.data.cache;
}

// Replaces this process by dl-data, whose exit status is dlctl's. Returns only if that fails.
Status become(const std::string& subcommand, const DataOptions& options) {
  DL_TRY_ASSIGN(const SiteConfig site, load_site_config(default_site_config_path(true)));
  DL_TRY_ASSIGN(const std::string cache, cache_folder(site, options.shared));
  DL_TRY_ASSIGN(const std::string program, data_program());
  std::vector<std::string> words = {program, subcommand, "--cache", cache};
  if (options.json) words.emplace_back("--json");
  if (options.all) words.emplace_back("--all");
  if (!options.name.empty()) words.insert(words.end(), {"--", options.name});
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return errno_error(program, errno);
}

std::string cache_of(const data::DataSet& set) {
  return data::cache_name(set.as_source().cache);
}

std::string tenants_of(const data::DataSet& set) {
  return set.tenants.empty() ? "all" : join(set.tenants, ", ");
}

Status catalogue(bool json) {
  const std::string path = default_site_config_path(true);
  DL_TRY_ASSIGN(const SiteConfig site, load_site_config(path));
  std::vector<std::string> faults;
  const auto sets = data::load_data_sets(data::catalogue_folders(site.data, path), &faults);
  for (const std::string& fault : faults) std::fprintf(stderr, "dlctl data: %s\n", fault.c_str());
  if (json) {
    Json all = Json::array();
    for (const data::DataSet& set : sets)
      all.push_back({{"name", set.name},
                     {"summary", set.summary},
                     {"source", data::shown_place(set.source)},
                     {"path", set.path},
                     {"cache", cache_of(set)},
                     {"licence", set.licence},
                     {"tenants", set.tenants}});
    std::puts(all.dump(2).c_str());
    return {};
  }
  if (sets.empty()) {
    std::puts("the site's catalogue has no data set (datasets.d, see dl.toml(5))");
    return {};
  }
  std::vector<std::vector<std::string>> rows{{"NAME", "FROM", "CACHE", "TENANTS", "LICENCE", "SUMMARY"}};
  for (const data::DataSet& set : sets)
    rows.push_back({"@" + set.name, data::shown_place(set.as_source().from), cache_of(set), tenants_of(set),
                    set.licence.empty() ? "-" : printable(set.licence, 60), printable(set.summary, 80)});
  std::fputs(table(rows).c_str(), stdout);
  return {};
}

}  // namespace

Run add_data(CommandLine* line) {
  auto options = std::make_shared<DataOptions>();
  line->require_subcommand();
  struct Below {
    CommandLine* line;
    std::function<Status()> run;
  };
  auto below = std::make_shared<std::vector<Below>>();
  const auto add = [&](const char* name, const char* summary, std::function<Status()> run) {
    CommandLine* sub = line->subcommand(name, summary);
    below->push_back({sub, std::move(run)});
    return sub;
  };
  const auto of_cache = [&](const char* name, const char* summary) {
    CommandLine* sub = add(name, summary, [options, name] { return become(name, *options); });
    sub->flag("--shared", &options->shared, "of the cache that all nodes see, in place of this machine's");
    return sub;
  };
  CommandLine* sets =
      add("catalogue", "the data sets that --dl-data=@NAME knows", [options] { return catalogue(options->json); });
  sets->flag("--json", &options->json, "for programs");
  of_cache("ls", "what your cache on this machine holds, and what jobs use of it")
      ->flag("--json", &options->json, "for programs");
  of_cache("pin", "keep a set in the cache, whatever else wants its room")
      ->argument("SET", &options->name, "its source, or the beginning of its key, as ls shows them")
      .required();
  of_cache("unpin", "let a set go again when its room is wanted")
      ->argument("SET", &options->name, "its source, or the beginning of its key, as ls shows them")
      .required();
  CommandLine* gc = of_cache("gc", "remove what unfinished fetches left, and what was evicted");
  gc->flag("--all", &options->all, "also all sets that no job uses and nobody has pinned");
  gc->flag("--json", &options->json, "for programs");
  CommandLine* prefetch = add("prefetch", "fetch data into the shared cache by a CPU job, before a job has its nodes",
                              [options] { return run_prefetch(options->prefetch); });
  add_prefetch_options(prefetch, &options->prefetch);
  return [below] {
    for (const Below& sub : *below)
      if (sub.line->chosen()) return sub.run();
    return Status(Error{Errc::kInvalid, "no subcommand was given"});
  };
}

}  // namespace dl::ctl
