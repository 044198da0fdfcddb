# SPDX-License-Identifier: Apache-2.0
"""Support for TensorFlow and Keras 3: variables, which are read by numpy() and written by assign(). Keras may run on any of its
backends."""
from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

from . import codec
from .entries import Entry, compare_arrays
from .errors import StateError


def _is_variable(value: Any) -> bool:
    tensorflow, keras = sys.modules.get("tensorflow"), sys.modules.get("keras")
    return tensorflow is not None and hasattr(tensorflow, "Variable") and isinstance(value, tensorflow.Variable) or \
        keras is not None and hasattr(keras, "Variable") and isinstance(value, keras.Variable)


def variables_of(value: Any) -> Optional[Dict[str, Any]]:
    """The variables of a Keras model, layer, optimizer or metric by path, of a dict or list of variables by key, or a single
    variable; None for any other value."""
    if _is_variable(value):
        return {"": value}
    if isinstance(value, dict) and value and all(isinstance(k, str) and _is_variable(v) for k, v in value.items()):
        return dict(value)
    if isinstance(value, (list, tuple)) and value and all(map(_is_variable, value)):
        return {str(number): variable for number, variable in enumerate(value)}
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(value, (keras.Layer, keras.optimizers.Optimizer, keras.metrics.Metric)):
        return None
    found: Dict[str, Any] = {}
    for variable in value.variables:
        path = variable.path
        while path in found:
            path += "+"
        found[path] = variable
    return found


class VariablesEntry(Entry):
    """Variables, which are restored by assign()."""

    takes_tensors = True

    def same_everywhere(self, path: str) -> bool:
        return True

    def _variables(self) -> Dict[str, Any]:
        return variables_of(self.value) or {}

    def capture(self) -> Any:
        import numpy as np
        state = {}
        for path, variable in self._variables().items():
            values = np.asarray(variable.numpy())
            if values.dtype.kind in "OSU":
                raise StateError("%s: a variable of text cannot be stored; allowed: variables of numbers: %s" % (self.name, path))
            state[path] = values
        return state

    def targets(self) -> Any:
        import numpy as np
        return {path: np.empty(values.shape, values.dtype) for path, values in self.capture().items()}

    def check(self, saved: Any) -> List[str]:
        plain = codec.mapping(saved)
        problems = compare_arrays(self.name, plain, self.capture()) if plain is not None else \
            ["%s: the checkpoint does not hold variables under this name" % self.name]
        if problems and getattr(self.value, "built", True) is False:
            problems.append("%s is not built yet: call its build() before attach(), for an optimizer build(model."
                            "trainable_variables)" % self.name)
        return problems

    def apply(self, state: Any) -> None:
        for path, variable in self._variables().items():
            variable.assign(state[path])
