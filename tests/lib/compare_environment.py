#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what learners found in their environment with what `dlrun --dry-run --json` promised, name by name.

  compare_environment.py CATALOGUE PLAN FOLDER      the learners were started by dlrun; FOLDER/inherited and FOLDER/RANK
                                                    hold environments, as `env -0` writes them
  compare_environment.py --srun CATALOGUE FOLDER... they were started by a plain srun; FOLDER/plan.json is the plan. The
                                                    tables of what may differ may have no row that none of these plans
                                                    has a name for.

CATALOGUE: folders of catalogue entries with colons between them; of two entries with one name the first counts. What
may differ in the variables that an entry itself sets follows from the placeholders in their values.

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
    "DL_PEERS": NO_AGENT, "DL_PORTS": NO_AGENT, "TF_CONFIG": NO_AGENT, "NCCL_COMM_ID": NO_AGENT, "NCCL_RAS_ADDR": NO_AGENT,
    "GLOO_SOCKET_IFNAME": NO_AGENT, "TP_SOCKET_IFNAME": NO_AGENT, "NCCL_SOCKET_IFNAME": NO_AGENT, "HOROVOD_GLOO_IFACE": NO_AGENT,
    "JAX_COORDINATOR_ADDRESS": "JAX makes it of SLURM_*", "JAX_COORDINATOR_BIND_ADDRESS": "JAX makes it of SLURM_*",
    "JAX_COORDINATOR_PORT": "JAX makes it of SLURM_*",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": NO_HOST, "HOROVOD_GLOO_RENDEZVOUS_PORT": NO_HOST, "PMIX_*": NO_HOST, "DL_CHECKPOINT_LEASE": NO_HOST,
    "DL_PROGRESS": "no agent reads it", "DL_METRICS_FILE": "no agent reads it",
    "TRAINING_COMMAND": "only dlrun has a plan that keeps the command",
    "PYTHONUNBUFFERED": "srun prints what learners write; there is no pipe to an agent",
}
# The placeholders whose values such a learner goes without; a variable that needs one of them is not set.
PLACEHOLDERS_NOT_UNDER_SRUN = {
    "peer": NO_AGENT, "peers": NO_AGENT, "port": NO_AGENT, "job_dir": NO_JOB_DIRECTORY, "log_dir": NO_JOB_DIRECTORY,
}
# What it finds with another value: what that looks like, and why.
OTHER_UNDER_SRUN = {
    "MASTER_ADDR": (r"n\d+", "the first node hosts the store, not dlrun"),
    "MASTER_PORT": (r"\d{5}", "computed from the numbers of job and step, since no agent holds one"),
    "TORCHELASTIC_USE_AGENT_STORE": ("False", "the store of torch.distributed is rank 0's, not dlrun's"),
    "DL_RUN_ID": (r"\d+\.\d+\.\d+", "of the step"), "TORCHELASTIC_RUN_ID": (r"\d+\.\d+\.\d+", "of the step"),
}

# What only such a learner finds, and why.
ONLY_UNDER_SRUN = {"DL_GIVEN": "tells a dlrun or another srun in this task which variables spank_dl.so has added"}

PLACEHOLDER = r"%\{(\w+)\}"


def variables_of_entry(plan, catalogue):
    """Name and unfilled value of each variable that the plan's catalogue entry sets by placeholders, also for one version alone."""
    # tomllib is there from Python 3.11 only.
    files = [pathlib.Path(folder, plan["framework"] + ".toml") for folder in catalogue.split(":")]
    entry = next((file for file in files if file.exists()), None)
    if entry is None:
        sys.exit(f"compare_environment.py: no {plan['framework']}.toml in {catalogue}")
    text = re.sub(r"(?m)^\s*#.*", "", entry.read_text())
    return {name: value for name, value in re.findall(r'([A-Za-z_]\w*)\s*=\s*"([^"\n]*)"', text) if re.search(PLACEHOLDER, value)}


def absent_under_srun(variables):
    absent = dict(NOT_UNDER_SRUN)
    for name, value in variables.items():
        reasons = [PLACEHOLDERS_NOT_UNDER_SRUN[found] for found in re.findall(PLACEHOLDER, value) if found in PLACEHOLDERS_NOT_UNDER_SRUN]
        if reasons:
            absent[name] = reasons[0]
    return absent


def with_address(variables):
    """The variables that hold the address of rank 0's node: the plan knows the node's name, dlrun its number."""
    return {name: value for name, value in variables.items() if "address" in re.findall(PLACEHOLDER, value)}


