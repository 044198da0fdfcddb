// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <set>
#include <unordered_map>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {
namespace {

constexpr size_t kMostBytes = size_t{2} << 30;
constexpr size_t kLongestLine = 64 * 1024;

Error invalid(std::string text) {
  return Error{Errc::kInvalid, std::move(text)};
}

std::string field_names() {
  std::string names;
  for (const TraceField& field : trace_fields()) names += (names.empty() ? "" : ", ") + std::string(field.name);
  return names;
}

int find_field(std::string_view name) {
  const auto& fields = trace_fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const TraceField& f) { return f.name == name; });
  return found == fields.end() ? -1 : static_cast<int>(found - fields.begin());
}

Status set_field(size_t field, std::string_view text, TraceJob* job) {
  const TraceField& row = trace_fields()[field];
  if (Status set = row.parse(text, job); !set) return std::move(set).error().with_context(std::string(row.name));
  return {};
}

// The fields of one line of CSV. Quotes are as in RFC 4180, but a quoted field cannot contain a line break.
Result<std::vector<std::string>> split_csv(std::string_view line) {
  std::vector<std::string> fields;
  for (size_t i = 0;; ++i) {
    std::string field;
    if (i < line.size() && line[i] == '"') {
      for (++i;; ++i) {
        if (i >= line.size())
          return invalid("a quoted field has no end; allowed: \"text\", with \"\" for a quote in it");
        if (line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"')
          ++i;
        else if (line[i] == '"')
          break;
        field += line[i];
      }
      ++i;
      if (i < line.size() && line[i] != ',')
        return invalid("text follows a quoted field; allowed: a comma or the end of the line");
    } else {
      const size_t end = std::min(line.find(',', i), line.size());
      field = trim(line.substr(i, end - i));
      i = end;
    }
    fields.push_back(std::move(field));
    if (i >= line.size()) return fields;
  }
}

class CsvLines {
 public:
  // Reads the heading: names of fields, in any order.
  Status heading(std::string_view line) {
    DL_TRY_ASSIGN(const std::vector<std::string> names, split_csv(line));
    for (const std::string& name : names) {
      const int field = find_field(name);
      if (field < 0)
        return invalid(fmt::format("heading: '{}' is not a field; allowed: {}", printable(name), field_names()));
      if (std::find(columns_.begin(), columns_.end(), static_cast<size_t>(field)) != columns_.end())
        return invalid(fmt::format("heading: '{}' is given twice; allowed: once", name));
      columns_.push_back(static_cast<size_t>(field));
    }
    for (size_t i = 0; i < trace_fields().size(); ++i) {
      if (trace_fields()[i].required && std::find(columns_.begin(), columns_.end(), i) == columns_.end())
        return invalid(fmt::format("heading: field '{}' is missing; needed: id, submit, tenant, gpus, run",
                                   trace_fields()[i].name));
    }
    return {};
  }

  Result<TraceJob> read(std::string_view line) const {
    DL_TRY_ASSIGN(const std::vector<std::string> texts, split_csv(line));
    if (texts.size() != columns_.size())
      return invalid(fmt::format("the line has {} fields; the heading has {}", texts.size(), columns_.size()));
    TraceJob job;
    for (size_t i = 0; i < texts.size(); ++i) {
      // An empty field counts as not given.
      if (texts[i].empty() && !trace_fields()[columns_[i]].required) continue;
      DL_TRY(set_field(columns_[i], texts[i], &job));
    }
    return job;
  }

 private:
  std::vector<size_t> columns_;
};

Result<TraceJob> read_json(std::string_view line) {
  // A job needs a depth of 2. Json::parse() itself bounds how deep hostile input may nest.
  const auto object = Json::parse(line);
  if (!object.is_object()) return invalid("is not a JSON object; allowed: {\"id\": 1, \"submit\": 0, ...} on one line");
  TraceJob job;
  std::vector<char> given(trace_fields().size());
  for (const auto& [name, value] : object.members()) {
    const int field = find_field(name);
    if (field < 0) return invalid(fmt::format("'{}' is not a field; allowed: {}", printable(name), field_names()));
    std::string text;
    if (value.is_string()) {
      text = value.get<std::string>();
    } else if (value.is_number_integer()) {
      text = value.dump_sorted();
    } else {
      return invalid(fmt::format("{}: {} is not accepted; allowed: a whole number or a text in quotes", name,
                                 printable(value.dump_ascii(), 40)));
    }
    DL_TRY(set_field(static_cast<size_t>(field), text, &job));
    given[static_cast<size_t>(field)] = 1;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (trace_fields()[i].required && !given[i])
      return invalid(
          fmt::format("field '{}' is missing; needed: id, submit, tenant, gpus, run", trace_fields()[i].name));
  }
  return job;
}

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  Status line(std::string_view line) {
    ++number_;
    if (line.size() > kLongestLine) return at(invalid(fmt::format("the line is longer than {} bytes", kLongestLine)));
    line = trim(line);
    if (number_ == 1 && line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);  // a byte order mark
    if (line.empty() || line.front() == '#') return {};
    if (!begun_) {
      begun_ = true;
      json_ = line.front() == '{';
      if (!json_) {
        if (Status heading = csv_.heading(line); !heading) return at(std::move(heading).error());
        return {};
      }
    }
    Result<TraceJob> job = json_ ? read_json(line) : csv_.read(line);
    if (!job) return at(std::move(job).error());
    const auto [before, is_new] = line_of_id_.emplace(job->id, number_);
    if (!is_new)
      return at(invalid(fmt::format("id: {} is also in line {}; allowed: each once", job->id, before->second)));
    trace_.jobs.push_back(std::move(*job));
    return {};
  }

  Result<Trace> end() {
    if (trace_.jobs.empty()) return invalid(fmt::format("{}: has no job; allowed: one or more", name_));
    std::sort(trace_.jobs.begin(), trace_.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
      return a.submit_s != b.submit_s ? a.submit_s < b.submit_s : a.id < b.id;
    });
    return std::move(trace_);
  }

 private:
  Error at(Error error) const { return std::move(error).with_context(fmt::format("{}:{}", name_, number_)); }

  std::string name_;
  size_t number_ = 0;
  bool begun_ = false;
  bool json_ = false;
  CsvLines csv_;
  std::unordered_map<int64_t, size_t> line_of_id_;
  Trace trace_;
};

