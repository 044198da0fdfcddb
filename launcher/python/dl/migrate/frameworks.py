# SPDX-License-Identifier: Apache-2.0
"""Which framework the words of a script, or the imports of a program, speak of. Pure."""
import re

FRAMEWORKS = (("horovod", r"horovod"), ("pytorch", r"torch|lightning|MASTER_ADDR|deepspeed|accelerate|\bddp|[-_]ddp|\bddp_|--launcher[= ]\W?(slurm|pytorch)|\bnemo\b|megatron|"
              r"trainer\.(devices|num_nodes)|fairseq|deepy\.py|huggingface|fsdp|--num[-_]nodes"),
              ("tensorflow", r"TF_CONFIG|tensorflow|keras"), ("jax", r"\bjax\b|\bflax\b|JAX_"),
              ("mpi", r"\bmpi4py|\bMPICH_\w+=|\bI_MPI_\w+=|\w*BACKEND=mpi\b"))
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
