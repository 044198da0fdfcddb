# SPDX-License-Identifier: Apache-2.0
"""Support for PyTorch, from 1.13 on. It is only imported if the program has imported torch itself."""
from __future__ import annotations

import functools
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from . import dtypes, library
from .errors import MismatchError, StateError, is_of_device, of_framework
from .memory import Memory
from .parts import Parts

_NAME_OF: Dict[torch.dtype, str] = {getattr(torch, name): name for name in dtypes.DTYPES if isinstance(getattr(torch, name, None), torch.dtype)}
_DTYPE_OF: Dict[str, torch.dtype] = {name: dtype for dtype, name in _NAME_OF.items()}
PLAIN_TYPES = frozenset([torch.Tensor, torch.nn.Parameter])  # not what is derived from them, as lazy parameters are


# ---- tensors as memory -------------------------------------------------------------------------------------------------

class _Copy(NamedTuple):
    """A tensor that tensor_to_store() has made, and may overwrite. All other tensors are the program's."""

    tensor: torch.Tensor


def describe_tensor(tensor: torch.Tensor, where: str) -> Tuple[str, Tuple[int, ...]]:
    """(dtype name, shape). StateError if it is not a plain dense tensor."""
    name = _NAME_OF.get(tensor.dtype)
    if (name is not None and type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided and not tensor.is_meta
            and not getattr(tensor, "is_nested", False)):
        return name, tuple(tensor.shape)  # nearly all tensors; the slower checks below only choose a sentence
    if getattr(tensor, "is_nested", False):
        raise StateError("%s: a nested tensor cannot be stored; give its parts (unbind()) or a padded one" % where)
    if torch.nn.parameter.is_lazy(tensor):
        raise StateError("%s: it has no shape yet; run the module once on a batch before attach()" % where)
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        what = "quantized" if tensor.is_quantized else "meta" if tensor.device.type == "meta" else str(tensor.layout)
        raise StateError("%s: a %s tensor cannot be stored; give a dense one" % (where, what))
    if type(tensor).__name__ != "DTensor" and tensor.device.type == "cpu" and tensor.numel() and not tensor.data_ptr():
        raise StateError("%s: a tensor of the class %s has no memory of its own; give the plain tensors of which it is made" %
                         (where, type(tensor).__name__))
    if tensor.dtype not in _NAME_OF:
        raise StateError("%s: a tensor of %s cannot be stored; allowed: %s" % (where, tensor.dtype, ", ".join(dtypes.DTYPES)))
    return _NAME_OF[tensor.dtype], tuple(int(n) for n in tensor.shape)


def dtype_name(dtype: torch.dtype) -> Optional[str]:
    """Our name of an element type; None if it cannot be stored."""
    return _NAME_OF.get(dtype)


def dtype_of(name: str) -> torch.dtype:
    """torch's element type of that name. StateError if this torch lacks it."""
    if name not in _DTYPE_OF:
        raise StateError("the checkpoint holds a tensor of %s, which torch %s does not have" % (name, torch.__version__))
    return _DTYPE_OF[name]


def dtensor_parts(tensor: Any) -> Any:
    """The parts of a DTensor that this learner holds; the local tensor if every learner has the whole. StateError for partial
    sums."""
    from torch.distributed.tensor import Shard as Sharded
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    placements = tensor.placements
    if any(placement.is_partial() for placement in placements):
        raise StateError("a DTensor of partial sums cannot be stored; redistribute it to Shard() or Replicate() first")
    local = tensor.to_local()
    if not any(isinstance(placement, Sharded) for placement in placements):
        return local
    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, placements)
    boxes = ((tuple(offset), local.detach()),) if tuple(shape) == tuple(local.shape) and local.numel() else ()
    name, _ = describe_tensor(local, "DTensor")
    return Parts("torch", name, tuple(tensor.shape), boxes, not all(isinstance(p, Sharded) for p in placements))


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def is_reached(tensor: torch.Tensor) -> bool:
    """Whether libdlckpt itself can read and write the tensor's memory on a GPU, as it is."""
    return bool(tensor.is_cuda and tensor.numel() and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()
                and library.reaches(tensor.data_ptr()))


def _memory(tensor: torch.Tensor, finish: Any = None) -> Memory:
    return Memory(tensor.data_ptr() if tensor.numel() else 0, tensor, finish)


