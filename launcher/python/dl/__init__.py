# SPDX-License-Identifier: Apache-2.0
"""Jobs of slurm-dl from Python: a function becomes a job of Slurm's, and what it returns comes back.

    import dl

    job = dl.submit(train, config, learners=4, gpus=1, checkpoint="ckpt", time="2:00:00")
    print(job.id, job.state)
    loss = job.result()          # waits; what learner 0 returned

    jobs = dl.map_array(train, [config_1, config_2, config_3], gpus=1, at_once=2)
    losses = [job.result() for job in jobs]

    job = dl.job("4711")         # in another Python process, days later
    dl.jobs()                    # all of this folder

A job is submitted by ``dlrun --submit`` and asked after by ``dlctl status``; nothing else keeps a state. What is needed to
find it again lies in ``dl-calls/`` of the working directory, so a job outlives the Python that submitted it. Works from a
login node, from a notebook, and within another job. dl-python(3) tells all of it.
"""
from .errors import JobCancelled, JobFailed, ResultError, SubmitError
from .job import Job, as_completed, job, jobs
from .submit import map_array, submit

__all__ = ["Job", "JobCancelled", "JobFailed", "ResultError", "SubmitError", "as_completed", "job", "jobs", "map_array", "submit"]
