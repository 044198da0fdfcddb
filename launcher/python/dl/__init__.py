# SPDX-License-Identifier: Apache-2.0
"""Jobs of slurm-dl from Python: a function becomes a Slurm job, and its return value comes back; a training reports
its metrics, and how many learners it needs.

    import dl

    job = dl.submit(train, config, learners=4, gpus=1, checkpoint="ckpt", time="2:00:00")
    print(job.id, job.state)
    loss = job.result()          # waits; the return value of learner 0

    jobs = dl.map_array(train, [config_1, config_2, config_3], gpus=1, at_once=2)
    losses = [job.result() for job in jobs]

    job = dl.job("4711")         # in another Python process, days later
    dl.jobs()                    # all jobs of this folder

    dl.metric(loss=0.3, step=120)  # in a training: "dlctl metrics" shows it; nothing happens outside of a job
    dl.vote(+2, "loader stalls 40 %")  # "dlctl status" shows it

The package runs ``dlrun --submit`` to submit a job and ``dlctl status`` to get its state. It keeps no state of its own
except the files in ``dl-calls/`` of the working directory, by which a job is found again. So a job outlives the Python
process that submitted it. It works on a login node, in a notebook, and within another job. dl-python(3) is the full
reference.
"""
from .errors import JobCancelled, JobFailed, ResultError, SubmitError
from .job import Job, as_completed, job, jobs
from .loader_stall import LoaderStall
from .reporting import metric
from .submit import map_array, submit
from .voting import vote

__all__ = ["Job", "JobCancelled", "JobFailed", "LoaderStall", "ResultError", "SubmitError", "as_completed", "job", "jobs", "map_array",
           "metric", "submit", "vote"]
