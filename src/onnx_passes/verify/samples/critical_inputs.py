"""Values of inputs at which elementwise chains behind them cross decision boundaries of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.allowed_values import annotated_grid
from onnx_passes.fragment.chains import ElementwiseChain, NoBoundaryError, Solver, chain_of
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.integers import freedom
from onnx_passes.verify.samples.reference import Array
from onnx_passes.verify.samples.sizes import demanded

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
    """Tell whether an input may hold any number of its type."""
    if value.dtype is None or value.dtype not in _SOLVED or annotated_grid(value) is not None:
        return False
    if value.dtype.is_integer():
        return freedom(model, value) == "any"
    return demanded(model, value, {}, floats=True) is None
