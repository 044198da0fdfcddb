# SPDX-License-Identifier: Apache-2.0
"""Writes runs into a folder of MLflow's own files (its file store), by the package mlflow.

An export of the same run again makes a new one, and then moves the older one to MLflow's trash."""
import logging
import os
import pathlib
import re
import shlex
from typing import Any, List, Optional

from .runs import ExportError, Progress, Run, check_folder

EXPERIMENT = "slurm-dl"
MOST_AT_ONCE = 1000  # metrics in one call, which MLflow allows
ALLOWED = "MLFLOW_ALLOW_FILE_STORE"  # current versions of MLflow read and write such files only where this is set
STATES = {"COMPLETED": "FINISHED", "FAILED": "FAILED", "CANCELLED": "KILLED"}  # by the state of the job


def is_store(folder: str) -> bool:
    """Whether MLflow has written in it before."""
    return any(os.path.exists(os.path.join(folder, name, "meta.yaml")) for name in os.listdir(folder)) or os.path.isdir(
        os.path.join(folder, ".trash"))


def status_of(run: Run) -> Optional[str]:
    """The word that MLflow has for how it ended; None: it has not. An attempt before the last one was interrupted."""
    return STATES.get(run.state) if run.last else "KILLED"


def keys_of(run: Run) -> List[str]:
    """For each series a name that MLflow takes: letters, digits and _ - . : / and blanks, each name once."""
    keys: List[str] = []
    for series in run.series:
        plain = key = re.sub(r"[^/\w.\- :]", "_", series.tag)
        number = 2
        while key in keys:
            key, number = f"{plain}_{number}", number + 1
        keys.append(key)
    return keys


def write(runs: List[Run], folder: str) -> str:
    """Returns a sentence that says where they are."""
    check_folder(folder)
    if os.listdir(folder) and not is_store(folder):
        raise ExportError(f"{folder} has other contents than runs of MLflow; name another folder")
    os.environ[ALLOWED] = "true"
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    from mlflow.entities import Metric, RunTag
    from mlflow.tracking import MlflowClient
    client = MlflowClient(tracking_uri=pathlib.Path(os.path.abspath(folder)).as_uri())
    found = client.get_experiment_by_name(EXPERIMENT)
    experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
    progress = Progress(sum(run.count for run in runs))
    for run in runs:
        older: List[Any] = list(client.search_runs([experiment], filter_string=f"tags.`slurm_dl.export` = '{run.key}'"))
        begin, end = run.times_ms
        tags = {"mlflow.runName": run.name, "mlflow.source.name": "slurm-dl", "slurm_dl.export": run.key, "slurm_dl.job": run.job,
                "slurm_dl.directory": run.directory, "slurm_dl.state": run.state}
        made = client.create_run(experiment, start_time=begin, tags=tags)
        try:
            batch: List[Any] = []
            for key, series in zip(keys_of(run), run.series):
                client.log_batch(made.info.run_id, tags=[RunTag("slurm_dl.axis." + key, series.axis)])
                for point in series.points:
                    batch.append(Metric(key, point.value, point.time_ms, point.step))
                    if len(batch) == MOST_AT_ONCE:
                        client.log_batch(made.info.run_id, metrics=batch)
                        progress.add(len(batch))
                        batch = []
            if batch:
                client.log_batch(made.info.run_id, metrics=batch)
            status = status_of(run)
            if status:
                client.set_terminated(made.info.run_id, status, end)
        except BaseException:
            client.delete_run(made.info.run_id)
            raise
        for old in older:
            client.delete_run(old.info.run_id)
    progress.end()
    import mlflow.environment_variables as variables
    allowed = f"{ALLOWED}=true " if hasattr(variables, ALLOWED) else ""
    return f"written into {folder}, experiment {EXPERIMENT}; to look at them: {allowed}mlflow ui --backend-store-uri {shlex.quote(folder)}"
