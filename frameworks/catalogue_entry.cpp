// SPDX-License-Identifier: Apache-2.0
// Reads one catalogue entry from TOML. Unknown keys and values are refused with their place, because an admin writes an
// entry once, and it then decides how everybody's jobs start.
#include <algorithm>
#include <set>

#include "common/base/parse.h"
#include "common/contract/metric_patterns.h"
#include "common/site/toml_text.h"
#include "frameworks/catalogue.h"
#include "frameworks/families.h"
#include "frameworks/placeholders.h"

namespace dl {
namespace {

constexpr size_t kMaxVersions = 256;
constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxLine = 8192;
constexpr int kMaxPorts = 64;

// Reads the keys of one table and remembers which ones were asked for, so that all others can be refused.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string file, std::string prefix)
      : table_(table), file_(std::move(file)), prefix_(std::move(prefix)) {}

  // kInvalid "FILE:LINE: KEY: text"
  Error fault(const toml::node& node, const std::string& key, const std::string& text) const {
    return Error{Errc::kInvalid,
                 file_ + ":" + std::to_string(node.source().begin.line) + ": " + prefix_ + key + ": " + text};
  }

  // nullptr if the key is absent.
  const toml::node* get(const std::string& key) {
    asked_.insert(key);
    return table_.get(key);
  }

