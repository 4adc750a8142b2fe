"""Choose integers that a model accepts as inputs, and values at which it crosses a decision boundary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.chains import ElementwiseChain, NoBoundaryError, Solver, chain_of
from onnx_passes.graph.tensor_types import integer_limits
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.facts.allowed_values import annotated_grid
from onnx_passes.ops.facts.inputs import DEMANDS, Freedom, Indices, compares, divides, freedom_of_use, values_beside
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.numpy_files import Array
from onnx_passes.verify.samples.sizes import demanded, reached

_LEVELS = (0.0, 1.0, 100.0, -1000.0, 0.01)
_NOISES = (0.0, 1e-3, 1e-4, 0.0, 1e-2)
"""Flat rows: zeros, ones that vary a little, large ones that hardly vary, a constant, small ones that vary as much."""


def put_some(array: Array, pool: Array, random: np.random.Generator, *, share: float) -> None:
    """Exchange a share of the elements, one at least, for those of a pool, each in turn."""
    count = max(1, int(array.size * share))
    places = random.permutation(array.size)[:count]
    array.reshape(-1)[places] = np.resize(random.permutation(pool), count)


def flat_rows(array: Array, random: np.random.Generator) -> Array:
    """Make every row, of images every plane, nearly constant, each in a way of its own."""
    rows = math.prod(array.shape[: 1 if array.ndim == 2 else 2]) if array.ndim > 1 else 1
    drawn = array.reshape(rows, -1).astype(np.float64)
    kinds = random.permutation(np.arange(rows) % len(_LEVELS)) if rows > 1 else random.integers(1, 3, size=1)
    flat = np.array(_LEVELS)[kinds, None] + drawn * np.array(_NOISES)[kinds, None]
    return flat.reshape(array.shape)


_SIGNED_INDICES = 11
"""Since this version of the operators, negative indices count from the end."""
ENDS = 4
"""Of the integers that show much, those that small inputs get as well."""
_BEYOND = (2**7, 2**8, 2**15, 2**16, 2**24 + 1, 2**31, 2**32, 2**53 + 1)
"""The first integers that narrower types cannot hold."""


def freedom(model: ir.Model, value: ir.Value) -> Freedom:
    """Return which integers an input may hold, as far as one can see what is derived from them."""
    found: Freedom = "any" if value.uses() else "signed"
    todo: list[tuple[ir.Value, bool]] = [(value, False)]
    seen = {value}
    while todo:
        given, is_float = todo.pop()
        for node, index in given.uses():
            here = (
                "counts"
                if node.graph is not model.graph or node.domain != ""
                else freedom_of_use(node, index, is_float)
            )
            if here == "counts":
                return here
            found = here if here == "signed" else found
            if compares(node) or (is_float and traits_of(node).kind not in ("elementwise", "movement")):
                # What is computed of many floats is nobody's size or index.
                continue
            target = ir.DataType(node.attributes.get_int("to", 0))
            made = target.is_floating_point() if node.op_type == "Cast" else is_float
            todo += [(output, made) for output in node.outputs if output not in seen]
            seen.update(node.outputs)
    return found


def any_integers(dtype: ir.DataType) -> list[int]:
    """Return the ends of a type first, then integers beyond the ends of narrower ones, of both signs."""
    low, high = integer_limits(dtype)
    half = 2 ** (dtype.bitwidth // 2)
    found = [low, high, low + 1, high // 3, -(high // 7), high - 1, half, *_BEYOND, half - 1, half + 1, low // 2]
    found += [-number - 1 for number in (half, *_BEYOND)]
    return [number for number in dict.fromkeys(found) if low <= number <= high]


def put_negative(model: ir.Model, value: ir.Value, array: Array, high: int, random: np.random.Generator) -> None:
    """Let some of drawn indices count from the end, and some divisors be negative, where the operators take that."""
    kinds = {_negative(model, node, index) for node, index in _demanding(model, value)}
    if kinds == {"index"}:
        pool = [-1, -high - 1, *random.integers(-high - 1, 0, 2)]
        put_some(array, np.array(pool, array.dtype), random, share=0.5)
    elif kinds == {"divisor"}:
        array[random.permutation(array.size) % 2 == 1] *= -1


def _demanding(model: ir.Model, value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    for node, index in reached(model, value):
        if index in (DEMANDS.get(node) or {}):
            yield node, index


def _negative(model: ir.Model, node: ir.Node, index: int) -> str:
    version = model.graph.opset_imports.get("", 1) if node.version is None else node.version
    if node.domain != "":
        return ""
    if divides(node):
        return "divisor"
    is_index = isinstance((DEMANDS.get(node) or {}).get(index), Indices)
    return "index" if is_index and version >= _SIGNED_INDICES else ""


def decisive_values(model: ir.Model, value: ir.Value) -> list[int]:
    """Return the integers of an input for which comparisons with constants come out otherwise than for most."""
    if value.dtype is None or not value.dtype.is_integer():
        return []
    low, high = integer_limits(value.dtype)
    found = dict.fromkeys(
        number for node, index in reached(model, value) if node.domain == "" for number in values_beside(node, index)
    )
    return [number for number in found if low <= number <= high]


_MOST_ROUNDS = 8
_SOLVED = {
    *(ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16),
    *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
    *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32),
}


class Critical:
    """The critical values of a model, as far as its inputs reach them element by element."""

    def __init__(self, model: ir.Model, inputs: Iterable[ir.Value], executor: Executor, seed: int) -> None:
        self._executor, self._seed = executor, seed
        self._chains: dict[str, ElementwiseChain] = {}
        self._solvers: dict[tuple[str, tuple[int, ...]], Solver | None] = {}
        for value in inputs:
            chain = chain_of(model, value) if _is_free(model, value) else None
            if chain is not None:
                self._chains[str(value.name)] = chain

    def rounds(self, shapes: Mapping[str, Sequence[int]]) -> int:
        """Count the samples that it takes to see all critical values from both sides, within reason."""
        solvers = [self._solver(name, tuple(shapes[name])) for name in self._chains]
        return min(_MOST_ROUNDS, max((solver.rounds for solver in solvers if solver is not None), default=0))

    def put_into(self, array: Array, name: str, random: np.random.Generator, number: int, *, share: float) -> None:
        """Exchange a share of the elements of an input for values at or beside critical ones."""
        solver = self._solver(name, array.shape)
        if solver is None or not array.size:
            return
        try:
            values, found = solver.solve(number)
        except (ExecutionError, NoBoundaryError):
            self._solvers[name, array.shape] = None
            return
        corner = tuple(slice(size) for size in solver.shape)
        kept: Array = np.asarray(random.random(solver.shape) <= share)
        array[corner] = np.where(np.where(kept, found, kept), values, array[corner])

    def _solver(self, name: str, shape: tuple[int, ...]) -> Solver | None:
        if (name, shape) not in self._solvers:
            try:
                chain = self._chains.get(name)
                self._solvers[name, shape] = None if chain is None else Solver(chain, shape, self._executor, self._seed)
            except (ExecutionError, NoBoundaryError, ValueError):
                self._solvers[name, shape] = None
        return self._solvers[name, shape]


def _is_free(model: ir.Model, value: ir.Value) -> bool:
    """Return whether an input may hold any number of its type."""
    if value.dtype is None or value.dtype not in _SOLVED or annotated_grid(value) is not None:
        return False
    if value.dtype.is_integer():
        return freedom(model, value) == "any"
    return demanded(model, value, {}, floats=True) is None
