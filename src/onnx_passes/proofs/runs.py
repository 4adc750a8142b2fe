"""Runs of two models in ONNX Runtime, to confirm that they differ, beyond what rounding can do.

Parts of models are run on inputs that are given or drawn. Whether a difference between parts is one of the whole models
is decided by runs of these, on special values as well.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.describe import expand_nodes, uses_custom_operators
from onnx_passes.ops.number_systems.values import same
from onnx_passes.proofs.excuses import ROUNDING

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

_MOST_SECONDS = 5.0
"""After which a run is given up of a model with a loop, which may be endless."""
_HALF = ir.DataType.FLOAT16
_MOST_UNITS = 2.0**10
"""Units of rounding, of the largest result, by which results may be apart where rounding is excused."""


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
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = None
        self._may_not_end = False
        with contextlib.suppress(Exception):  # Whatever it cannot run is not confirmed.
            if uses_custom_operators(model.graph):
                model = copy_model(model)
                expand_nodes(model)
            self._may_not_end = any(node.op_type == "Loop" for node in _all_nodes(model))
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
            with self._options() as options:
                return [np.asarray(array) for array in self._session.run(None, dict(feeds), options)]
        except Exception:  # noqa: BLE001 - whatever it cannot run is not confirmed
            return None

    @contextlib.contextmanager
    def _options(self) -> Generator[Any]:
        """Yield options of a run, which end one that may not end by itself."""
        if not self._may_not_end:
            yield None
            return
        import onnxruntime as ort

        runtime: Any = ort
        options = runtime.RunOptions()
        clock = threading.Timer(_MOST_SECONDS, lambda: setattr(options, "terminate", True))
        clock.start()
        try:
            yield options
        finally:
            clock.cancel()


def leaves_halves_unrounded(model: ir.Model) -> bool:
    """Return whether ONNX Runtime may keep results of float16 in float32, depending on their readers.

    On a CPU it computes most operators of float16 in float32, between Casts of its own, and drops those that meet. That
    takes two nodes at least: a single one, nodes that move elements and the Casts of the model itself round.
    """
    nodes = list(_all_nodes(model))
    if not any(_HALF in types for types in map(_types, nodes)):
        return False
    computing = [node for node in nodes if not _keeps_elements(node) and _types(node) & {_HALF, None}]
    return len(computing) > 1 and any(node.op_type != "Cast" for node in computing)


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()


def _keeps_elements(node: ir.Node) -> bool:
    return traits_of(node).kind == "movement" or node.op_type in ("Constant", "Shape", "Size")


def _types(node: ir.Node) -> set[ir.DataType | None]:
    return {value.dtype for value in (*node.inputs, *node.outputs) if value is not None}


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


_SPECIALS = (np.inf, -np.inf, np.nan, 0.0, -0.0)


@dataclass(frozen=True)
class Counterexample:
    """Inputs of two models, and the places of the outputs on which they differ."""

    feeds: Feeds
    outputs: tuple[int, ...]


class WholeRuns:
    """Two models with one interface and known sizes, run side by side by ONNX Runtime.

    Results differ if their bits do, all NaN being one, and no flag of fast math in ``allow`` excuses it; outputs in
    ``ignored`` are not looked at.
    """

    def __init__(
        self, before: ir.Model, after: ir.Model, allow: Collection[str], ignored: Container[int], seconds: float
    ) -> None:
        self._model = before
        self._runners = Runner(before), Runner(after)
        self._allow = frozenset(allow)
        self._ignored = ignored
        self._seconds = seconds

    def try_on(self, example: Mapping[str, Array]) -> Counterexample | None:
        """Run on inputs given in part, for these or smaller sizes; the others are drawn."""
        for feeds in drawn(self._model, 1):
            given = {
                name: np.resize(example[name], array.shape).astype(array.dtype, copy=False)
                for name, array in feeds.items()
                if name in example and example[name].size
            }
            return self._run({**feeds, **given})
        return None

    def search(self) -> Counterexample | None:
        """Run on ordinary inputs, then on special values: all of an input, or one among ordinary ones."""
        deadline = time.perf_counter() + self._seconds
        for feeds in (*drawn(self._model), *self._special()):
            found = self._run(feeds)
            if found is not None or time.perf_counter() > deadline:
                return found
        return None

    def _special(self) -> Iterator[Feeds]:
        for ordinary in drawn(self._model, 1):
            for name, array in ordinary.items():
                for number in self._numbers(array.dtype):
                    yield {**ordinary, name: np.full_like(array, number)}
                    if array.size > 1:
                        alone = array.copy()
                        alone.reshape(-1)[0] = number
                        yield {**ordinary, name: alone}
            for place in range(6):
                yield {
                    name: np.full_like(array, numbers[place % len(numbers)])
                    for name, array in ordinary.items()
                    if (numbers := self._numbers(array.dtype))
                }

    def _numbers(self, dtype: np.dtype[Any]) -> list[Any]:
        """List special values of a type; where rounding is excused, none that make intermediate results overflow."""
        if dtype.kind == "b":
            return [False, True]
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return [0, 1, info.max, info.min, info.max // 2 + 1]
        largest = float(ir.DataType.from_numpy(dtype).max)
        return [*_SPECIALS, *(() if self._allow & ROUNDING else (largest, -largest))]

    def _run(self, feeds: Feeds) -> Counterexample | None:
        first, second = (runner(feeds) for runner in self._runners)
        if first is None or second is None:
            is_alone = all(runner.is_loaded for runner in self._runners) and first is not second
            return Counterexample(feeds, tuple(range(len(self._model.graph.outputs)))) if is_alone else None
        pairs = enumerate(zip(first, second, strict=True))
        wrong = tuple(place for place, (a, b) in pairs if place not in self._ignored and self._differ(a, b))
        return Counterexample(feeds, wrong) if wrong else None

    def _differ(self, x: Array, y: Array) -> bool:
        if x.shape != y.shape or x.dtype != y.dtype:
            return True
        if x.dtype.kind in "OSU":
            return not np.array_equal(x, y)
        wrong = ~same(x, y)
        if x.dtype.kind in "biu" or not wrong.any():
            return bool(wrong.any())
        with np.errstate(all="ignore"):
            a, b = x.astype(np.float64), y.astype(np.float64)
            nan = np.isnan(a) | np.isnan(b)
            infinite = (np.isinf(a) | np.isinf(b)) & ~nan
            zeros = (a == 0) & (b == 0)
            rounded = ~(nan | infinite | zeros)
            if self._allow & ROUNDING:
                finite = np.isfinite(a) & np.isfinite(b)
                size = max(np.abs(a[finite]).max(initial=0.0), np.abs(b[finite]).max(initial=0.0))
                unit = float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 2.0**-8
                rounded &= np.abs(a - b) > _MOST_UNITS * unit * size
        special = {"nnan": nan, "ninf": infinite, "nsz": zeros}
        grave = [where for flag, where in special.items() if flag not in self._allow]
        return any(bool((wrong & where).any()) for where in (*grave, rounded))