  // Leaves *out as it is if the key is absent. Control characters are refused, except line breaks and tabs if `lines`
  // is true.
  Status text(const std::string& key, bool lines, std::string* out) {
    const toml::node* node = get(key);
    if (node == nullptr) return {};
    const auto value = node->value_exact<std::string>();
    if (!value) return fault(*node, key, "must be a text in quotation marks");
    if (value->size() > kMaxText)
      return fault(*node, key, "is longer than " + std::to_string(kMaxText) + " bytes; allowed: up to that length");
    for (const char c : *value) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && !(lines && (c == '\n' || c == '\t'))) || byte == 0x7f) {
        return fault(*node, key, "holds a control character; allowed: printable text");
      }
    }
    *out = *value;
    return {};
  }

  Status boolean(const std::string& key, bool* out) {
    const toml::node* node = get(key);
    if (node == nullptr) return {};
    const auto value = node->value_exact<bool>();
    if (!value) return fault(*node, key, "must be true or false");
    *out = *value;
    return {};
  }

  Status integer(const std::string& key, int least, int most, int* out) {
    const toml::node* node = get(key);
    if (node == nullptr) return {};
    const auto value = node->value_exact<int64_t>();
    if (!value || *value < least || *value > most) {
      return fault(*node, key, "must be a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    *out = static_cast<int>(*value);
    return {};
  }

  // To be called after all keys have been asked for: refuses the others.
  Status refuse_others() const {
    for (const auto& [key, node] : table_) {
      if (asked_.count(std::string(key.str())) != 0) continue;
      std::string allowed;
      for (const std::string& name : asked_) allowed += (allowed.empty() ? "" : ", ") + name;
      return fault(node, printable(key.str()), "unknown key; allowed: " + allowed);
    }
    return {};
  }

  const std::string& file() const { return file_; }

 private:
  const toml::table& table_;
  std::string file_;
  std::string prefix_;
  std::set<std::string> asked_;
};

bool is_variable_name(const std::string& name) {
  if (name.empty() || name.size() > 256 || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The families must have been read before.
Status read_environment(TableReader* reader, const FrameworkEntry& entry, std::map<std::string, std::string>* out) {
  const toml::node* node = reader->get("environment");
  if (node == nullptr) return {};
  const toml::table* table = node->as_table();
  if (table == nullptr) return reader->fault(*node, "environment", "must be a table of NAME = \"value\"");
  if (table->size() > kMaxVariables)
    return reader->fault(*node, "environment",
                         "has " + std::to_string(table->size()) + " variables; allowed: up to 256");
  for (const auto& [key, item] : *table) {
    const std::string name(key.str());
    const auto value = item.value_exact<std::string>();
    if (!is_variable_name(name)) {
      return reader->fault(
          item, "environment." + printable(name),
          "is not the name of an environment variable; allowed: letters, digits and _, not beginning with a digit");
    }
    if (!value) return reader->fault(item, "environment." + name, "must be a text in quotation marks");
    if (value->size() > kMaxText || value->find('\0') != std::string::npos) {
      return reader->fault(item, "environment." + name,
                           "is longer than 4096 bytes, or holds a zero byte; allowed: up to 4096 bytes of text");
    }
    const Status known = check_placeholders(*value);
    if (!known) return reader->fault(item, "environment." + name, known.error().text);
    const auto& families = entry.families;
    if (placeholders_need_peers(*value) && std::find(families.begin(), families.end(), "peers") == families.end()) {
      return reader->fault(
          item, "environment." + name,
          "%{peer}, %{peers} and %{port} need a port held for each learner: add \"peers\" to families");
    }
    (*out)[name] = *value;
  }
  return {};
}

Status read_families(TableReader* reader, FrameworkEntry* entry) {
  const toml::node* node = reader->get("families");
  if (node == nullptr) return {};
  const std::vector<std::string> known = family_names();
  std::string allowed;
  for (const std::string& name : known) {
    if (name != "dl") allowed += (allowed.empty() ? "" : ", ") + name;
  }
  const toml::array* list = node->as_array();
  if (list == nullptr) return reader->fault(*node, "families", "must be a list of texts; allowed: " + allowed);
  for (const toml::node& item : *list) {
    const auto value = item.value_exact<std::string>();
    if (!value || *value == "dl" || std::find(known.begin(), known.end(), *value) == known.end()) {
      return reader->fault(item, "families",
                           (value ? "'" + printable(*value) + "'" : std::string("an item")) +
                               " is not an environment family; allowed: " + allowed);
    }
    if (std::find(entry->families.begin(), entry->families.end(), *value) != entry->families.end()) {
      return reader->fault(item, "families", "'" + *value + "' is listed twice; allowed: once");
    }
    entry->families.push_back(*value);
  }
  return {};
}

Status read_metrics(TableReader* reader, FrameworkEntry* entry) {
  const toml::node* node = reader->get("metrics");
  if (node == nullptr) return {};
  const toml::table* table = node->as_table();
  if (table == nullptr) return reader->fault(*node, "metrics", "must be a table, headed [metrics]");
  TableReader inner(*table, reader->file(), "metrics.");
  if (const toml::node* patterns = inner.get("patterns")) {
    const toml::array* list = patterns->as_array();
    if (list == nullptr || list->size() > kMostPatterns)
      return inner.fault(*patterns, "patterns",
                         "must be a list of up to " + std::to_string(kMostPatterns) + " expressions");
    for (const toml::node& item : *list) {
      const auto value = item.value_exact<std::string>();
      if (!value) return inner.fault(item, "patterns", "must be a list of texts");
      if (auto expanded = expand_pattern(*value); !expanded)
        return inner.fault(item, "patterns", expanded.error().text);
      entry->metrics.push_back(*value);
    }
  }
  return inner.refuse_others();
}

Status read_version(const toml::table& table, const std::string& file, FrameworkEntry* entry) {
  TableReader reader(table, file, "versions.");
  FrameworkVersion version;
  const toml::node* name = reader.get("version");
  if (name == nullptr)
    return reader.fault(table, "version", "is missing; needed: version = \"...\" in each [[versions]]");
  DL_TRY(reader.text("version", false, &version.version));
  if (!is_plain_name(version.version)) {
    return reader.fault(
        *name, "version",
        "'" + printable(version.version) + "' is not a plain name; allowed: 1 to 64 of A-Z a-z 0-9 . _ + -");
  }
  for (const FrameworkVersion& other : entry->versions) {
    if (other.version == version.version) {
      return reader.fault(*name, "version", "'" + version.version + "' is listed twice; allowed: once");
    }
  }
  DL_TRY(reader.boolean("hidden", &version.hidden));
  DL_TRY(reader.text("activate", true, &version.activate));
  DL_TRY(read_environment(&reader, *entry, &version.environment));
  version.environment.insert(entry->environment.begin(), entry->environment.end());
  DL_TRY(reader.refuse_others());
  entry->versions.push_back(std::move(version));
  return {};
}

Status read_versions(TableReader* reader, FrameworkEntry* entry) {
  const toml::node* node = reader->get("versions");
  if (node == nullptr) return {};
  const toml::array* list = node->as_array();
  if (list == nullptr) return reader->fault(*node, "versions", "must be tables, each headed [[versions]]");
  if (list->size() > kMaxVersions)
    return reader->fault(*node, "versions", "has " + std::to_string(list->size()) + " items; allowed: up to 256");
  for (const toml::node& item : *list) {
    const toml::table* table = item.as_table();
    if (table == nullptr) return reader->fault(item, "versions", "must be tables, each headed [[versions]]");
    DL_TRY(read_version(*table, reader->file(), entry));
  }
  return {};
}

}  // namespace

Result<FrameworkEntry> Catalogue::parse_entry(const std::string& text, const std::string& file_name) {
  FrameworkEntry entry;
  const size_t slash = file_name.rfind('/');
  entry.name = slash == std::string::npos ? file_name : file_name.substr(slash + 1);
  const std::string suffix = ".toml";
  if (entry.name.size() > suffix.size() && entry.name.substr(entry.name.size() - suffix.size()) == suffix) {
    entry.name.resize(entry.name.size() - suffix.size());
  }
  if (!is_plain_name(entry.name)) {
    return Error{Errc::kInvalid, printable(file_name, 400) +
                                     ": the file's name is the framework's and must be 1 to 64 of "
                                     "A-Z a-z 0-9 . _ + - before .toml"};
  }

  // This bounds the depth of dotted keys, because the stacks of slurmctld's threads are small.
  for (const std::string& line : split(text, '\n')) {
    if (line.size() > kMaxLine)
      return Error{Errc::kInvalid, file_name + ": a line is longer than 8192 bytes: '" + printable(line.substr(0, 40)) +
                                       "...'; allowed: shorter lines"};
  }
  DL_TRY_ASSIGN(const toml::table table, parse_toml(text, file_name));
  TableReader reader(table, file_name, "");
  DL_TRY(reader.text("summary", false, &entry.summary));
  DL_TRY(read_families(&reader, &entry));
  DL_TRY(reader.text("launch", false, &entry.launch));
  if (entry.launch != "agent" && entry.launch != "mpi") {
    return reader.fault(*table.get("launch"), "launch",
                        "'" + printable(entry.launch) + "' is not allowed; allowed: agent, mpi");
  }
  DL_TRY(reader.boolean("pmix", &entry.pmix));
  DL_TRY(reader.integer("ports", 0, kMaxPorts, &entry.ports));
  DL_TRY(reader.boolean("hold_ports", &entry.hold_ports));
  DL_TRY(reader.text("store", false, &entry.store));
  if (entry.store != "learner" && entry.store != "launcher") {
    return reader.fault(*table.get("store"), "store",
                        "'" + printable(entry.store) + "' is not allowed; allowed: launcher, learner");
  }
  DL_TRY(read_metrics(&reader, &entry));
  DL_TRY(reader.text("probe", true, &entry.probe));
  DL_TRY(reader.text("default_version", false, &entry.default_version));
  DL_TRY(read_environment(&reader, entry, &entry.environment));
  DL_TRY(read_versions(&reader, &entry));
  DL_TRY(reader.refuse_others());

  if (entry.versions.empty()) {
    if (const toml::node* node = table.get("default_version")) {
      return reader.fault(
          *node, "default_version",
          "is given, but the entry has no [[versions]]; allowed: a table [[versions]] with it, or no default_version");
    }
    return entry;
  }
  if (entry.default_version.empty()) entry.default_version = entry.versions.front().version;
  const bool found = std::any_of(entry.versions.begin(), entry.versions.end(), [&](const FrameworkVersion& version) {
    return version.version == entry.default_version;
  });
  if (!found) {
    return reader.fault(*table.get("default_version"), "default_version",
                        "'" + printable(entry.default_version) +
                            "' is the version of none of the [[versions]]; allowed: one that they list");
  }
  return entry;
}

}  // namespace dl
