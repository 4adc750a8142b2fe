"""Run two models by ONNX Runtime: to confirm that they differ, beyond what rounding can do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.shapes import static_shape
from onnx_passes.ops.expand import expand_nodes, uses_custom_operators

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

_MOST_UNITS = 2.0**10


def differ(before: ir.Model, after: ir.Model, inputs: Sequence[int], feeds: Feeds) -> bool | None:
    """Tell whether two models differ on some inputs by more than rounding; nothing if they cannot be run."""
    order = [value.name or "" for value in before.graph.inputs]
    a = run(before, {name: feeds[name] for name in order})
    names = {value.name or "": order[index] for value, index in zip(after.graph.inputs, inputs, strict=True)}
    b = run(after, {name: feeds[source] for name, source in names.items()})
    if a is None or b is None or len(a) != len(b):
        return None
    return any(_differ(x, y) for x, y in zip(a, b, strict=True))


def run(model: ir.Model, feeds: Feeds) -> list[Array] | None:
    """Run a model once; None if ONNX Runtime cannot."""
    return Runner(model)(feeds)


class Runner:
    """One model in ONNX Runtime, without its optimizations."""

    def __init__(self, model: ir.Model) -> None:
        import onnxruntime as ort

        runtime: Any = ort
        if uses_custom_operators(model.graph):
            model = copy_model(model)
            expand_nodes(model)
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = None
        with contextlib.suppress(Exception):  # Whatever it cannot run is not confirmed.
            data = ir.to_proto(model).SerializeToString()
            self._session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    @property
    def is_loaded(self) -> bool:
        """Return whether ONNX Runtime takes the model."""
        return self._session is not None

    def __call__(self, feeds: Feeds) -> list[Array] | None:
        """Run the model once; None if ONNX Runtime cannot."""
        if self._session is None:
            return None
        try:
            return [np.asarray(array) for array in self._session.run(None, dict(feeds))]
        except Exception:  # noqa: BLE001 - whatever it cannot run is not confirmed
            return None


def _differ(x: Array, y: Array) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return True
    if x.dtype.kind in "biuOSU":
        return not np.array_equal(x, y)
    with np.errstate(all="ignore"):
        a, b = x.astype(np.float64), y.astype(np.float64)
        if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(np.isinf(a), np.isinf(b)):
            return True
        finite = np.isfinite(a)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return True
        size = max(np.abs(a[finite]).max(initial=0.0), np.abs(b[finite]).max(initial=0.0))
        unit = float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 2.0**-8
        return bool((np.abs(a - b)[finite] > _MOST_UNITS * unit * size).any())


def drawn(model: ir.Model, amount: int = 2) -> Iterator[dict[str, Array]]:
    """Draw ordinary inputs."""
    for seed in range(amount):
        random = np.random.default_rng(seed)
        found: dict[str, Array] = {}
        for value in model.graph.inputs:
            shape, dtype = static_shape(value), value.dtype
            if shape is None or dtype is None or dtype is ir.DataType.STRING:
                return
            if dtype is ir.DataType.BOOL:
                array = random.random(shape) < 0.5
            elif dtype.is_integer():
                array = random.integers(max(int(dtype.min), -9), min(int(dtype.max), 9), shape)
            else:
                array = random.standard_normal(shape)
            found[value.name or ""] = np.asarray(array).astype(dtype.numpy())
        yield found