def other_under_srun(variables):
    other = dict(OTHER_UNDER_SRUN)
    for name, value in with_address(variables).items():
        parts = re.split(PLACEHOLDER, value)  # text, placeholder, text, ...
        pattern = "".join(re.escape(part) if i % 2 == 0 else r"n\d+" if part == "address" else ".*" for i, part in enumerate(parts))
        other[name] = (pattern, "the name of the first node, not its address")
    return other


def read(path):
    entries = pathlib.Path(path).read_bytes().split(b"\0")
    return dict(entry.decode(errors="replace").split("=", 1) for entry in entries if b"=" in entry)


def ours(names):
    return {name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in NOT_OURS)}


def compare_with_plan(plan, folder, catalogue):
    promised_of_all, later = plan["environment"], plan["found_later"]
    of_the_run = {*OF_THE_RUN, *with_address(variables_of_entry(plan, catalogue))}
    inherited = read(folder / "inherited")
    differences = []
    for learner in plan["learners"]:
        found = read(folder / str(learner["rank"]))
        who = f"rank {learner['rank']}: "
        promised = {**promised_of_all, **learner["environment"]}
        # Without Slurm the job's number is new for each run.
        number = found.get("DL_JOB_ID") or found.get("TRAINING_ID") or plan["job_id"]
        promised = {name: value.replace(plan["job_id"], number) for name, value in promised.items()}
        for name, value in sorted(promised.items()):
            if name not in of_the_run and found.get(name) != value:
                differences.append(f"{who}{name} was to be '{value}' and is '{found.get(name)}'")
        for pattern, what in sorted(later.items()):
            has_it = learner["rank"] == 0 or not what.startswith("of rank 0 alone")
            if has_it and not fnmatch.filter(found, pattern):
                differences.append(f"{who}{pattern} was to be found later ({what}) and is not there")
        for name in sorted(ours(found)):
            known = name in promised or any(fnmatch.fnmatchcase(name, pattern) for pattern in later)
            if not known and name not in of_the_run and found[name] != inherited.get(name):
                differences.append(f"{who}{name}='{found[name]}' was not said")
        for name in sorted(ours(inherited)):
            if name not in found:
                differences.append(f"{who}{name} is gone")
    return differences


def compare_srun_with_plan(folder, catalogue, used):
    plan = json.loads((folder / "plan.json").read_text())
    variables = variables_of_entry(plan, catalogue)
    absent, other = absent_under_srun(variables), other_under_srun(variables)
    inherited = read(folder / "inherited")
    differences = []
    for learner in plan["learners"]:
        found = read(folder / str(learner["rank"]))
        who = f"{folder}, rank {learner['rank']}: "
        promised = {**dict.fromkeys(plan["found_later"]), **plan["environment"], **learner["environment"]}
        used.update(promised)
        for name, value in sorted(promised.items()):
            has, users = found.get(name), inherited.get(name)
            if name in absent:
                if has not in (None, users):
                    differences.append(f"{who}{name}='{has}', but: {absent[name]}")
            elif name in other:
                pattern, why = other[name]
                if has is None or not (has == users or re.fullmatch(pattern, has)):
                    differences.append(f"{who}{name} is '{has}', and should look like {pattern}: {why}")
            elif has != value or value is None:
                differences.append(f"{who}{name} was to be {'found later' if value is None else repr(value)} and is '{has}'")
        for name in sorted(ours(found)):
            if name not in promised and name not in ONLY_UNDER_SRUN and found[name] != inherited.get(name):
                differences.append(f"{who}{name}='{found[name]}' was not said")
        differences += [f"{who}{name} is not there: {why}" for name, why in ONLY_UNDER_SRUN.items() if name not in found]
        for name in sorted(ours(inherited)):
            if name not in found and name not in absent:
                differences.append(f"{who}{name} is gone")
    return differences


def compare_all_of_srun(folders, catalogue):
    used = set()
    differences = [text for folder in folders for text in compare_srun_with_plan(pathlib.Path(folder), catalogue, used)]
    return differences + [f"no plan has {name}, which may differ under srun" for name in sorted({*NOT_UNDER_SRUN, *OTHER_UNDER_SRUN} - used)]


def main():
    if sys.argv[1] == "--srun":
        differences = compare_all_of_srun(sys.argv[3:], sys.argv[2])
    else:
        catalogue, plan, folder = sys.argv[1:]
        differences = compare_with_plan(json.loads(pathlib.Path(plan).read_text()), pathlib.Path(folder), catalogue)
    print("\n".join(differences))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
