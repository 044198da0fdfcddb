# SPDX-License-Identifier: Apache-2.0
"""Which framework the words of a script, or the imports of a program, speak of."""
import re
from typing import List

from . import shell
from .counts import Count, Found
from .launchers import LAUNCHERS
from .rendezvous import Meeting

MOST_PROGRAMS = 40  # that are read for what they import
FRAMEWORKS = (("horovod", r"horovod"), ("pytorch", r"torch|lightning|MASTER_ADDR|deepspeed|accelerate|\bddp|[-_]ddp|\bddp_|--launcher[= ]\W?(slurm|pytorch)|\bnemo\b|megatron|"
              r"trainer\.(devices|num_nodes)|fairseq|deepy\.py|huggingface|fsdp|--num[-_]nodes"),
              ("tensorflow", r"TF_CONFIG|tensorflow|keras"), ("jax", r"\bjax\b|\bflax\b|JAX_"),
              ("mpi", r"\bmpi4py|\bMPICH_\w+=|\bI_MPI_\w+=|BACKEND=mpi\b"))
MODULES = (("horovod", "horovod"), ("pytorch", "torch|torchvision|lightning|pytorch_lightning|deepspeed|accelerate|transformers"), ("jax", "jax|flax"),
           ("tensorflow", "tensorflow|keras"), ("mpi", "mpi4py|petsc4py|dolfin|dolfinx|firedrake"))


def in_words(text: str) -> str:
    """The framework of which the words of a script speak."""
    text = re.sub(r"^[ \t]*#(?!SBATCH)[^\n]*", "", text, flags=re.M)
    return next((name for name, pattern in FRAMEWORKS if re.search(pattern, text, re.I)), "")


def imported(program: str) -> str:
    """The framework that a program of Python's imports."""
    return next((name for name, modules in MODULES if re.search(r"^[ \t]*(import|from)[ \t]+(" + modules + r")\b", program, re.M)), "")


def old_horovod(text: str) -> str:
    """The version of Horovod of which a script speaks, if it is one from before 0.18, which knows only MPI; else empty."""
    named = re.search(r"^[^#\n]*\bhorovod(?:==?|[/@-])v?(0\.(\d+)[\w.]*)", text, re.I | re.M)
    return named.group(1) if named and int(named.group(2)) < 18 else ""


class Frameworks(Meeting):
    def framework_in(self, program: str) -> str:
        """Of a program, or of the packages beside it that it imports."""
        content = self.content_of(program) or ""
        return imported(content) or next((name for name in (imported(text) for text in self.beside(program, content)) if name), "")

    def framework_of(self, found: List[Found], learners: Count) -> str:
        name = self.framework_named(found, learners)
        version = old_horovod(self.text) if name == "horovod" else ""
        if version:
            self.note(0, f"Horovod {version} knows only MPI, so its learners are started as programs of MPI (--dl-framework=mpi)")
        return "mpi" if version else name

    def framework_named(self, found: List[Found], learners: Count) -> str:
        every = [one.launch for item in found for one in [item] + item.inner]
        said = [LAUNCHERS[name].framework for launch in every for name in launch.launchers if LAUNCHERS[name].framework]
        said = [name for name in said if name != "mpi"] or said
        if said and said[-1] != "mpi":
            return said[-1]
        programs = [shell.unquoted(name) for name in shell.names_ending(self.text, "py")]
        programs += re.findall(r"\$\{\w+:?-([^{}$`]+\.py)\}", self.text)
        programs += [name.replace(".", "/") + ".py" for name in re.findall(r"\s-m\s+([A-Za-z_][\w.]*)", self.text)]
        programs = list(dict.fromkeys(programs))[:MOST_PROGRAMS]
        of_mpi = any(launch.launchers[:1] == ["mpirun"] for launch in every)
        if any(self.takes_ranks_of_mpi(name, of_mpi) for name in programs):
            return "mpi"
        for name in [framework for name in programs for framework in [self.framework_in(name)] if framework] or [in_words(self.text)] + \
                [in_words(self.script_content(item) or "") for item in found]:
            if name == "tensorflow" and said:
                self.note(0, "TensorFlow under mpirun is taken to be Horovod's; if it is not, write --dl-framework=tensorflow")
                return "horovod"
            if name:
                return name
        if not said and (learners.most or 0) > 1 and not all(self.is_alone_in_job(item) for item in found) and re.search(r"\bpython[\d.]*\s|\.py\b", self.text):
            self.note(0, "nothing here tells which framework the program uses: if it is one of those that dlctl frameworks lists, add --dl-framework=NAME")
        return said[-1] if said else ""