template <typename Field>
std::vector<std::string> names_of(const std::vector<TraceJob>& jobs, Field field) {
  std::set<std::string> names;
  for (const TraceJob& job : jobs) names.insert(job.*field);
  names.erase("");
  return {names.begin(), names.end()};
}

}  // namespace

std::vector<std::string> Trace::tenants() const {
  return names_of(jobs, &TraceJob::tenant);
}
std::vector<std::string> Trace::types() const {
  return names_of(jobs, &TraceJob::type);
}

Result<Trace> parse_trace(std::string_view text, const std::string& name) {
  Reader reader(printable(name, 200));
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    DL_TRY(reader.line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.end();
}

Result<Trace> read_trace(const std::string& path) {
  const bool standard = path == "-";
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> opened(standard ? nullptr : std::fopen(path.c_str(), "re"), close);
  if (!standard && !opened) return errno_error("open " + printable(path, 200), errno);
  std::FILE* file = standard ? stdin : opened.get();
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), file)) {
    text.append(buffer.data(), n);
    if (text.size() > kMostBytes)
      return invalid(fmt::format("{}: the trace is longer than {}, the most that is read", printable(path),
                                 format_bytes(kMostBytes)));
  }
  if (std::ferror(file)) return errno_error("read " + printable(path, 200), errno);
  return parse_trace(text, standard ? "standard input" : path);
}

}  // namespace dl::sim
