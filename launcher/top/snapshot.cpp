// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/snapshot.h"

#include <limits>

namespace dl::top {
namespace {

constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();

Json numbers(const std::vector<plot::Sample>& samples, double plot::Sample::*member) {
  Json json = Json::array();
  for (const plot::Sample& sample : samples) json.push_back(Json(sample.*member));  // null if it is not finite
  return json;
}

Json chart_json(const plot::Chart& chart) {
  Json json = {{"title", chart.title}, {"axis", chart.axis}, {"notes", chart.notes}};
  json["curves"] = Json::array();
  for (const plot::Curve& curve : chart.curves)
    json["curves"].push_back({{"name", curve.name},
                              {"note", curve.note},
                              {"x", numbers(curve.samples, &plot::Sample::x)},
                              {"y", numbers(curve.samples, &plot::Sample::y)}});
  json["marks"] = Json::array();
  for (const plot::Mark& mark : chart.marks)
    json["marks"].push_back({{"x", mark.x}, {"name", mark.name}, {"text", mark.text}});
  return json;
}

plot::Chart chart_of(const Json& json) {
  plot::Chart chart;
  chart.title = json.at("title").text();
  chart.axis = json.at("axis").text();
  chart.notes = json.at("notes").get<std::vector<std::string>>();
  for (const Json& item : json.at("curves")) {
    plot::Curve curve{item.at("name").text(), item.at("note").text(), {}};
    const Json &x = item.at("x"), &y = item.at("y");
    if (x.size() != y.size()) throw JsonError("a curve has no y for each x");
    for (size_t i = 0; i < x.size(); ++i)
      curve.samples.push_back(
          {x[i].is_null() ? kNotFinite : x[i].get<double>(), y[i].is_null() ? kNotFinite : y[i].get<double>()});
    chart.curves.push_back(std::move(curve));
  }
  for (const Json& item : json.at("marks"))
    chart.marks.push_back({item.at("x").get<double>(), item.at("name").text(), item.at("text").text()});
  return chart;
}

}  // namespace

Json detail_json(const Detail& detail) {
  Json json = {{"id", detail.id},
               {"dir", detail.dir},
               {"checkpoint", detail.checkpoint},
               {"no_chart", detail.no_chart},
               {"log_name", detail.log_name},
               {"log", detail.log}};
  json["events"] = Json::array();
  for (const DetailEvent& event : detail.events) {
    Json item = {
        {"time_ms", event.time_ms}, {"attempt", event.attempt}, {"state", event.state}, {"reason", event.reason}};
    if (event.step) item["step"] = *event.step;
    json["events"].push_back(std::move(item));
  }
  if (detail.chart) json["chart"] = chart_json(*detail.chart);
  return json;
}

Result<Detail> detail_of(const Json& json) {
  try {
    Detail detail;
    detail.id = json.at("id").text();
    detail.dir = json.at("dir").text();
    detail.checkpoint = json.at("checkpoint").text();
    detail.no_chart = json.at("no_chart").text();
    detail.log_name = json.at("log_name").text();
    detail.log = json.at("log").get<std::vector<std::string>>();
    for (const Json& item : json.at("events")) {
      DetailEvent event{item.at("time_ms").get<int64_t>(),
                        item.at("attempt").get<int>(),
                        item.at("state").text(),
                        item.at("reason").text(),
                        {}};
      if (const Json* step = item.find("step")) event.step = step->get<int64_t>();
      detail.events.push_back(std::move(event));
    }
    if (const Json* chart = json.find("chart")) detail.chart = chart_of(*chart);
    return detail;
  } catch (const JsonError& error) {
    return Error{Errc::kInvalid, std::string("a job opened in dlctl top: ") + error.what()};
  }
}

std::string line_of(const Snapshot& snapshot) {
  Json json = {{"time_ms", snapshot.time_ms}, {"slurm_ms", snapshot.slurm_ms}, {"problem", snapshot.problem}};
  json["rows"] = Json::array();
  for (const Row& row : snapshot.rows) json["rows"].push_back(row_json(row));
  if (snapshot.detail) json["detail"] = detail_json(*snapshot.detail);
  return json.dump();
}

Result<Snapshot> snapshot_of(const std::string& line) {
  const Json json = Json::parse(line);
  if (!json.is_object()) return Error{Errc::kInvalid, "a look of dlctl top is no line of JSON"};
  try {
    Snapshot snapshot;
    snapshot.time_ms = json.at("time_ms").get<int64_t>();
    snapshot.slurm_ms = json.at("slurm_ms").get<int64_t>();
    snapshot.problem = json.at("problem").text();
    for (const Json& item : json.at("rows")) {
      DL_TRY_ASSIGN(Row row, row_of(item));
      snapshot.rows.push_back(std::move(row));
    }
    if (const Json* detail = json.find("detail")) {
      DL_TRY_ASSIGN(snapshot.detail, detail_of(*detail));
    }
    return snapshot;
  } catch (const JsonError& error) {
    return Error{Errc::kInvalid, std::string("a look of dlctl top: ") + error.what()};
  }
}

}  // namespace dl::top
