"""The second engine: onnx's reference evaluator, with operators of quantized networks as functions of the model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.core.build import collect
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.copy import copy_model
from onnx_passes.testing.fuzz.case import Arrays
from onnx_passes.testing.fuzz.difference import tensors_in

_ATOL, _RTOL = 1e-4, 1e-3


class Reference:
    """Runs a model in numpy, operator by operator; ``obstacle`` is the reason if it cannot."""

    def __init__(self, model: ir.Model) -> None:
        from onnx.reference import ReferenceEvaluator

        self.obstacle = ""
        self._names = [str(value.name) for value in model.graph.outputs]
        try:
            runnable = copy_model(model)
            for pass_ in collect("inject-ops"):
                pass_.run(runnable, Context())
            _tell_overloads_apart(runnable)
            self._evaluator: Any = ReferenceEvaluator(ir.to_proto(runnable))
        except (OnnxPassesError, NotImplementedError, RuntimeError, ValueError, TypeError, KeyError) as error:
            self.obstacle = f"{type(error).__name__}: {error}"

    def run(self, feed: Arrays) -> Arrays | None:
        """Return the results, None if the evaluator fails."""
        if self.obstacle:
            return None
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = self._evaluator.run(None, feed)
        except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing of a pass
            self.obstacle = f"{type(error).__name__}: {error}"
            return None
        return {name: np.asarray(array) for name, array in zip(self._names, results, strict=True)}


def _tell_overloads_apart(model: ir.Model) -> None:
    """Rename the variants of a function, since the evaluator does not distinguish them."""
    functions = list(model.functions.values())
    for node in (node for holder in (model.graph, *functions) for node in holder.all_nodes()):
        if node.overload:
            node.op_type, node.overload = f"{node.op_type}.{node.overload}", ""
    model.functions.clear()
    for function in functions:
        if function.overload:
            function.name, function.overload = f"{function.name}.{function.overload}", ""
        model.functions[function.identifier()] = function


def agree(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    """Return whether two engines compute the same, up to rounding."""
    return all(_alike(array, second[name]) for name, array in first.items())


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, list) or isinstance(b, list):
        first, second = list(tensors_in([a])), list(tensors_in([b]))
        return len(first) == len(second) and all(map(_alike, first, second))
    if a.dtype == object or b.dtype == object:
        return a.shape == b.shape and bool((a == b).all())
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    x, y = a.astype(np.float64), b.astype(np.float64)
    precision = 64 * float(np.finfo(a.dtype).eps) if a.dtype.kind == "f" else 2.0**-4
    with np.errstate(all="ignore"):
        near = np.isfinite(x) & (np.abs(x - y) <= max(_ATOL, precision) + max(_RTOL, precision) * np.abs(x))
    return bool((near | (x == y) | (np.isnan(x) & np.isnan(y))).all())
