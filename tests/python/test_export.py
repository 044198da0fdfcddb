# SPDX-License-Identifier: Apache-2.0
"""dl.export: runs as dlctl passes them on, their names and keys, and the rows of W&B's table. tests/cli/export.bats writes real ones."""
import io
import json
import math
import os
import sys

import support

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))
from dl.export import mlflow_runs, runs, wandb_runs  # noqa: E402


def series(tag, points, axis="step"):
    """Of (step, time_ms, value, attempt)."""
    steps, times, values, attempts = zip(*points)
    return {"tag": tag, "axis": axis, "step": steps, "time_ms": times, "value": values, "attempt": attempts}


def read(*all_series, attempts=(0,), state="COMPLETED", directory="/jobs/dl-7"):
    data = {"job": "7", "directory": directory, "state": state,
            "runs": [{"attempt": attempt, "series": list(all_series)} for attempt in attempts]}
    return runs.read(io.BytesIO(json.dumps(data).encode()))


class Export(support.Case):
    def test_values_that_json_does_not_know_are_read(self):
        run, = read(series("train/loss", [(1, 1000, "nan", 1), (2, 2000, "-inf", 1), (3, 3000, 0.5, 1)]))
        values = [point.value for point in run.series[0].points]
        self.assertTrue(math.isnan(values[0]))
        self.assertEqual(values[1:], [-math.inf, 0.5])
        self.assertEqual(run.times_ms, (1000, 3000))

    def test_the_key_of_a_run_stays_and_differs_from_others(self):
        one = series("a", [(1, 1000, 1, 1)])
        keys = [run.key for run in read(one, attempts=(1, 2))] + [read(one)[0].key, read(one, directory="/jobs/dl-8")[0].key]
        self.assertEqual(len(set(keys)), 4)
        self.assertEqual(read(one)[0].key, keys[2])
        self.assertRegex(keys[0], "^[0-9a-f]{16}$")

    def test_points_of_one_step_are_a_row_and_seconds_have_rows_of_their_own(self):
        run, = read(series("train/loss", [(1, 1000, 0.9, 1), (2, 2000, 0.8, 1), (2, 5000, 0.7, 2)]),
                    series("validate/loss", [(2, 2500, 0.95, 1)]),
                    series("use/cpus_used", [(1, 2200, 3, 1), (1, 2300, 4, 1)], axis="seconds"),
                    series("attempt", [(1, 1000, 1, 1), (2, 5000, 2, 2)]))
        self.assertEqual(wandb_runs.rows(run), [
            {"train_step": 1, "attempt": 1, "train/loss": 0.9, "_timestamp": 1.0},
            {"seconds": 1, "attempt": 1, "use/cpus_used": 3.0, "_timestamp": 2.2},
            {"seconds": 1, "attempt": 1, "use/cpus_used": 4.0, "_timestamp": 2.3},
            {"train_step": 2, "attempt": 1, "train/loss": 0.8, "validate/loss": 0.95, "_timestamp": 2.5},
            {"train_step": 2, "attempt": 2, "train/loss": 0.7, "_timestamp": 5.0}])

    def test_lines_that_were_read_at_once_stay_apart_by_their_steps(self):
        run, = read(series("train/loss", [(1, 1000, 0.9, 1), (2, 1000, 0.8, 1)]), series("validate/loss", [(1, 1000, 0.5, 1), (2, 1000, 0.4, 1)]))
        self.assertEqual([(row["train_step"], row["train/loss"], row["validate/loss"]) for row in wandb_runs.rows(run)],
                         [(1, 0.9, 0.5), (2, 0.8, 0.4)])

    def test_names_that_mlflow_does_not_take_are_changed_and_stay_apart(self):
        point = [(1, 1000, 1, 1)]
        run, = read(series("train/a→b", point), series("train/a·b", point), series("train/größe: 1.5", point))
        self.assertEqual(mlflow_runs.keys_of(run), ["train/a_b", "train/a_b_2", "train/größe: 1.5"])

    def test_only_the_last_attempt_ended_as_the_job_did(self):
        one = series("a", [(1, 1000, 1, 1)])
        self.assertEqual([mlflow_runs.status_of(run) for run in read(one, attempts=(1, 2), state="FAILED")], ["KILLED", "FAILED"])
        self.assertIsNone(mlflow_runs.status_of(read(one, state="PROCESSING")[0]))

    def test_older_exports_are_folders_of_this_run_alone(self):
        key = read(series("a", [(1, 1000, 1, 1)]))[0].key
        inner = os.path.join(self.folder, "wandb")
        wanted = os.path.join(inner, "offline-run-20260101_120000-" + key)
        for path in (wanted, os.path.join(inner, "offline-run-20260101_120000-other"), os.path.join(inner, "run-20260101_120000-" + key)):
            os.makedirs(path)
        os.symlink(self.folder, os.path.join(inner, "offline-run-20260101_120001-" + key))
        self.assertEqual(wandb_runs.older_exports(self.folder, key), {wanted})


if __name__ == "__main__":
    support.main()
