// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/sources_file.h"

#include <fmt/core.h>

#include <cstdint>
#include <filesystem>

#include "common/base/atomic_file.h"
#include "common/json/json.h"

namespace dl::record {
namespace {

constexpr int kSourcesVersion = 1;
constexpr size_t kMostSourceBytes = 1 << 20;

Result<data::Source> source_of(const Json& item, const std::string& name) {
  data::Source source;
  source.from = item.at("from").get<std::string>();
  source.to = item.value("to", std::string());
  source.checksum = item.value("checksum", std::string());
  auto cache = data::parse_cache(item.value("cache", std::string("node")));
  if (!cache) return std::move(cache).error().with_context(name);
  source.cache = *cache;
  return source;
}

}  // namespace

std::string format_sources(const std::vector<data::Source>& sources) {
  Json list = Json::array();
  for (const data::Source& source : sources)
    list.push_back({{"from", source.from},
                    {"to", source.to},
                    {"cache", data::cache_name(source.cache)},
                    {"checksum", source.checksum}});
  Json file = Json::object();
  file["version"] = kSourcesVersion;
  file["sources"] = std::move(list);
  return file.dump() + "\n";
}

Result<std::vector<data::Source>> parse_sources(const std::string& text, const std::string& name) {
  try {
    const Json file = Json::parse(text);
    if (file.is_broken() || !file.is_object()) return Error{Errc::kInvalid, name + ": is not a file of sources"};
    if (file.value("version", 0) > kSourcesVersion)
      return Error{Errc::kUnsupported, name + ": was written by a later version of slurm-dl"};
    std::vector<data::Source> sources;
    for (const Json& item : file.at("sources")) {
      DL_TRY_ASSIGN(data::Source source, source_of(item, name));
      sources.push_back(std::move(source));
    }
    if (Status good = data::check_sources(&sources); !good) return std::move(good).error().with_context(name);
    return sources;
  } catch (const JsonError& wrong) {
    return Error{Errc::kInvalid, name + ": " + wrong.what()};
  }
}

Status write_sources(const std::string& path, const std::vector<data::Source>& sources) {
  return replace_file(path, format_sources(sources), 0600);
}

Result<std::vector<data::Source>> read_sources(const std::string& path) {
  DL_TRY_ASSIGN(const std::string text, read_small_file(path, kMostSourceBytes));
  return parse_sources(text, path);
}

void make_absolute(const std::string& base, const std::string& home, std::vector<data::Source>* sources) {
  for (data::Source& source : *sources) {
    if (data::place_of(source.from) != data::Place::kPath) continue;
    const bool at_home = source.from == "~" || source.from.rfind("~/", 0) == 0;
    const std::string path = at_home ? home + source.from.substr(1) : source.from;
    source.from = (std::filesystem::path(base) / path).lexically_normal().string();
    while (source.from.size() > 1 && source.from.back() == '/') source.from.pop_back();
  }
}

std::string prefetched(const std::string& cache, const std::vector<data::Source>& sources) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a: it only tells sets of one user apart
  for (const char c : format_sources(sources)) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return fmt::format("{}/prefetch/{:016x}", cache, hash);
}

}  // namespace dl::record
