// SPDX-License-Identifier: Apache-2.0
// Metrics of jobs as charts (launcher/plot). Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/ctl/metrics_job.h"
#include "launcher/plot/chart.h"
#include "launcher/plot/svg_plot.h"
#include "launcher/plot/text_plot.h"

namespace dl::ctl {

// One chart for each name of a metric, with a curve for each group, rank and job: those with "loss" in their names
// first, what the launcher measures last. x is the train step if most points of each curve have one; else the time
// since the first value of the job. Attempts after the first are marked. superseded: also what later attempts have
// superseded, as curves that begin again. All texts are printable.
std::vector<plot::Chart> metrics_charts(const std::vector<JobMetrics>& jobs, bool superseded);

// The charts, one below the other; at most kMostTextCharts.
constexpr size_t kMostTextCharts = 6;
std::string metrics_plot(const std::vector<JobMetrics>& jobs, bool superseded, const plot::TextStyle& style);
// The charts as a file of SVG; at most kMostSvgCharts.
constexpr size_t kMostSvgCharts = 100;
std::string metrics_svg(const std::vector<JobMetrics>& jobs, bool superseded);
// The same picture for a light background, from which png_of() makes a PNG; at most kMostPngCharts.
constexpr size_t kMostPngCharts = 20;
plot::Drawing metrics_drawing(const std::vector<JobMetrics>& jobs, bool superseded);

}  // namespace dl::ctl
