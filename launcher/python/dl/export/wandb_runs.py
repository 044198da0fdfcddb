# SPDX-License-Identifier: Apache-2.0
"""Writes runs as offline runs of Weights & Biases, by the package wandb: nothing is sent. `wandb sync` sends them later.

A run has the same id at each export, so that W&B shows it once. The folder of an earlier export is removed when the new one is written."""
import glob
import os
import re
import shlex
import shutil
from typing import Any, Dict, List, Set, Tuple

from .runs import ATTEMPT, ExportError, Progress, Run, check_folder, in_time

AXES = {"step": "train_step", "seconds": "seconds"}
# The user's own project, entity, server and key stay. What would turn the export into another run, or send it, does not.
KEPT = ("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_BASE_URL", "WANDB_API_KEY", "WANDB_TAGS", "WANDB_NOTES", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR",
        "WANDB_DATA_DIR")
# Nothing is measured, looked at or printed by W&B: the job is over, and runs elsewhere. Both names of a setting are of different versions.
SETTINGS = {"WANDB_CONSOLE": "off", "WANDB_DISABLE_GIT": "true", "WANDB_DISABLE_CODE": "true", "WANDB_SILENT": "true",
            "WANDB_X_DISABLE_STATS": "true", "WANDB__DISABLE_STATS": "true", "WANDB_X_DISABLE_META": "true", "WANDB__DISABLE_META": "true",
            "WANDB_X_DISABLE_MACHINE_INFO": "true", "WANDB_ERROR_REPORTING": "false"}


def rows(run: Run) -> List[Dict[str, Any]]:
    """The rows of the run's table, in the order of time: a row has the values that were measured at one train step of one attempt, or at
    one second where there are no train steps, one after the other."""
    made: List[Dict[str, Any]] = []
    newest: Dict[str, Tuple[Tuple[int, int], Dict[str, Any]]] = {}  # by axis: step and attempt of the row, and the row
    for series, point in in_time(run):
        if series.tag == ATTEMPT:
            continue
        place = (point.step, point.attempt)
        if series.axis not in newest or newest[series.axis][0] != place or series.tag in newest[series.axis][1]:
            newest[series.axis] = (place, {AXES[series.axis]: point.step, ATTEMPT: point.attempt})
            made.append(newest[series.axis][1])
        row = newest[series.axis][1]
        row[series.tag] = point.value
        row["_timestamp"] = point.time_ms / 1000
    return sorted(made, key=lambda row: row["_timestamp"])


def older_exports(folder: str, key: str) -> Set[str]:
    """The folders of the run in wandb/, none of which is a link."""
    pattern = re.compile(r"offline-run-\d{8}_\d{6}-" + re.escape(key))
    return {path for path in glob.glob(os.path.join(glob.escape(folder), "wandb", "offline-run-*"))
            if pattern.fullmatch(os.path.basename(path)) and os.path.isdir(path) and not os.path.islink(path)}


def write(runs: List[Run], folder: str) -> str:
    """Returns a sentence that says where they are."""
    check_folder(folder)
    inner = os.path.join(folder, "wandb")
    if os.path.lexists(inner) and not (os.path.isdir(inner) and os.access(inner, os.W_OK | os.X_OK)):
        raise ExportError(f"{inner} is no folder that can be written to; name another folder")
    for name in [name for name in os.environ if name.startswith("WANDB_") and name not in KEPT]:
        del os.environ[name]
    os.environ.update(SETTINGS)
    import wandb
    progress = Progress(sum(run.count for run in runs))
    for run in runs:
        older = older_exports(folder, run.key)
        made = wandb.init(mode="offline", dir=os.path.abspath(folder), id=run.key, name=run.name, group=run.job, project=os.environ.get("WANDB_PROJECT", "slurm-dl"),
                          config={"job": run.job, "directory": run.directory, "state": run.state})
        if not os.path.realpath(made.dir).startswith(os.path.realpath(inner) + os.sep):
            made.finish()
            raise ExportError(f"the package wandb cannot write in {folder}; name another folder")
        for series in run.series:
            if series.tag != ATTEMPT:
                made.define_metric(series.tag, step_metric=AXES[series.axis])
        for row in rows(run):
            made.log(row)
            progress.add(len(row) - 3)
        made.finish(exit_code=0 if run.state != "FAILED" or not run.last else 1)
        for path in older - {os.path.dirname(made.dir)}:
            shutil.rmtree(path, ignore_errors=True)
    progress.end()
    return f"written into {inner}; to send them: cd {shlex.quote(folder)} && wandb sync --include-offline --sync-all"
