// SPDX-License-Identifier: Apache-2.0
// What is needed to go on from here: the checkpoints, and how the job is started again.
#include <algorithm>

#include "common/base/shell_word.h"
#include "launcher/report/section.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

constexpr size_t kMostSaves = 60, kMostScriptLines = 60, kMostScriptLine = 1000;

}  // namespace

void write_checkpoints(const Material& of, Html* html) {
  const std::string directory = of.data.plan ? of.data.plan->checkpoint : "";
  const std::vector<Save>& saves = of.course.saves;
  if (directory.empty() && saves.empty()) {
    if (of.data.plan) html->markup("<p>The job has no checkpoint directory: a stopped job begins anew.</p>\n");
    return;
  }
  html->markup("<dl>\n");
  html->fact("directory", directory);
  html->fact("asked for as", of.data.checkpoint);
  if (!directory.empty()) html->fact("what is there now", "dlckpt ls " + shell_word(directory));
  html->markup("</dl>\n");
  if (saves.empty()) {
    html->markup("<p>No train step is known to be saved.</p>\n");
    return;
  }
  Table table(html, {"Saved at", "#Attempt", "#Train step"});
  const size_t skipped = saves.size() - std::min(saves.size(), kMostSaves);
  if (skipped > 0) table.line(std::to_string(skipped) + " earlier ones");
  for (size_t i = skipped; i < saves.size(); ++i)
    table.row({when(saves[i].time_ms), std::to_string(saves[i].attempt), number_or_none(saves[i].step)});
}

void write_reproduce(const Material& of, Html* html) {
  if (!of.data.plan) return;
  const PlanSheet& plan = *of.data.plan;
  html->markup("<p>As far as the launch plan of the newest attempt says:</p>\n<pre>");
  html->lines(start_script(plan, of.data.checkpoint), kMostScriptLines, kMostScriptLine).markup("</pre>\n<p>");
  if (plan.under_slurm) {
    html->markup(
        "The plan does not hold the rest of the batch script: modules, environment, other options of sbatch. Slurm "
        "prints that script with <code>scontrol write batch_script ");
    html->text(of.data.job, 60)
        .markup(
            " -</code> while it knows the job, and where its accounting stores scripts with "
            "<code>sacct -B -j ");
    html->text(of.data.job, 60).markup("</code>.");
  } else {
    html->markup("The plan does not hold the environment in which dlrun was started.");
  }
  html->markup(
      " With the checkpoint directory as it is, the training goes on from its newest checkpoint; for a training "
      "from the beginning name another one.</p>\n");
}

}  // namespace dl::report
