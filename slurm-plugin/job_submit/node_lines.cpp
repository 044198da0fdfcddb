// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/node_lines.h"

#include <strings.h>

#include <algorithm>
#include <cctype>

#include "common/base/hostlist.h"
#include "common/base/parse.h"

namespace dl {
namespace {

constexpr int kMostFiles = 64;
constexpr size_t kMostNodes = 200000;  // in all lines
constexpr int64_t kMostGpus = 1000000;
constexpr const char* kBlanks = " \t\r\n\v\f";

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}
bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

// The line without its comment: what follows a '#' with an even number of backslashes before it.
std::string_view without_comment(std::string_view line) {
  size_t backslashes = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && backslashes % 2 == 0) return line.substr(0, i);
    backslashes = line[i] == '\\' ? backslashes + 1 : 0;
  }
  return line;
}

// Removes the backslash by which a line is continued in the next. False: it has none.
bool strip_continuation(std::string* line) {
  const size_t last = line->find_last_not_of(kBlanks);
  if (last == std::string::npos || (*line)[last] != '\\') return false;
  const size_t before = line->find_last_not_of('\\', last);
  const size_t backslashes = last - (before == std::string::npos ? static_cast<size_t>(-1) : before);
  if (backslashes % 2 == 0) return false;
  line->resize(last);
  return true;
}

// "key = value" pairs; a value may be quoted.
struct Pair {
  std::string key, value;
};

// Takes the next pair from *line. False, with *line unchanged: it does not begin with one. An operator ("Gres+=")
// counts as none, since its meaning is not known here.
bool take_pair(std::string_view* line, Pair* pair) {
  std::string_view rest = *line;
  const auto skip = [&rest] { rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size())); };
  skip();
  size_t end = 0;
  while (end < rest.size() &&
         (std::isalnum(static_cast<unsigned char>(rest[end])) != 0 || rest[end] == '_' || rest[end] == '.'))
    ++end;
  if (end == 0) return false;
  pair->key = std::string(rest.substr(0, end));
  rest.remove_prefix(end);
  skip();
  if (rest.empty() || rest.front() != '=') return false;
  rest.remove_prefix(1);
  skip();
  if (rest.empty()) return false;
  if (rest.front() == '"') {
    const size_t close = rest.find('"', 1);
    if (close == std::string_view::npos) return false;
    pair->value = std::string(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
    if (!rest.empty() && !is_blank(rest.front())) return false;
  } else {
    const size_t stop = std::min(rest.find_first_of(kBlanks), rest.size());
    pair->value = std::string(rest.substr(0, stop));
    rest.remove_prefix(stop);
  }
  *line = rest;
  return true;
}

// "4K": Slurm multiplies, so this is no type.
bool is_number_with_unit(std::string_view text) {
  return text.size() > 1 && text.find_first_not_of("0123456789") == text.size() - 1 &&
         std::string_view("kKmMgGtTpP").find(text.back()) != std::string_view::npos;
}

// The GPUs in a list of GRES such as "gpu:a100:4,gpu:2,lustre:no_consume:4G". None: not understood.
std::optional<std::map<std::string, int64_t>> gpus_in(const std::string& gres) {
  std::map<std::string, int64_t> gpus;
  if (gres.find_first_of("(\\") != std::string::npos) return std::nullopt;
  for (const std::string& item : split(gres, ',')) {
    const std::vector<std::string> fields = split(trim(item), ':');
    if (fields.empty() || !same(fields[0], "gpu")) {
      if (same(std::string_view(item).substr(0, 3), "gpu")) return std::nullopt;
      continue;
    }
    std::string type;
    int64_t count = 1;
    if (fields.size() > 3) return std::nullopt;
    if (fields.size() > 1) {
      const auto number = parse_int(fields.back(), 0, kMostGpus);
      if (number)
        count = *number;
      else if (fields.size() == 3 || is_number_with_unit(fields.back()))
        return std::nullopt;
      if (fields.size() == 3 || !number) type = fields[1];
      if (!type.empty() && (!is_plain_name(type) || same(type, "no_consume"))) return std::nullopt;
    }
    gpus[type] += count;
  }
  return gpus;
}

class Reader {
 public:
  explicit Reader(const ReadFile& read) : read_(read) {}

