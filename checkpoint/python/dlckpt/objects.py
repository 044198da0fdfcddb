# SPDX-License-Identifier: Apache-2.0
"""The objects given to attach(), each as a tree to be saved, checked and given back. One class per kind of object; entry()
chooses."""
from __future__ import annotations

import random
import sys
from typing import Any, Dict, List, Optional

from . import arrays, codec
from .errors import MismatchError, StateError


class PerRank:
    """Marks an object or value given to attach() as this learner's own: each learner saves its own and gets it back if the
    world size is the same. On another world size, learner r gets what learner r saved, and new learners keep what they
    started with. Its arrays are kept inside a record of at most 1 GiB."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Entry:
    """One object. ``per_rank`` entries are saved by each learner."""

    per_rank = False

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value

    def capture(self) -> Any:
        """The tree of its state now; arrays in it may be the live ones."""
        raise NotImplementedError

    def same_everywhere(self, path: str) -> bool:
        """Whether all learners surely hold the same bits at this path of the checkpoint, so that the writing can be divided
        over them. Else learner 0's copy is written: never a mixture of several learners' values."""
        return False

    def check(self, saved: Any) -> List[str]:
        """What does not fit, one sentence each, before anything is changed. ``saved`` is the checkpoint's tree, with the
        reference dicts of codec.py in place of arrays."""
        return []

    def targets(self) -> Any:
        """The tree whose arrays a restore may write into."""
        return self.capture()

    def make_target(self, path: str, reference: Dict[str, Any]) -> Any:
        """An array to restore this reference into, where targets() has none and a plain new one will not do; else None."""
        return None

    def apply(self, state: Any) -> None:
        """Gives the state back. ``state``'s arrays are the live ones of capture() where those fitted."""
        raise NotImplementedError


class StatefulEntry(Entry):
    """Anything with state_dict() and load_state_dict(). If it has check_state_dict(), which returns sentences or [], that is
    asked before anything is changed."""

    def check(self, saved: Any) -> List[str]:
        check = getattr(self.value, "check_state_dict", None)
        return ["%s: %s" % (self.name, problem) for problem in check(saved)] if callable(check) else []

    def capture(self) -> Any:
        return self.value.state_dict()

    def apply(self, state: Any) -> None:
        self.value.load_state_dict(state)


class ModuleEntry(StatefulEntry):
    """torch.nn.Module, without the wrappers of data parallelism."""

    def __init__(self, name: str, value: Any) -> None:
        from . import torch_adapter
        super().__init__(name, torch_adapter.unwrap(value))

    def capture(self) -> Any:
        state = dict(self.value.state_dict())
        # Buffers are not: the running statistics of batch normalisation differ until DistributedDataParallel copies learner
        # 0's to the others at the start of the next train step.
        self._parameters = {codec.escape(self.name) + "/" + codec.escape(name) for name, _ in self.value.named_parameters()}
        return state

    def same_everywhere(self, path: str) -> bool:
        return path in self._parameters

    def check(self, saved: Any) -> List[str]:
        if not isinstance(saved, dict):
            return ["%s: the checkpoint does not hold a module under this name" % self.name]
        return compare_arrays(self.name, saved, self.capture())

    def apply(self, state: Any) -> None:
        from . import torch_adapter
        torch_adapter.load_module(self.value, state, self.name)


class OptimizerEntry(StatefulEntry):
    """torch.optim.Optimizer."""

    def same_everywhere(self, path: str) -> bool:
        return True

    def make_target(self, path: str, reference: Dict[str, Any]) -> Any:
        # The state of a divided parameter (FSDP) is divided as the parameter is.
        prefix = codec.escape(self.name) + "/state/"
        if not reference.get("sharded") or not path.startswith(prefix):
            return None
        from . import torch_adapter
        index = path[len(prefix):].split("/")[0]
        return torch_adapter.like_parameter(self.value, index, reference["dtype"], tuple(reference["shape"]))

    def check(self, saved: Any) -> List[str]:
        from . import torch_adapter
        return torch_adapter.check_optimizer(self.value, saved, self.name)

    def apply(self, state: Any) -> None:
        from . import torch_adapter
        torch_adapter.load_optimizer(self.value, state, self.name)


class SchedulerEntry(StatefulEntry):
    """A learning rate scheduler of torch."""

    def capture(self) -> Any:
        from . import torch_adapter
        return torch_adapter.scheduler_state(self.value)


class ArraysEntry(Entry):
    """An array, tensor or Shard, or a dict of them: restored in place."""

    def same_everywhere(self, path: str) -> bool:
        return True

    def capture(self) -> Any:
        return dict(self.value) if isinstance(self.value, dict) else self.value

    def check(self, saved: Any) -> List[str]:
        live = self.capture()
        if isinstance(live, dict) != (isinstance(saved, dict) and "$" not in saved):
            return ["%s: the program gives %s where the checkpoint holds %s" %
                    ((self.name,) + (("a dict of arrays", "one array") if isinstance(live, dict) else
                                     ("one array", "a dict of arrays")))]
        return compare_arrays(self.name, saved, live) if isinstance(live, dict) else \
            compare_arrays(self.name, {"": saved}, {"": live})

    def apply(self, state: Any) -> None:
        live, state = (self.value, state) if isinstance(self.value, dict) else ({"": self.value}, {"": state})
        for key, target in live.items():
            if state[key] is not target:  # kept in a learner's own record, not restored in place
                arrays.copy(target, state[key])


class TorchGeneratorEntry(Entry):
    """torch.Generator: each learner's own."""

    per_rank = True

    def capture(self) -> Any:
        return self.value.get_state()

    def apply(self, state: Any) -> None:
        self.value.set_state(state)


