// SPDX-License-Identifier: Apache-2.0
#include "common/site/site_data.h"

#include <dirent.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/site/site_data_toml.h"
#include "common/site/site_values.h"

namespace dl {
namespace {

constexpr size_t kMostSetBytes = 256UL * 1024;
constexpr size_t kMostSets = 1000;
constexpr size_t kMostSetTenants = 1000;
constexpr size_t kMostSetFolders = 16;
constexpr size_t kMostWords = 4096;
constexpr uint64_t kLeastCache = uint64_t{1} << 20, kMostCache = uint64_t{1} << 60;
constexpr std::string_view kTomlEnd = ".toml";

Status set_text_of(const toml::node& node, const char* what, std::string* out) {
  const auto* text = node.as_string();
  if (text == nullptr || text->get().empty() || text->get().size() > kMostWords)
    return bad_value(node, fmt::format("{} in quotes", what));
  *out = text->get();
  return {};
}

Status set_absolute(const toml::node& node, const char* example, std::string* out) {
  const auto* text = node.as_string();
  if (text == nullptr || !is_clean_path(text->get()) || text->get().front() != '/')
    return bad_value(node, fmt::format("an absolute path in quotes, such as \"{}\"", example));
  *out = text->get();
  return {};
}

Status set_set_folders(const toml::node& node, std::vector<std::string>* out) {
  const auto* array = node.as_array();
  const std::string allowed = fmt::format("1 to {} absolute paths in an array", kMostSetFolders);
  if (array == nullptr || array->empty() || array->size() > kMostSetFolders) return bad_value(node, allowed);
  std::vector<std::string> folders;
  for (const toml::node& element : *array) {
    const auto* text = element.as_string();
    if (text == nullptr || !is_clean_path(text->get()) || text->get().front() != '/')
      return bad_value(element, allowed);
    folders.push_back(text->get());
  }
  *out = std::move(folders);
  return {};
}

Status set_cache_mode(const toml::node& node, std::optional<data::Cache>* out) {
  const auto* text = node.as_string();
  auto cache = data::parse_cache(text == nullptr ? "" : text->get());
  if (!cache) return bad_value(node, R"("node", "shard", "none")");
  *out = *cache;
  return {};
}

// Reads each key of a table by its row.
template <typename T>
struct DataKey {
  std::string_view name;
  Status (*set)(const toml::node& node, T* into);
};
template <typename T, size_t N>
Status read_keys(const toml::table& table, const std::array<DataKey<T>, N>& keys, const std::string& file,
                 const std::string& section, T* into) {
  for (auto&& [toml_key, node] : table) {
    const std::string full = section + (section.empty() ? "" : ".") + std::string(toml_key.str());
    const DataKey<T>* known = nullptr;
    std::string allowed;
    for (const DataKey<T>& key : keys) {
      if (key.name == toml_key.str()) known = &key;
      allowed += (allowed.empty() ? "" : ", ") + std::string(key.name);
    }
    if (known == nullptr) return place(node, file, full, Error{Errc::kInvalid, "unknown key; allowed: " + allowed});
    if (Status set = known->set(node, into); !set) return place(node, file, full, std::move(set).error());
  }
  return {};
}

constexpr std::array kDataKeys{
    DataKey<SiteData>{"cache",
                      [](const toml::node& n, SiteData* d) { return set_absolute(n, "/local/dl-cache", &d->cache); }},
    DataKey<SiteData>{
        "limit", [](const toml::node& n, SiteData* d) { return set_bytes(n, kLeastCache, kMostCache, &d->limit); }},
    DataKey<SiteData>{
        "shared", [](const toml::node& n, SiteData* d) { return set_absolute(n, "/scratch/dl-cache", &d->shared); }},
    DataKey<SiteData>{"catalogue", [](const toml::node& n, SiteData* d) { return set_set_folders(n, &d->catalogue); }}};

struct AskedSource {
  data::Source source;
  std::optional<data::Cache> cache;
};
constexpr std::array kSourceKeys{
    DataKey<AskedSource>{
        "from", [](const toml::node& n, AskedSource* s) { return set_text_of(n, "a place", &s->source.from); }},
    DataKey<AskedSource>{"to",
                         [](const toml::node& n, AskedSource* s) { return set_text_of(n, "a folder", &s->source.to); }},
    DataKey<AskedSource>{"cache", [](const toml::node& n, AskedSource* s) { return set_cache_mode(n, &s->cache); }},
    DataKey<AskedSource>{"checksum", [](const toml::node& n, AskedSource* s) {
                           return set_text_of(n, "sha256: and 64 digits", &s->source.checksum);
                         }}};

using data::DataSet;
constexpr std::array kSetKeys{
    DataKey<DataSet>{"summary", [](const toml::node& n, DataSet* s) { return set_text_of(n, "words", &s->summary); }},
    DataKey<DataSet>{"source", [](const toml::node& n, DataSet* s) { return set_text_of(n, "a place", &s->source); }},
    DataKey<DataSet>{"path",
                     [](const toml::node& n, DataSet* s) { return set_absolute(n, "/data/imagenet", &s->path); }},
    DataKey<DataSet>{"checksum", [](const toml::node& n,
                                    DataSet* s) { return set_text_of(n, "sha256: and 64 digits", &s->checksum); }},
    DataKey<DataSet>{"cache", [](const toml::node& n, DataSet* s) { return set_cache_mode(n, &s->cache); }},
    DataKey<DataSet>{"licence", [](const toml::node& n, DataSet* s) { return set_text_of(n, "words", &s->licence); }},
    DataKey<DataSet>{"tenants", [](const toml::node& n, DataSet* s) {
                       return set_names(n, "tenants (Slurm accounts)", kMostSetTenants, &s->tenants);
                     }}};

Result<data::Source> read_source(const toml::table& table, const std::string& file) {
  AskedSource asked;
  DL_TRY(read_keys(table, kSourceKeys, file, "source", &asked));
  data::Source& source = asked.source;
  const bool named = data::place_of(source.from) == data::Place::kCatalogue;
  if (named && (asked.cache || !source.checksum.empty()))
    return place(table, file, "source",
                 Error{Errc::kInvalid, "@NAME is cached and checked as the site's catalogue says; allowed: from, to"});
  source.cache = asked.cache.value_or(data::usual_cache(source.from, !source.checksum.empty()));
  if (Status good = data::check_source(&source); !good) return place(table, file, "source", std::move(good).error());
  return source;
}

Status add_folder(const std::string& folder, std::map<std::string, DataSet>* sets, std::vector<std::string>* faults) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return errno == ENOENT ? Status() : Status(errno_error("open " + folder, errno));
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): a folder of its own
    const std::string file = entry->d_name;
    if (file.size() <= kTomlEnd.size() || file.substr(file.size() - kTomlEnd.size()) != kTomlEnd) continue;
    if (names.size() < kMostSets && file.front() != '.') names.push_back(file.substr(0, file.size() - kTomlEnd.size()));
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name + std::string(kTomlEnd);
    sets->erase(name);
    auto text = read_small_file(path, kMostSetBytes);
    auto set = text ? data::parse_data_set(*text, name, path) : Result<DataSet>(std::move(text).error());
    if (set)
      sets->emplace(name, *std::move(set));
    else
      faults->push_back(std::move(set).error().text);
  }
  return {};
}

}  // namespace

