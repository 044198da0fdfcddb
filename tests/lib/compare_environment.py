#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what learners found in their environment with what `dlrun --dry-run --json` promised, name by name.

  compare_environment.py PLAN FOLDER          the learners were started by dlrun; FOLDER/inherited and FOLDER/RANK hold
                                              environments, as `env -0` writes them
  compare_environment.py --srun FOLDER...     they were started by a plain srun; FOLDER/plan.json is the plan. The tables
                                              of what may differ may have no row that none of these plans has a name for.

Prints each difference; exit status 1 if there is one.
"""

import fnmatch
import json
import pathlib
import re
import sys

# The shell and the starters themselves (bash, srun, mpirun) set these; they are nobody's promise.
NOT_OURS = ["_", "SHLVL", "PWD", "OLDPWD", "SLURM_*", "SLURMD_*", "SRUN_*", "PMI_*", "PMIX_*", "OMPI_*", "PRTE_*", "TMPDIR", "BASH_FUNC_*",
            "BATS_*", "HYDRA_*", "MPIEXEC_*", "ORTE_*",
            # srun of Slurm 26.05 leaves the options of SPANK plugins to its tasks.
            "_SLURM_SPANK_OPTION_*",
            # Slurm gives them to each step by the GPUs that it has on a node.
            "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"]
# Different for each run.
OF_THE_RUN = ["MASTER_ADDR", "MASTER_PORT"]

# What a learner of a plain srun goes without, and why.
NO_JOB_DIRECTORY = "a plain srun has no job directory"
NO_AGENT = "no agent chooses, holds and tells ports and interfaces"
NO_HOST = "dlrun would have to host it"
NOT_UNDER_SRUN = {
    "DL_JOB_DIR": NO_JOB_DIRECTORY, "JOB_STATE_DIR": NO_JOB_DIRECTORY, "LOG_DIR": NO_JOB_DIRECTORY, "RESULT_DIR": NO_JOB_DIRECTORY,
    "RESULT_BUCKET_DIR": NO_JOB_DIRECTORY, "TORCHELASTIC_ERROR_FILE": NO_JOB_DIRECTORY,
    "DL_PEERS": NO_AGENT, "DL_PORTS": NO_AGENT, "TF_CONFIG": NO_AGENT, "NCCL_RAS_ADDR": NO_AGENT,
    "PADDLE_CURRENT_ENDPOINT": NO_AGENT, "PADDLE_TRAINER_ENDPOINTS": NO_AGENT,
    "GLOO_SOCKET_IFNAME": NO_AGENT, "TP_SOCKET_IFNAME": NO_AGENT, "NCCL_SOCKET_IFNAME": NO_AGENT, "HOROVOD_GLOO_IFACE": NO_AGENT,
    "JAX_COORDINATOR_ADDRESS": "JAX makes it of SLURM_*", "JAX_COORDINATOR_BIND_ADDRESS": "JAX makes it of SLURM_*",
    "JAX_COORDINATOR_PORT": "JAX makes it of SLURM_*",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": NO_HOST, "HOROVOD_GLOO_RENDEZVOUS_PORT": NO_HOST, "PMIX_*": NO_HOST, "DL_CHECKPOINT_LEASE": NO_HOST,
    "DL_PROGRESS": "no agent reads it", "DL_METRICS_FILE": "no agent reads it",
    "TRAINING_COMMAND": "only dlrun has a plan that keeps the command",
    "PYTHONUNBUFFERED": "srun prints what learners write; there is no pipe to an agent",
}
# What it finds with another value: what that looks like, and why.
OTHER_UNDER_SRUN = {
    "MASTER_ADDR": (r"n\d+", "the first node hosts the store, not dlrun"),
    "MASTER_PORT": (r"\d{5}", "computed from the numbers of job and step, since no agent holds one"),
    "TORCHELASTIC_USE_AGENT_STORE": ("False", "the store of torch.distributed is rank 0's, not dlrun's"),
    "DL_RUN_ID": (r"\d+\.\d+\.\d+", "of the step"), "TORCHELASTIC_RUN_ID": (r"\d+\.\d+\.\d+", "of the step"),
}


def read(path):
    entries = pathlib.Path(path).read_bytes().split(b"\0")
    return dict(entry.decode(errors="replace").split("=", 1) for entry in entries if b"=" in entry)


def ours(names):
    return {name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in NOT_OURS)}


def compare_with_plan(plan, folder):
    promised_of_all, later = plan["environment"], plan["found_later"]
    inherited = read(folder / "inherited")
    differences = []
    for learner in plan["learners"]:
        found = read(folder / str(learner["rank"]))
        promised = {**promised_of_all, **learner["environment"]}
        # Without Slurm the job's number is new for each run.
        number = found.get("DL_JOB_ID") or found.get("TRAINING_ID") or plan["job_id"]
        promised = {name: value.replace(plan["job_id"], number) for name, value in promised.items()}
        for name, value in sorted(promised.items()):
            if name not in OF_THE_RUN and found.get(name) != value:
                differences.append(f"rank {learner['rank']}: {name} was to be '{value}' and is '{found.get(name)}'")
        for name in sorted(ours(found)):
            known = name in promised or any(fnmatch.fnmatchcase(name, pattern) for pattern in later)
            if not known and name not in OF_THE_RUN and found[name] != inherited.get(name):
                differences.append(f"rank {learner['rank']}: {name}='{found[name]}' was not said")
        for name in sorted(ours(inherited)):
            if name not in found:
                differences.append(f"rank {learner['rank']}: {name} is gone")
    return differences


def compare_srun_with_plan(folder, used):
    plan = json.loads((folder / "plan.json").read_text())
    inherited = read(folder / "inherited")
    differences = []
    for learner in plan["learners"]:
        found = read(folder / str(learner["rank"]))
        who = f"{folder}, rank {learner['rank']}: "
        promised = {**dict.fromkeys(plan["found_later"]), **plan["environment"], **learner["environment"]}
        used.update(promised)
        for name, value in sorted(promised.items()):
            has, users = found.get(name), inherited.get(name)
            if name in NOT_UNDER_SRUN:
                if has not in (None, users):
                    differences.append(f"{who}{name}='{has}', but: {NOT_UNDER_SRUN[name]}")
            elif name in OTHER_UNDER_SRUN:
                pattern, why = OTHER_UNDER_SRUN[name]
                if has is None or not (has == users or re.fullmatch(pattern, has)):
                    differences.append(f"{who}{name} is '{has}', and should look like {pattern}: {why}")
            elif has != value or value is None:
                differences.append(f"{who}{name} was to be {'found later' if value is None else repr(value)} and is '{has}'")
        for name in sorted(ours(found)):
            if name not in promised and found[name] != inherited.get(name):
                differences.append(f"{who}{name}='{found[name]}' was not said")
        for name in sorted(ours(inherited)):
            if name not in found and name not in NOT_UNDER_SRUN:
                differences.append(f"{who}{name} is gone")
    return differences


def compare_all_of_srun(folders):
    used = set()
    differences = [text for folder in folders for text in compare_srun_with_plan(pathlib.Path(folder), used)]
    return differences + [f"no plan has {name}, which may differ under srun" for name in sorted({*NOT_UNDER_SRUN, *OTHER_UNDER_SRUN} - used)]


def main():
    if sys.argv[1] == "--srun":
        differences = compare_all_of_srun(sys.argv[2:])
    else:
        differences = compare_with_plan(json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2]))
    print("\n".join(differences))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
