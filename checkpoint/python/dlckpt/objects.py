# SPDX-License-Identifier: Apache-2.0
"""The objects given to attach(), each as a tree that is saved, checked and restored. There is a class for each kind of object;
entry() chooses it."""
from __future__ import annotations

import random
import sys
from typing import Any, Dict, List, Optional

from . import arrays, codec
from .entries import Entry, compare_arrays, same_kind
from .errors import StateError, of_framework


class PerRank:
    """Marks an object or value given to attach() as this learner's own: each learner saves its own and gets it back if the
    world size is the same. With another world size learner r gets what learner r saved, and new learners keep what they started
    with. Arrays in it are stored in a record of at most 1 GiB."""

    def __init__(self, value: Any) -> None:
        self.value = value


class StatefulEntry(Entry):
    """Anything with state_dict() and load_state_dict(). If it has check_state_dict(), which returns a list of sentences, that
    is called before anything is changed."""

    def check(self, saved: Any) -> List[str]:
        check = getattr(self.value, "check_state_dict", None)
        if not callable(check):
            return []
        plain = codec.mapping(saved)
        return ["%s: %s" % (self.name, problem) for problem in check(saved if plain is None else plain)]

    def capture(self) -> Any:
        return self.value.state_dict()

    def apply(self, state: Any) -> None:
        self.value.load_state_dict(state)


class ModuleEntry(StatefulEntry):
    """torch.nn.Module, without the wrappers of data parallelism."""

    in_place = True
    takes_tensors = True

    def __init__(self, name: str, value: Any) -> None:
        from . import torch_adapter
        super().__init__(name, torch_adapter.unwrap(value))

    def capture(self) -> Any:
        state = dict(self.value.state_dict())
        # Buffers are not among them: the running statistics of batch normalisation differ until DistributedDataParallel copies
        # learner 0's to the others at the start of the next train step.
        self._parameters = {codec.escape(self.name) + "/" + codec.escape(name) for name, _ in self.value.named_parameters()}
        return state

    def same_everywhere(self, path: str) -> bool:
        return path in self._parameters

    def check(self, saved: Any) -> List[str]:
        plain = codec.mapping(saved)
        if plain is None:
            return ["%s: the checkpoint does not hold a module under this name" % self.name]
        return compare_arrays(self.name, plain, self.capture())

    def apply(self, state: Any) -> None:
        from . import torch_adapter
        torch_adapter.load_module(self.value, state, self.name)


class OptimizerEntry(StatefulEntry):
    """torch.optim.Optimizer."""

    _parameters: List[Any] = []

    def same_everywhere(self, path: str) -> bool:
        return True

    def targets(self) -> Any:
        from . import torch_adapter
        self._parameters = torch_adapter.parameters_of(self.value)
        return self.capture()

    def make_target(self, path: str, reference: Dict[str, Any]) -> Any:
        prefix = codec.escape(self.name) + "/state/"
        if not path.startswith(prefix):
            return None
        from . import torch_adapter
        index = path[len(prefix):].split("/")[0]
        parameter = self._parameters[int(index)] if index.isdigit() and int(index) < len(self._parameters) else None
        return torch_adapter.like_parameter(parameter, reference["dtype"], tuple(reference["shape"]), bool(reference.get("sharded")))

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

    def check(self, saved: Any) -> List[str]:
        from . import torch_adapter
        plain = codec.mapping(saved)
        if plain is None:
            return ["%s: the checkpoint does not hold the state of a scheduler under this name" % self.name]
        return torch_adapter.check_scheduler(self.value, plain, self.name)


class ScalerEntry(StatefulEntry):
    """A GradScaler of torch. One that is disabled has an empty state, which an enabled one refuses; it then begins as the program
    made it, since the run that saved had no scale."""

    def apply(self, state: Any) -> None:
        if state:
            self.value.load_state_dict(state)


