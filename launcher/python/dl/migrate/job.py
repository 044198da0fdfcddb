# SPDX-License-Identifier: Apache-2.0
"""Finds what the job has to ask for: learners, GPUs, CPUs and nodes."""
import re
from typing import Dict, List, Optional, Tuple

from . import launch as launches, shell
from .counts import Count, Found
from .launchers import LAUNCHERS
from .nodes import Nodes


MOST_AT_ONCE = 50  # launches of which it is looked which others never run beside them


class Job(Nodes):
    lightning = False  # learners take the place of processes that Lightning starts

    def __init__(self, text: str, folder: str):
        super().__init__(text, folder)
        self.one_starts_many = False
        self.tasks_are_cpus = False

    def learners_of(self, found: List[Found]) -> Count:
        """The job's learners: those of the largest launch, or of launches that run at the same time together."""
        if any(item.many.most is None for item in found):
            return Count(None, None)
        if (self.asked.nodes or 1) > 1:
            # On several nodes, a branch that starts nothing on the others is the one for a single node.
            spread = [item for item in found if item.launch.launchers[:1] in (["srun"], ["mpirun"], ["ssh"], ["pdsh"])]
            found = [item for item in found if any(item is one for one in spread) or not any(self.branches.exclude(item.at, one.at) for one in spread)]
        best = max((item.many for item in found), key=lambda one: one.most or 0)
        parallel = [item for item in found if item.parallel]
        parallel = [item for item in parallel if not self.is_awaited(item, parallel)]
        together = max((sum(item.many.most or 0 for item in parallel if not self.branches.exclude(item.at, one.at)) for one in parallel[:MOST_AT_ONCE]), default=0)
        if any(item.many.most == 1 for item in parallel):
            together = max(together, self.asked.tasks or 0, self.asked.gpus or 0)
        loops = self.loops()
        for item in found:
            most = item.many.most or 0
            if item.parallel and most > 1 and self.asked.gpus and self.asked.gpus % most == 0 and self.loop_of(item, loops) is not None:
                together = max(together, self.asked.gpus)  # the turns of a loop share the GPUs of the job
        if together > (best.most or 0):
            best = Count(together, together)
        return best

    def is_awaited(self, item: Found, parallel: List[Found]) -> bool:
        """Whether the script only starts this one in the background to wait for it, as scripts do that trap signals."""
        if len(parallel) > 1:
            return False
        others = [one for one in self.commands if one.after == "&" and any(launches.PYTHON.fullmatch(self.text[word.start:word.end]) for word in one.words)]
        if len(others) > 1 or self.loop_of(item, self.loops()) is not None:
            return False
        behind = max([item.at] + [end for start, end in self.background if start <= item.at < end])
        words = next(([self.text[word.start:word.end] for word in one.words] for one in self.commands if one.words and one.words[0].start > behind), [])
        return bool(words) and (words[0] == "wait" or re.fullmatch(r"\w+=\"?\$!\"?", words[words[0] in ("export", "local", "readonly") and len(words) > 1]) is not None)

    def gpus_of(self, found: List[Found], learners: Count) -> Optional[int]:
        total = self.asked.gpus
        if len(self.asked.gpu_types) > 1:
            self.note(0, f"GPUs of several types ({', '.join(self.asked.gpu_types)}) cannot be asked for here: the learners get GPUs of any type")
        for item in found:
            told = item.launch.told[0] if item.launch.told else {}
            nodes = self.number(told.get("nodes")) or self.nodes_of_tasks(told)
            if "gpus_each" in told and total is None:
                tasks = self.number(told.get("total")) or (nodes or 1) * (self.number(told.get("each")) or 1)
                total = (self.gpus_told(told["gpus_each"]) or 0) * (tasks if "total" in told or "nodes" in told else self.asked.tasks or tasks)
            if "gpus" in told and total is None:
                total = self.gpus_told(told["gpus"])
            for what in ("gpus_per_node", "gres"):
                of_node = self.gpus_told(told[what], what == "gres") if what in told and total is None else None
                if of_node is not None:
                    total = of_node * (nodes or self.asked.nodes or 1)
        if total is None:
            if not self.lines and self.one_starts_many:
                self.note(0, "there are no #SBATCH lines; a GPU for each process is assumed (--dl-gpus=1)")
                return 1
            if self.lines:
                self.note(0, "no GPUs are asked for, so there is no --dl-gpus: where the site gives whole nodes, add --dl-gpus=N")
            return None
        count = learners.most or 1
        if self.is_of_one_node(found, count):
            total = self.asked.gpus_per_node or total
            self.note(found[0].at, f"this starts the processes of one node, but the job asks for {self.asked.nodes} nodes: if it is meant for all of them, write --dl-learners={count * (self.asked.nodes or 1)}")
        if count == 1 and (self.asked.nodes or 1) > 1 and self.asked.gpus_per_node:
            return self.asked.gpus_per_node  # a learner cannot use several nodes
        elastic = learners.least != learners.most
        most_nodes = re.fullmatch(r"(\d+)-(\d+)", self.asked.given.get("nodes", ""))
        if elastic and (self.asked.nodes is None or most_nodes):
            count = learners.least or 1  # the lines give the GPUs of one node
        if most_nodes and self.asked.gpus_per_node and not elastic:
            # As many nodes of the range as the learners need.
            total = self.asked.gpus_per_node * min(max(-(-count // self.asked.gpus_per_node), int(most_nodes.group(1))), int(most_nodes.group(2)))
        if total % count == 0:
            return total // count
        if total > count:
            self.note(0, f"{total} GPUs for {count} learners: each gets {total // count}, as far as whole ones go")
            return total // count
        self.note(0, f"{total} GPU{'' if total == 1 else 's'} for {count} learners: GPUs are not shared among learners here; --dl-gpus=1 asks for {count}")
        return 1

    def tasks_share_gpus(self, found: List[Found], learners: Count) -> bool:
        """Whether srun or mpirun starts more processes than the job has GPUs, so that these are shared."""
        gpus, most = self.asked.gpus, learners.most
        return gpus is not None and most is not None and 0 < gpus < most == learners.least and self.asked.tasks == most and \
            all(item.launch.launchers in (["srun"], ["mpirun"]) and not item.inner for item in found)

    def gpus_are_told_to_sbatch(self, found: List[Found]) -> bool:
        """Whether the lines ask for something for each GPU, but nothing in the script for GPUs."""
        told = {what for item in found for what in (item.launch.told[0] if item.launch.told else {})}
        return self.asked.gpus is None and bool({"cpus-per-gpu", "mem-per-gpu", "gpu-bind", "gpu-freq"} & set(self.asked.given)) and not {"gpus", "gpus_each", "gpus_per_node", "gres"} & told

    def is_of_one_node(self, found: List[Found], count: int) -> bool:
        """Whether launchers that the batch script itself starts, on its own node, have no more processes than a node of the job has GPUs."""
        each = self.asked.gpus_per_node or 0
        return (self.asked.nodes or 1) > 1 and 1 < count <= each and each % count == 0 and \
            all(LAUNCHERS[item.launch.launchers[-1]].script and len(item.launch.launchers) == 1 and not {"nodes", "endpoint"} & set(item.launch.told[0])
                for item in found if item.launch.launchers) and any(item.launch.launchers for item in found)

    def is_bound_to_one_node(self, found: List[Found], learners: Count) -> bool:
        """Whether the launchers start processes on their own node only, and nothing but that says that the job has one node."""
        asked, many = self.asked, learners.most or 1
        if {"nodes", "nodelist", "nodefile"} & set(asked.given) or "ntasks" in asked.given and (asked.tasks or 1) > 1 or learners.least != many or not 1 < many <= (asked.gpus or 0) or asked.gpus_per_node is None and many != asked.gpus:
            return False
        last = [one.launch for item in found for one in (item.inner or [item])]
        return self.lightning or all(launch.launchers and LAUNCHERS[launch.launchers[-1]].script and "endpoint" not in launch.told[-1] and
                   ("nodes" not in launch.told[-1] or self.number(launch.told[-1]["nodes"]) == 1) and
                   not (launch.launchers[-1] == "deepspeed" and ("launcher" in launch.told[-1] or self.has_hostfile(launch))) for launch in last)

    def cpus_of(self, learners: Count) -> Optional[int]:
        tasks = self.asked.tasks or 1
        if self.tasks_are_cpus and learners.most and learners.least == learners.most < tasks:
            return max((self.asked.cpus or 1) * tasks // learners.most, 1)
        if self.asked.cpus is None or not learners.most or not self.one_starts_many:
            return None
        return max(self.asked.cpus * tasks // learners.most, 1) if learners.most > tasks else None

    def job_options(self, found: List[Found], learners: Count) -> List[Tuple[str, str]]:
        """Options for sbatch: for a script without #SBATCH lines, those with which srun itself asked Slurm for
        nodes."""
        if self.lines:
            nodes = self.nodes_by_tasks(learners) or (1 if self.is_bound_to_one_node(found, learners) else None)
            cpus = self.cpus_of_srun(found) or (self.cpus_of(learners) if self.asked.cpus is None else None)
            return ([("nodes", str(nodes))] if nodes else []) + ([("cpus-per-task", str(cpus))] if cpus else [])
        options: Dict[str, str] = {}
        for item in found:
            for what, told in (item.launch.told[0] if item.launch.launchers[:1] == ["srun"] else {}).items():
                name = {"nodes": "nodes", "cpus": "cpus-per-task"}.get(what, what[4:] if what.startswith("job:") else "")
                if not name:
                    continue
                number = self.number(told)
                value = shell.unquoted(told.raw) if "$" not in told.raw else str(number) if number is not None else self.values.text(told.raw, told.at)
                if value is None:
                    self.note(told.at, f"srun's --{name}={told.raw}: its value is not known here; give it to sbatch")
                else:
                    options[name] = value
            told_first = item.launch.told[0] if item.launch.launchers[:1] == ["srun"] else {}
            nodes = self.nodes_of_tasks(told_first)
            if nodes and "nodes" not in options and item.many.most == learners.most:
                options["nodes"] = str(nodes)
                if (learners.most or 0) % nodes == 0 and not self.one_starts_many:
                    options["ntasks-per-node"] = str((learners.most or 0) // nodes)
        if options:
            self.note(0, "srun asked Slurm for nodes itself; now this is a batch script: sbatch takes it")
        return list(options.items())

    def cpus_of_srun(self, found: List[Found]) -> Optional[int]:
        """The CPUs per task if only srun gives them, and there is only one srun."""
        told = found[0].launch.told[0] if len(found) == 1 and found[0].launch.launchers == ["srun"] and not self.one_starts_many else {}
        return self.number(told["cpus"]) if "cpus" in told and self.asked.cpus is None else None

    def nodes_of_tasks(self, told: Dict[str, launches.Told]) -> Optional[int]:
        """How many nodes srun takes for its tasks; None if it does not tell."""
        total, each = self.number(told.get("total")), self.number(told.get("each"))
        return -(-total // each) if total and each else None

    def gpus_told(self, told: launches.Told, gres: bool = False) -> Optional[int]:
        """The GPUs in "4", "a100:4" or, for --gres, "gpu:a100:4". The number may be a variable."""
        for item in shell.unquoted(told.raw).split(","):
            match = re.fullmatch((r"(?:gpu|dcu|mlu|npu)(?::(?=.)|$)" if gres else "") + r"(?:([\w.+-]*[A-Za-z][\w.+-]*)(?::|$))?(.*)", item)
            if match:
                self.asked.gpu_type = self.asked.gpu_type or match.group(1) or ""
                return self.number(launches.Told(match.group(2), told.at)) if match.group(2) else 1
        return None

    def per_node(self, learners: Count) -> Optional[int]:
        """--ntasks-per-node, if the remaining script reads it, or if together with --ntasks it gives the number of
        nodes."""
        nodes, most = self.asked.nodes, learners.most
        if not nodes or not most or most % nodes or learners.least != most:
            return None
        if self.nodes_by_tasks(learners) and most == self.asked.tasks:
            return most // nodes
        if most > nodes > 1 and self.asked.per_node == self.asked.gpus_per_node == most // nodes:
            return most // nodes  # else Slurm could place more learners on one of the nodes than on the others
        live = any(not self.is_taken(match.start()) for match in re.finditer(r"\bSLURM_NTASKS_PER_NODE\b", self.text))
        return most // nodes if live else None

    def nodes_by_tasks(self, learners: Count) -> Optional[int]:
        """The number of nodes, if only --ntasks and --ntasks-per-node together give it."""
        asked = self.asked
        if "nodes" in asked.given or "ntasks" not in asked.given or not asked.per_node or learners.least != learners.most:
            return None
        return asked.nodes