def _strided(tensor: torch.Tensor) -> Optional[Memory]:
    """The memory of a CPU tensor with gaps or in another order; None if it cannot be used as it is."""
    if tensor.device.type != "cpu" or not tensor.numel() or tensor.is_conj() or tensor.is_neg():
        return None
    return Memory(tensor.data_ptr(), tensor, None, tuple(n * tensor.element_size() for n in tensor.stride()))


def copy_tensor(target: torch.Tensor, values: torch.Tensor) -> None:
    """Copies the values in place; autograd does not see it."""
    with torch.no_grad():
        target.copy_(values)


def tensor_to_store(tensor: torch.Tensor, staging: Any = None, strided: bool = False, device: bool = False) -> Memory:
    """See arrays.to_store. If a CUDA tensor is copied here, the copy comes after all work queued on its stream so far."""
    tensor = tensor.detach()
    if _is_plain(tensor):
        return _memory(tensor)
    if device and is_reached(tensor):
        return Memory(tensor.data_ptr(), tensor, None, None, True)
    in_place = _strided(tensor) if strided else None
    if in_place is not None:
        return in_place
    with torch.no_grad():
        fits = isinstance(staging, _Copy) and staging.tensor.dtype == tensor.dtype and staging.tensor.shape == tensor.shape
        copy = staging if fits else _Copy(torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu"))
        copy.tensor.copy_(tensor)
    return _memory(copy.tensor)._replace(owner=copy)


def tensor_into_place(tensor: torch.Tensor, device: bool = False) -> Memory:
    """See arrays.into_place."""
    tensor = tensor.detach()
    if _is_plain(tensor):
        return _memory(tensor)
    if device and is_reached(tensor):
        return Memory(tensor.data_ptr(), tensor, None, None, True)
    in_place = _strided(tensor) if 0 not in tensor.stride() else None
    if in_place is not None:
        return in_place
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")

    def finish() -> None:
        with torch.no_grad():
            tensor.copy_(host)

    return _memory(host, finish)


def empty_tensor(dtype: str, shape: Tuple[int, ...]) -> torch.Tensor:
    """A new CPU tensor. StateError if this torch lacks the element type."""
    return torch.empty(shape, dtype=dtype_of(dtype), device="cpu")  # not the program's default device


def size_of(sizes: List[int]) -> torch.Size:
    return torch.Size(int(n) for n in sizes)


def named_constant(kind: str, name: str) -> Any:
    """torch.float32 and the like, or a torch.device, from its name."""
    value = torch.device(name) if kind == "torch.device" else getattr(torch, name, None)
    if kind == "torch.dtype" and not isinstance(value, torch.dtype):
        raise StateError("the checkpoint names the torch dtype '%s', which torch %s does not have" % (name, torch.__version__))
    return value


# ---- modules, optimizers, schedulers -----------------------------------------------------------------------------------

def unwrap(module: Any) -> Any:
    """The user's own module inside DistributedDataParallel, DataParallel and torch.compile, so that a checkpoint has the same
    names however, and at whatever world size, the program is run."""
    while True:
        if isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            module = module.module
        elif type(module).__name__ == "OptimizedModule" and hasattr(module, "_orig_mod"):
            module = module._orig_mod
        else:
            return module


def unwrap_accelerate(value: Any) -> Any:
    """The optimizer or scheduler inside a wrapper of Hugging Face Accelerate."""
    inner = {"AcceleratedOptimizer": "optimizer", "AcceleratedScheduler": "scheduler"}.get(type(value).__name__)
    return getattr(value, inner) if inner is not None and type(value).__module__.startswith("accelerate.") else value


def is_scheduler(value: Any) -> bool:
    """True for torch's learning rate schedulers (their base class was renamed in torch 2.0; ReduceLROnPlateau had none)."""
    lr_scheduler = torch.optim.lr_scheduler
    names = ("LRScheduler", "_LRScheduler", "ReduceLROnPlateau")
    return isinstance(value, tuple(getattr(lr_scheduler, name) for name in names if hasattr(lr_scheduler, name)))


def scheduler_state(scheduler: Any) -> Dict[str, Any]:
    """Its state_dict() without functions: torch 1.13's OneCycleLR puts a method of its own into it. Functions are code, which
    the program brings itself, and load_state_dict() keeps attributes that are missing in the state."""
    return {key: value for key, value in scheduler.state_dict().items() if not callable(value)}


def load_module(module: torch.nn.Module, state: Dict[str, Any], name: str) -> None:
    """Loads in place. MismatchError if torch refuses it."""
    try:
        module.load_state_dict(state, strict=True)
    except (RuntimeError, TypeError, ValueError) as error:
        raise of_framework(error, name) if is_of_device(error) else MismatchError("%s: %s" % (name, error)) from error


def check_optimizer(optimizer: torch.optim.Optimizer, state: Any, name: str) -> List[str]:
    """Sentences on what does not fit; [] if load_state_dict() will accept it. ``state`` may have stand-ins for tensors."""
    groups = state.get("param_groups") if isinstance(state, dict) else None
    if not isinstance(groups, list):
        return ["%s: the checkpoint does not hold the state of an optimizer under this name" % name]
    ours = [len(group["params"]) for group in optimizer.param_groups]
    theirs = [len(group.get("params", ())) for group in groups]
    if ours != theirs:
        return ["%s: the checkpoint has parameter groups of %s parameters, the program's optimizer %s; make the same groups before "
                "attach()" % (name, theirs, ours)]
    problem = _check_slots(optimizer, state.get("state"), name)
    if problem:
        return [problem]
    missing = sorted(set(optimizer.defaults) - set().union(*groups)) if groups else []
    known = sorted(set().union(*groups) - set(optimizer.defaults) - {"params", "initial_lr", "max_lr", "min_lr", "swa_lr",
                                                                   "param_names", "max_momentum", "base_momentum"})
    if missing and known:
        return ["%s: the checkpoint is of another kind of optimizer (it has %s and lacks %s; the program uses %s)" %
                (name, ", ".join(known), ", ".join(missing), type(optimizer).__name__)]
    return []


# State of torch's own optimizers that has the shape of the parameter.
_SLOTS_LIKE_PARAMETERS = frozenset(["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg", "acc_delta",
                                    "grad_avg", "sum", "prev", "step_size", "ax"])


def _check_slots(optimizer: torch.optim.Optimizer, slots: Any, name: str) -> str:
    """A sentence if per-parameter state has another shape than its parameter (for example because the order of the parameters
    has changed), which load_state_dict() would accept silently; else ""."""
    if type(optimizer).__module__.split(".")[0] != "torch" or type(optimizer).__name__ == "LBFGS":
        return ""
    shapes = [list(param.shape) for group in optimizer.param_groups for param in group["params"]]
    pairs = slots["v"] if isinstance(slots, dict) and slots.get("$") == "dict" else []
    for index, slot in pairs:
        if not isinstance(index, int) or not 0 <= index < len(shapes) or not isinstance(slot, dict):
            continue
        for key, saved in slot.items():
            if key in _SLOTS_LIKE_PARAMETERS and isinstance(saved, dict) and saved.get("$") == "tensor" and \
                    saved.get("shape") != shapes[index] and saved.get("shape") != []:
                return "%s: %s of parameter %d is %s in the checkpoint, and the program's parameter is %s" % (
                    name, key, index, saved.get("shape"), shapes[index])
    return ""


def check_scheduler(scheduler: Any, saved: Dict[str, Any], name: str) -> List[str]:
    """Sentences on what does not fit. load_state_dict() accepts anything, but another kind of scheduler has settings with other
    names. Names that begin with _ differ between versions of torch and are ignored."""
    ours = {key for key in scheduler_state(scheduler) if not key.startswith("_")} - {"verbose"}
    theirs = {key for key in saved if not key.startswith("_")} - {"verbose"}
    if ours - theirs and theirs - ours:
        return ["%s: the checkpoint is of another kind of scheduler (it has %s and lacks %s; the program uses %s)" %
                (name, ", ".join(sorted(theirs - ours)), ", ".join(sorted(ours - theirs)), type(scheduler).__name__)]
    return []


def guarded_addresses(optimizer: torch.optim.Optimizer) -> List[int]:
    """The addresses of everything that the optimizer's step() changes, on the host or a GPU."""
    found = [param for group in optimizer.param_groups for param in group["params"]]
    found += [value for slot in optimizer.state.values() for value in slot.values() if isinstance(value, torch.Tensor)]
    return [tensor.data_ptr() for tensor in found if tensor.device.type in ("cpu", "cuda") and type(tensor).__name__ != "DTensor"]


def before_step(optimizer: torch.optim.Optimizer, call: Callable[[], None]) -> Callable[[], None]:
    """Makes each optimizer.step() call ``call`` first. Returns a function that undoes this."""
    if hasattr(optimizer, "register_step_pre_hook"):  # PyTorch 2.0
        handle = optimizer.register_step_pre_hook(lambda *_args, **_kwargs: call())
        return lambda: handle.remove()
    step = optimizer.step

    @functools.wraps(step)  # schedulers read attributes of step
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call()
        return step(*args, **kwargs)

    optimizer.step = wrapped  # type: ignore[method-assign]
    return lambda: optimizer.__dict__.pop("step", None)


def parameters_of(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    """Its parameters in the order of the indices in its state_dict()."""
    return [param for group in optimizer.param_groups for param in group["params"]]


def like_parameter(parameter: Optional[torch.Tensor], dtype: str, shape: Tuple[int, ...], sharded: bool) -> Any:
    """A new tensor for state of an optimizer's parameter that has the parameter's shape; None if it has not. The state of a divided
    parameter (FSDP) is divided in the same way. That of any other is on the host and lies in memory in the parameter's order, because
    fused optimizers take both by their order in memory; load_state_dict() moves it to the parameter's device in that order."""
    if parameter is None or tuple(parameter.shape) != shape:
        return None
    if sharded:
        return torch.zeros_like(parameter.detach(), dtype=dtype_of(dtype))
    if type(parameter) not in PLAIN_TYPES:
        return None
    return torch.empty_like(parameter.detach(), dtype=dtype_of(dtype), device="cpu", memory_format=torch.preserve_format)


def _bring_to_devices(optimizer: torch.optim.Optimizer, state: Dict[str, Any], name: str) -> None:
    """Moves state that has its parameter's shape to the parameter's device, as load_state_dict() does without naming a tensor that it
    fails to move."""
    ordered = parameters_of(optimizer)
    for index, slots in state["state"].items():
        parameter = ordered[index] if isinstance(index, int) and 0 <= index < len(ordered) else None
        if parameter is None or parameter.device.type == "cpu" or not isinstance(slots, dict) or parameter.dim() == 0:
            continue
        for key, value in slots.items():
            if isinstance(value, torch.Tensor) and type(value) in PLAIN_TYPES and value.shape == parameter.shape:
                try:
                    slots[key] = value.to(parameter.device)
                except Exception as error:
                    raise of_framework(error, "%s/state/%d/%s" % (name, index, key)) from error


def load_optimizer(optimizer: torch.optim.Optimizer, state: Dict[str, Any], name: str) -> None:
    """Loads hyperparameters and per-parameter state; the latter is created if the optimizer has none yet (before its first
    step()). MismatchError if torch refuses it."""
    _bring_to_devices(optimizer, state, name)
    try:
        optimizer.load_state_dict(state)
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise of_framework(error, name) if is_of_device(error) else MismatchError("%s: %s" % (name, error)) from error
    # load_state_dict() casts state to the parameter's element type. An optimizer whose state has another one (float32 moments
    # of bfloat16 weights) would go on with rounded values, so the saved values are put back.
    ordered = parameters_of(optimizer)
    for index, saved in state["state"].items():
        if not isinstance(index, int) or index >= len(ordered):
            continue
        current = optimizer.state[ordered[index]]
        for key, value in saved.items():
            now = current.get(key)
            if isinstance(value, torch.Tensor) and isinstance(now, torch.Tensor) and now.dtype != value.dtype:
                current[key] = value.to(now.device)


# ---- random states -----------------------------------------------------------------------------------------------------

def random_state() -> Dict[str, Any]:
    """The state of the default generators: the CPU's and, if CUDA is in use, that of the current device."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        try:
            state["cuda"] = torch.cuda.get_rng_state()
        except Exception as error:
            raise of_framework(error, "the random generator of the GPU", "its state could not be read") from error
    return state


def set_random_state(state: Dict[str, Any]) -> None:
    """Sets the states of random_state(). A CUDA state is ignored on a machine without CUDA."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        try:
            torch.cuda.set_rng_state(state["cuda"])
        except Exception as error:
            raise of_framework(error, "the random generator of the GPU", "its state could not be set") from error


# ---- torch.distributed -------------------------------------------------------------------------------------------------

def draw_run_id() -> Optional[str]:
    """A random name, drawn by rank 0 and sent to all, or None if torch.distributed is not initialised. Collective. It does not
    use the random generators."""
    dist: Any = torch.distributed
    if not (dist.is_available() and dist.is_initialized()):
        return None
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    try:
        drawn = torch.tensor(list(os.urandom(16)), dtype=torch.uint8, device=device)
        dist.broadcast(drawn, src=0)
        return "torch-" + bytes(drawn.cpu().tolist()).hex()
    except Exception as error:
        raise of_framework(error, "the name of this run", "learner 0 could not send it to the others") from error