class ArraysEntry(Entry):
    """An array, tensor or Shard, or nested dicts and lists of them: restored in place."""

    in_place = True
    takes_tensors = True
    all_same_everywhere = True

    def same_everywhere(self, path: str) -> bool:
        return True

    def capture(self) -> Any:
        return self.value

    def check(self, saved: Any) -> List[str]:
        if _same_kinds(self.value, saved):
            return []
        live, theirs = _leaves(self.value), _saved_leaves(saved)
        if arrays.is_array(self.value) != (list(theirs) == [""]):
            return ["%s: the program gives %s where the checkpoint holds %s" %
                    ((self.name,) + (("one array", "several") if arrays.is_array(self.value) else ("several arrays", "one")))]
        return compare_arrays(self.name, theirs, live)

    def apply(self, state: Any) -> None:
        restored = _leaves(state)
        for key, target in _leaves(self.value).items():
            if restored[key] is not target:  # it is stored in a learner's own record, so it was not restored in place
                try:
                    arrays.copy(target, restored[key])
                except Exception as error:
                    raise of_framework(error, "%s/%s" % (self.name, key) if key else self.name) from error


def is_tree_of_arrays(value: Any) -> bool:
    """Whether it is an array, or dicts (with texts as keys), lists and tuples that contain nothing but arrays, and at least
    one."""
    if type(value) is dict:
        return bool(value) and all(type(key) is str and is_tree_of_arrays(item) for key, item in value.items())
    if type(value) in (list, tuple):
        return bool(value) and all(map(is_tree_of_arrays, value))
    return arrays.is_array(value)


def _same_kinds(live: Any, saved: Any) -> bool:
    """Whether the checkpoint's tree certainly has arrays of the same dtypes and shapes at the same places. If not, the slower
    comparison of all paths finds the differences."""
    if isinstance(live, dict):
        plain = codec.mapping(saved)
        return plain is not None and plain.keys() == live.keys() and all(_same_kinds(item, plain[key]) for key, item in live.items())
    if type(live) in (list, tuple):
        items = saved.get("v") if isinstance(saved, dict) and saved.get("$") == "tuple" else saved
        return isinstance(items, list) and len(items) == len(live) and all(map(_same_kinds, live, items))
    return same_kind(live, saved)


def _leaves(tree: Any, prefix: str = "") -> Dict[str, Any]:
    """The arrays by their path in the tree; a single one has the path ""."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if type(tree) in (list, tuple) else None
    return {prefix: tree} if pairs is None else _joined(pairs, prefix, _leaves)


def _saved_leaves(tree: Any, prefix: str = "") -> Dict[str, Any]:
    """The same for a checkpoint's tree."""
    plain = codec.mapping(tree)
    items = tree.get("v") if isinstance(tree, dict) and tree.get("$") == "tuple" else tree
    pairs = plain.items() if plain is not None else enumerate(items) if isinstance(items, list) else None
    return {prefix: tree} if pairs is None else _joined(pairs, prefix, _saved_leaves)


def _joined(pairs: Any, prefix: str, leaves: Any) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for key, item in pairs:
        path = (prefix + "/" if prefix else "") + codec.escape(key)
        if arrays.is_array(item):  # nearly all items
            found[path] = item
        else:
            found.update(leaves(item, path))
    return found


class RandomEntry(Entry):
    """Random generators; each learner saves its own. They are restored twice: by the restore, and again when the first train
    step begins, because a program draws from them during its set-up (iter() of a DataLoader does)."""

    per_rank = True
    _held: Any = None  # the restored state, until the first train step begins

    def now(self) -> Any:
        raise NotImplementedError

    def check(self, saved: Any) -> List[str]:
        """Compares the kinds of the two generators."""
        ours, theirs = self.kind(codec.encode(self.now(), self.name, None)), self.kind(saved)
        return [] if ours == theirs else ["%s: the checkpoint holds the state of another kind of generator (%s; the program uses %s)" %
                                          (self.name, theirs, ours)]

    def kind(self, saved: Any) -> Any:
        """The kind of generator that an encoded state belongs to."""
        return saved.get("bit_generator", "unknown") if isinstance(saved, dict) else "unknown"

    def set(self, state: Any) -> None:
        raise NotImplementedError

    def capture(self) -> Any:
        return self.now() if self._held is None else self._held

    def apply(self, state: Any) -> None:
        self.set(state)
        self._held = state

    def begin(self) -> None:
        """The first train step after a restore begins: sets the restored state again."""
        if self._held is not None:
            self.set(self._held)
            self._held = None

    def let_go(self) -> None:
        """Train steps were run without begin(), so what was drawn since counts: forgets the restored state."""
        self._held = None


