// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/page.h"

#include "launcher/plot/page_plot.h"
#include "launcher/report/section.h"
#include "launcher/report/timeline.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

struct Section {
  const char* title;  // nullptr: the head of the page, which has its own
  WriteSection write;
};
// THE table of sections, in their order on the page.
constexpr Section kSections[] = {{nullptr, write_what_ran},
                                 {"States and attempts", write_course},
                                 {"Curves", write_curves},
                                 {"Use of the machine", write_use},
                                 {"Learners and nodes", write_learners},
                                 {"Failures", write_failures},
                                 {"Last lines", write_last_lines},
                                 {"Events", write_events},
                                 {"Checkpoints", write_checkpoints},
                                 {"How to run it again", write_reproduce}};

constexpr size_t kMostNotKnown = 20;
constexpr size_t kRoomForEnd = 64 << 10;  // for what follows the sections, and their titles

// Colours are variables, so that a screen may be dark while paper stays light.
constexpr char kStyles[] =
    ":root{color-scheme:light;--paper:#fff;--ink:#1f2328;--soft:#59636e;--grid:#d1d9e0;--rise:#f3f5f7;--link:#0072b2}\n"
    "@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--paper:#0d1117;--ink:#e6edf3;"
    "--soft:#9198a1;--grid:#3d444d;--rise:#171d25;--link:#4ba3dc}}\n"
    "*{box-sizing:border-box}html{-webkit-text-size-adjust:100%}"
    "body{margin:0 auto;max-width:64rem;padding:1.2rem 1.2rem 3rem;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}\n"
    "h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0;overflow-wrap:anywhere}"
    "h2{font-size:1.12rem;margin:2rem 0 .7rem;padding-bottom:.25rem;border-bottom:1px solid var(--grid);"
    "break-after:avoid}h3{font-size:.95rem;margin:1.1rem 0 .4rem;overflow-wrap:anywhere;break-after:avoid}"
    "p{margin:.3rem 0 .7rem;overflow-wrap:anywhere}.soft,footer{color:var(--soft);font-size:.88rem}"
    "footer{margin-top:2.4rem;padding-top:.6rem;border-top:1px solid var(--grid)}\n"
    ".badge{display:inline-block;margin-right:.6em;padding:.05em .6em;border-radius:1em;font-size:.85rem;"
    "font-weight:600;background:var(--rise);border:1px solid var(--grid)}"
    ".badge i{display:inline-block;width:.65em;height:.65em;margin-right:.45em;border-radius:50%}\n"
    "dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.22rem 1.2rem;margin:0 0 .8rem}"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto;margin:.3rem 0 .9rem}table{border-collapse:collapse;font-size:.88rem}"
    "th,td{text-align:left;vertical-align:top;padding:.28rem 1.5rem .28rem 0;border-bottom:1px solid var(--grid);"
    "white-space:nowrap}th{color:var(--soft);font-weight:500}"
    ".why{white-space:normal;min-width:19rem;overflow-wrap:anywhere}\n"
    "tr{break-inside:avoid}.n{text-align:right;font-variant-numeric:tabular-nums}.gap{color:var(--soft)}\n"
    "pre{margin:.2rem 0 .9rem;padding:.7rem .9rem;background:var(--rise);border:1px solid var(--grid);"
    "border-radius:6px;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;"
    "overflow-wrap:anywhere}\n"
    ".share{display:flex;height:1.1rem;margin:.4rem 0;border-radius:4px;overflow:hidden}.share i{display:block}\n"
    "@media (max-width:42rem){body{padding:.8rem .8rem 2rem}dl{grid-template-columns:minmax(0,1fr);gap:0}"
    "dd{margin-bottom:.45rem}}\n"
    "@media print{body{max-width:none;padding:0;font-size:11pt}*{print-color-adjust:exact;"
    "-webkit-print-color-adjust:exact}.wide{overflow:visible}td{white-space:normal}.why{min-width:0}h1{margin-top:0}}"
    "\n";

}  // namespace

std::string page_of(const ReportData& data) {
  const Course course = course_of(data.events, data.goes_on, data.now_ms);
  const Material of{data, course};
  Html html;
  html.markup(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>Job ");
  html.text(data.job, 60).markup(", ");
  html.text(data.state, 20).markup("</title>\n<style>\n").markup(kStyles);
  html.made(plot::page_plot_styles()).made(timeline_styles()).markup("</style>\n</head>\n<body>\n");
  for (const Section& section : kSections) {
    Html its;
    section.write(of, &its);
    if (its.size() == 0) continue;
    if (html.size() + its.size() > kMostPageBytes - kRoomForEnd) {
      its = Html();
      its.markup("<p>This section is left out, because the page would become too long.</p>\n");
    }
    html.markup("<section>");
    if (section.title != nullptr) html.markup("<h2>").text(section.title).markup("</h2>\n");
    html.made(its.take()).markup("</section>\n");
  }
  html.markup("<footer>");
  for (size_t i = 0; i < data.not_known.size() && i < kMostNotKnown; ++i) {
    html.markup("<p>");
    html.text(data.not_known[i]).markup("</p>\n");
  }
  if (data.not_known.size() > kMostNotKnown) {
    html.markup("<p>");
    html.number(static_cast<int64_t>(data.not_known.size() - kMostNotKnown)).markup(" more such notes.</p>\n");
  }
  html.markup("<p>Made by ");
  html.text(data.made_by).markup(" at ");
  html.text(when(data.now_ms)).markup(", in the time zone ");
  html.text(zone_of(data.now_ms))
      .markup(
          ", which all times here are in. Values of environment variables are not on this page, and an ellipsis stands "
          "for what looks like a secret.</p></footer>\n"
          "</body>\n</html>\n");
  return html.take();
}

std::string page_name(const std::string& job) {
  constexpr size_t kMostName = 100;
  std::string name = job.substr(0, kMostName);
  for (char& c : name) {
    const bool usual =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!usual) c = '_';
  }
  return "dl-report-" + name + ".html";
}

}  // namespace dl::report