class NumpyGeneratorEntry(Entry):
    """numpy.random.Generator and RandomState: each learner's own."""

    per_rank = True

    def capture(self) -> Any:
        return self.value.bit_generator.state if hasattr(self.value, "bit_generator") else self.value.get_state(legacy=False)

    def apply(self, state: Any) -> None:
        if hasattr(self.value, "bit_generator"):
            self.value.bit_generator.state = state
        else:
            self.value.set_state(state)


class PythonRandomEntry(Entry):
    """random.Random: each learner's own."""

    per_rank = True

    def capture(self) -> Any:
        return self.value.getstate()

    def apply(self, state: Any) -> None:
        self.value.setstate(state)


class ValueEntry(Entry):
    """A plain value inside PerRank: a dict or list, changed in place."""

    per_rank = True

    def capture(self) -> Any:
        return self.value

    def apply(self, state: Any) -> None:
        if isinstance(self.value, dict):
            self.value.clear()
            self.value.update(state)
        else:
            self.value[:] = state


class DefaultRandomEntry(Entry):
    """The generators that programs use without naming them: Python's random, NumPy's legacy global one, torch's. Each
    learner's own. A module that the program has not imported has no state to save."""

    per_rank = True

    def capture(self) -> Any:
        state: Dict[str, Any] = {"python": random.getstate()}
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:
            state["numpy"] = numpy_random.get_state(legacy=False)
        if "torch" in sys.modules:
            from . import torch_adapter
            state["torch"] = torch_adapter.random_state()
        return state

    def apply(self, state: Any) -> None:
        random.setstate(state["python"])
        numpy_random = sys.modules.get("numpy.random")
        if "numpy" in state and numpy_random is not None:
            numpy_random.set_state(state["numpy"])
        if "torch" in state and "torch" in sys.modules:
            from . import torch_adapter
            torch_adapter.set_random_state(state["torch"])


def compare_arrays(name: str, saved: Dict[str, Any], live: Dict[str, Any]) -> List[str]:
    """Differences in names, dtypes and global shapes between a checkpoint's references and live arrays, as sentences."""
    problems = []
    lacking = [key for key in live if key not in saved]
    unknown = [key for key in saved if key not in live]
    if lacking:
        problems.append("%s: the checkpoint lacks %s" % (name, _some(lacking)))
    if unknown:
        problems.append("%s: the program lacks %s" % (name, _some(unknown)))
    differing = []
    for key, value in live.items():
        if key not in saved or not arrays.is_array(value):
            continue
        info, found = arrays.describe(value, name), saved[key]
        ours = "%s %s" % (info.dtype, list(info.global_shape))
        theirs = "%s %s" % (found.get("dtype"), found.get("shape")) if isinstance(found, dict) else "no array"
        if ours != theirs:
            differing.append("%s (%s in the checkpoint, %s in the program)" % (key or name, theirs, ours))
    if differing:
        problems.append("%s: another dtype or shape of %s" % (name, _some(differing)))
    return problems


def _some(names: List[str]) -> str:
    shown = ", ".join(str(name) for name in names[:4])
    return shown if len(names) <= 4 else "%s and %d more" % (shown, len(names) - 4)


def entry(name: str, value: Any) -> Entry:
    """The entry for what the user gave under this name. StateError if it is none of the kinds that are known."""
    if isinstance(value, PerRank):
        inner = value.value
        found: Entry = ValueEntry(name, inner) if isinstance(inner, (dict, list)) else entry(name, inner)
        found.per_rank = True
        return found
    torch = sys.modules.get("torch")
    if torch is not None:
        from . import torch_adapter
        value = torch_adapter.unwrap_accelerate(value)
        if isinstance(value, torch.nn.Module):
            return ModuleEntry(name, value)
        if isinstance(value, torch.optim.Optimizer):
            return OptimizerEntry(name, value)
        if torch_adapter.is_scheduler(value):
            return SchedulerEntry(name, value)
        if isinstance(value, torch.Generator):
            return TorchGeneratorEntry(name, value)
    adapted = _of_other_frameworks(name, value)
    if adapted is not None:
        return adapted
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None and isinstance(value, (numpy_random.Generator, numpy_random.RandomState)):
        return NumpyGeneratorEntry(name, value)
    if isinstance(value, random.Random):
        return PythonRandomEntry(name, value)
    if arrays.is_array(value):
        return ArraysEntry(name, value)
    if isinstance(value, dict) and value and all(isinstance(k, str) and arrays.is_array(v) for k, v in value.items()):
        return ArraysEntry(name, value)
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return StatefulEntry(name, value)
    raise StateError("attach(%s=...): an object of type %s cannot be attached; allowed: objects with state_dict() and "
                     "load_state_dict(), arrays, tensors, Shards, dicts of them, pytrees of jax.Array, variables, models and "
                     "optimizers of Keras, random generators, dlckpt.PerRank of these. "
                     "Plain values belong into job.state['%s']" % (name, type(value).__name__, name))


def _of_other_frameworks(name: str, value: Any) -> Optional[Entry]:
    """TensorFlow's and Keras' variables, models and optimizers, and pytrees of JAX."""
    if "tensorflow" in sys.modules or "keras" in sys.modules:
        from . import keras_adapter
        variables = keras_adapter.variables_of(value)
        if variables is not None:
            return keras_adapter.VariablesEntry(name, value)
    if "jax" in sys.modules:
        from . import jax_adapter
        if jax_adapter.is_tree(value):
            return jax_adapter.TreeEntry(name, value)
    return None


def apply_error(name: str, error: Exception) -> MismatchError:
    """What a user's own load_state_dict() raised, with the name of the object in front."""
    return MismatchError("%s: its load_state_dict() refused the checkpoint's state: %s: %s" %
                         (name, type(error).__name__, error))