class TorchGeneratorEntry(RandomEntry):
    """torch.Generator."""

    def now(self) -> Any:
        return self.value.get_state()

    def kind(self, saved: Any) -> Any:
        return "%s bytes" % saved.get("shape") if isinstance(saved, dict) else "unknown"

    def set(self, state: Any) -> None:
        self.value.set_state(state)


class NumpyGeneratorEntry(RandomEntry):
    """numpy.random.Generator and RandomState."""

    def now(self) -> Any:
        return self.value.bit_generator.state if hasattr(self.value, "bit_generator") else self.value.get_state(legacy=False)

    def set(self, state: Any) -> None:
        if hasattr(self.value, "bit_generator"):
            self.value.bit_generator.state = state
        else:
            self.value.set_state(state)


class PythonRandomEntry(RandomEntry):
    """random.Random."""

    def now(self) -> Any:
        return self.value.getstate()

    def kind(self, saved: Any) -> Any:
        items = saved.get("v") if isinstance(saved, dict) else None
        return "version %s" % items[0] if isinstance(items, list) and items else "unknown"

    def set(self, state: Any) -> None:
        self.value.setstate(state)


class ValueEntry(Entry):
    """A plain value inside PerRank: a dict or list, changed in place."""

    per_rank = True

    def capture(self) -> Any:
        return self.value

    def check(self, saved: Any) -> List[str]:
        if type(saved) is list if type(self.value) is list else type(saved) is dict and saved.get("$", "dict") == "dict":
            return []
        return ["%s: the program gives a %s, and the checkpoint holds something else" % (self.name, type(self.value).__name__)]

    def apply(self, state: Any) -> None:
        if isinstance(self.value, dict):
            self.value.clear()
            self.value.update(state)
        else:
            self.value[:] = state


class DefaultRandomEntry(RandomEntry):
    """The generators that programs use without naming them: Python's random, NumPy's legacy global one, torch's. The state of a
    module that the program has not imported is not saved."""

    def now(self) -> Any:
        state: Dict[str, Any] = {"python": random.getstate()}
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:
            state["numpy"] = numpy_random.get_state(legacy=False)
        if "torch" in sys.modules:
            from . import torch_adapter
            state["torch"] = torch_adapter.random_state()
        return state

    def kind(self, saved: Any) -> Any:
        return "Python" if isinstance(saved, dict) and "python" in saved else "unknown"

    def set(self, state: Any) -> None:
        random.setstate(state["python"])
        numpy_random = sys.modules.get("numpy.random")
        if "numpy" in state and numpy_random is not None:
            numpy_random.set_state(state["numpy"])
        if "torch" in state and "torch" in sys.modules:
            from . import torch_adapter
            torch_adapter.set_random_state(state["torch"])


def entry(name: str, value: Any) -> Entry:
    """The entry for an object that the user gave under this name. StateError if it is of an unknown kind."""
    if isinstance(value, PerRank):
        inner = value.value
        found: Entry = ValueEntry(name, inner) if type(inner) in (dict, list) else entry(name, inner)
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
        if any(base.__name__ == "GradScaler" and base.__module__.startswith("torch.") for base in type(value).__mro__):
            return ScalerEntry(name, value)
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
    if is_tree_of_arrays(value):
        return ArraysEntry(name, value)
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return StatefulEntry(name, value)
    raise StateError("attach(%s=...): an object of type %s cannot be attached; allowed: objects with state_dict() and "
                     "load_state_dict(), arrays, tensors, Shards, dicts and lists of them, pytrees of jax.Array, variables, models and "
                     "optimizers of Keras, random generators, dlckpt.PerRank of these. "
                     "Plain values belong into job.state['%s']" % (name, type(value).__name__, name))


def _of_other_frameworks(name: str, value: Any) -> Optional[Entry]:
    """The entry for variables, models and optimizers of TensorFlow and Keras, and for pytrees of JAX; None for anything else."""
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