Status read_site_data(const toml::node& node, const std::string& file, SiteConfig* config) {
  const auto* table = node.as_table();
  if (table == nullptr) return place(node, file, "data", bad_value(node, "a table: [data]"));
  return read_keys(*table, kDataKeys, file, "data", &config->data);
}

namespace data {

Source DataSet::as_source() const {
  Source from;
  from.from = path.empty() ? source : path;
  from.checksum = checksum;
  from.cache = cache.value_or(usual_cache(from.from, !checksum.empty()));
  return from;
}

Result<std::vector<Source>> parse_source_file(const std::string& text, const std::string& name) {
  DL_TRY_ASSIGN(const toml::table whole, parse_toml(text, name));
  std::vector<Source> sources;
  for (auto&& [key, node] : whole) {
    const auto* array = node.as_array();
    if (key.str() != "source" || array == nullptr)
      return place(node, name, std::string(key.str()),
                   Error{Errc::kInvalid, "is not accepted; allowed: [[source]] tables alone"});
    for (const toml::node& element : *array) {
      const auto* table = element.as_table();
      if (table == nullptr)
        return place(element, name, "source", bad_value(element, "[[source]] with from, to, cache, checksum"));
      DL_TRY_ASSIGN(Source source, read_source(*table, name));
      sources.push_back(std::move(source));
    }
  }
  if (Status good = check_sources(&sources); !good) return std::move(good).error().with_context(name);
  return sources;
}

Result<std::vector<Source>> load_source_file(const std::string& path) {
  DL_TRY_ASSIGN(const std::string text, read_small_file(path, kMostSetBytes));
  return parse_source_file(text, path);
}

Result<DataSet> parse_data_set(const std::string& text, const std::string& name, const std::string& file) {
  DL_TRY_ASSIGN(const toml::table table, parse_toml(text, file));
  DataSet set;
  set.name = name;
  if (!is_plain_name(name))
    return Error{Errc::kInvalid, file +
                                     ": is not called after a data set; allowed: NAME.toml, NAME of letters, digits "
                                     "and . _ + -"};
  DL_TRY(read_keys(table, kSetKeys, file, "", &set));
  if (set.path.empty() && set.source.empty())
    return Error{Errc::kInvalid, file + ": says nowhere where the data are; allowed: source, path, or both"};
  Source source = set.as_source();
  Status good = check_source(&source);
  if (good && place_of(source.from) == Place::kCatalogue)
    good = Error{Errc::kInvalid, "names another data set; allowed: a path, NAME:PATH or an https URL"};
  if (!good) return std::move(good).error().with_context(file);
  return set;
}

std::vector<DataSet> load_data_sets(const std::vector<std::string>& folders, std::vector<std::string>* faults) {
  std::map<std::string, DataSet> sets;
  for (const std::string& folder : folders)
    if (Status added = add_folder(folder, &sets, faults); !added) faults->push_back(std::move(added).error().text);
  std::vector<DataSet> all;
  all.reserve(sets.size());
  for (auto& [name, set] : sets) all.push_back(std::move(set));
  return all;
}

std::vector<std::string> catalogue_folders(const SiteData& site, const std::string& config_path) {
  if (!site.catalogue.empty()) return site.catalogue;
  const size_t slash = config_path.rfind('/');
  return {(slash == std::string::npos ? std::string(".") : config_path.substr(0, slash)) + "/datasets.d"};
}

Status resolve_names(const std::vector<std::string>& folders, const std::string& tenant, std::vector<Source>* sources) {
  std::vector<std::string> faults, names;
  std::vector<DataSet> sets;
  bool read = false;
  for (Source& asked : *sources) {
    if (place_of(asked.from) != Place::kCatalogue) continue;
    if (!std::exchange(read, true)) sets = load_data_sets(folders, &faults);
    const std::string name = asked.from.substr(1);
    const auto found = std::find_if(sets.begin(), sets.end(), [&](const DataSet& set) { return set.name == name; });
    if (found == sets.end()) {
      for (const std::string& fault : faults)
        if (fault.find("/" + name + std::string(kTomlEnd)) != std::string::npos) return Error{Errc::kInvalid, fault};
      for (const DataSet& set : sets) names.push_back("@" + set.name);
      return Error{Errc::kNotFound,
                   fmt::format("'{}' is not in the site's catalogue; allowed: {}", asked.from,
                               names.empty() ? "a place, since the catalogue is empty" : join(names, ", "))};
    }
    const auto& may = found->tenants;
    if (!may.empty() && !tenant.empty() && std::find(may.begin(), may.end(), tenant) == may.end())
      return Error{Errc::kDenied, fmt::format("'{}' is not for tenant '{}'; allowed: a job of the account {}",
                                              asked.from, printable(tenant), join(may, ", "))};
    Source source = found->as_source();
    source.to = asked.to;
    asked = std::move(source);
  }
  return {};
}

}  // namespace data
}  // namespace dl
