#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what learners found in their environment with what `dlrun --dry-run --json` promised, name by name.

  compare_environment.py PLAN FOLDER     FOLDER/inherited and FOLDER/RANK hold environments, as `env -0` writes them
  compare_environment.py --same A B      two learners that were started in different ways (env -0), by their common names

Prints each difference; exit status 1 if there is one.
"""

import fnmatch
import json
import pathlib
import sys

# The shell and the starters themselves (bash, srun, mpirun) set these; they are nobody's promise.
NOT_OURS = ["_", "SHLVL", "PWD", "OLDPWD", "SLURM_*", "SLURMD_*", "SRUN_*", "PMI_*", "PMIX_*", "OMPI_*", "PRTE_*", "TMPDIR", "BASH_FUNC_*",
            "BATS_*", "HYDRA_*", "MPIEXEC_*", "ORTE_*",
            # srun of Slurm 26.05 leaves the options of SPANK plugins to its tasks.
            "_SLURM_SPANK_OPTION_*",
            # Slurm gives them to each step by the GPUs that it has on a node.
            "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"]
# Different for each run.
OF_THE_RUN = ["DL_RUN_ID", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"]
# dlrun hosts the store of torch.distributed; a plain srun has nobody who could.
OF_DLRUN = ["TORCHELASTIC_USE_AGENT_STORE"]


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


def compare_learners(one, other):
    return [f"{name}: '{one[name]}' and '{other[name]}'" for name in sorted(ours(one) & ours(other))
            if name not in OF_THE_RUN + OF_DLRUN and one[name] != other[name]]


def main():
    if sys.argv[1] == "--same":
        differences = compare_learners(read(sys.argv[2]), read(sys.argv[3]))
    else:
        differences = compare_with_plan(json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2]))
    print("\n".join(differences))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