  NodeLines lines(const std::string& path) {
    folder_ = folder_of(path);
    read_file(path);
    NodeLines lines;
    lines.complete = known_ && !kinds_.empty();
    for (auto& [gpus, nodes] : kinds_) lines.kinds.push_back({nodes, gpus});
    return lines;
  }

 private:
  void read_file(const std::string& path) {
    if (++files_ > kMostFiles) known_ = false;
    if (!known_) return;
    const auto text = read_(path);
    if (!text) {
      known_ = false;
      return;
    }
    std::string whole;
    size_t at = 0;
    while (at < text->size() && known_) {
      const size_t end = std::min(text->find('\n', at), text->size());
      whole += without_comment(std::string_view(*text).substr(at, end - at));
      at = end + 1;
      if (strip_continuation(&whole) && at < text->size()) continue;
      read_line(path, whole);
      whole.clear();
    }
  }

  void read_line(const std::string& path, std::string_view line) {
    constexpr std::string_view kInclude = "include";
    if (line.size() > kInclude.size() && same(line.substr(0, kInclude.size()), kInclude) &&
        is_blank(line[kInclude.size()])) {
      std::string_view name = trim(line.substr(kInclude.size()));
      name = name.substr(0, name.find_first_of(kBlanks));
      // %c is the name of the cluster.
      if (name.empty() || name.find_first_of("%\\") != std::string_view::npos) {
        known_ = false;
        return;
      }
      if (name.front() == '/') return read_file(std::string(name));
      // Slurm 22.05 takes the folder of the file that has the line, newer versions that of slurm.conf.
      if (folder_of(path) == folder_) return read_file(folder_ + std::string(name));
      known_ = false;
      return;
    }
    // Of a line that is not about nodes Slurm reads only the first pair.
    Pair pair;
    std::string_view rest = line;
    const bool is_pair = take_pair(&rest, &pair);
    const std::string key(trim(line.substr(0, line.find_first_of("=+-*/"))));
    if (same(key, "MaxNodeCount") || same(key, "NodeFeaturesPlugins")) known_ = false;
    if (!same(key, "NodeName")) return;
    if (is_pair)
      read_nodes(pair.value, rest);
    else
      known_ = false;
  }

  void read_nodes(const std::string& names, std::string_view rest) {
    std::optional<std::string> gres;
    Pair pair;
    while (take_pair(&rest, &pair))
      if (same(pair.key, "Gres")) gres = pair.value;
    if (!trim(rest).empty()) {
      known_ = false;
      return;
    }
    if (same(names, "DEFAULT")) {
      if (gres) default_gres_ = *gres;
      return;
    }
    const auto gpus = gpus_in(gres.value_or(default_gres_));
    const auto hosts = expand_hostlist(names, kMostNodes - nodes_);
    if (!gpus || !hosts) {
      known_ = false;
      return;
    }
    nodes_ += hosts->size();
    kinds_[*gpus] += static_cast<int64_t>(hosts->size());
  }

  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

  const ReadFile& read_;
  std::string folder_;  // of slurm.conf
  bool known_ = true;
  int files_ = 0;
  size_t nodes_ = 0;
  std::string default_gres_;
  std::map<std::map<std::string, int64_t>, int64_t> kinds_;  // number of nodes by their GPUs
};

// The GPUs of one such node that a request for this type may get. A node may have a type that only its gres.conf names,
// so GPUs without a type count for every one.
int64_t gpus_of(const GpuNodes& kind, const std::string& type) {
  int64_t gpus = 0;
  for (const auto& [its, count] : kind.gpus)
    if (type.empty() || its.empty() || its == type) gpus += count;
  return gpus;
}

}  // namespace

NodeLines read_node_lines(const std::string& slurm_conf, const ReadFile& read) {
  return Reader(read).lines(slurm_conf);
}

int64_t most_learners(const NodeLines& lines, int64_t count, const std::string& type) {
  if (!lines.complete || largest_node(lines, type) == 0) return -1;
  int64_t learners = 0;
  for (const GpuNodes& kind : lines.kinds) learners += kind.nodes * (gpus_of(kind, type) / count);
  return learners;
}

int64_t largest_node(const NodeLines& lines, const std::string& type) {
  int64_t largest = 0;
  for (const GpuNodes& kind : lines.kinds) largest = std::max(largest, gpus_of(kind, type));
  return largest;
}

}  // namespace dl
