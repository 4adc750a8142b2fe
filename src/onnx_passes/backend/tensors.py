"""Tensors of an integer network, from the values of a model: data types, containers and ranges."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.backend.containers import NUMPY, container_of
from onnx_passes.backend.network import Tensor
from onnx_passes.datatypes import DataType, IntegerType
from onnx_passes.datatypes.types import BFLOAT16, FLOAT16, FLOAT64, integer_ends, smallest_for_values
from onnx_passes.graph.constants import constant
from onnx_passes.graph.wording import dim_text
from onnx_passes.numbers.range import exact_up_to
from onnx_passes.ops.facts.sums import Bounds
from onnx_passes.passes.datatypes.facts import Fact, fact_of_element, fact_of_input
from onnx_passes.passes.datatypes.inference import DatatypeInference, operands

_FLOATS = {ir.DataType.FLOAT16: FLOAT16, ir.DataType.BFLOAT16: BFLOAT16, ir.DataType.DOUBLE: FLOAT64}


class Tensors:
    """The tensors of one model, one for each value; a constant has another one if it is not converted."""

    def __init__(self, model: ir.Model) -> None:
        self.ranges = ranges_of(model)
        inference = DatatypeInference(self.ranges)
        inference.run(model.graph)
        self._facts = inference.results
        self._inexact = set(inference.inexact)
        self._integral: dict[ir.Value, bool] = {}
        self._made: dict[tuple[ir.Value, bool], Tensor] = {}
        self._names: set[str] = set()

    def of(self, value: ir.Value, source: str = "", *, small: bool = False) -> Tensor:
        """Return the tensor of a value; ``small`` stores the integers of a constant in the smallest container."""
        held = constant(value)
        key = value, small and held is not None
        if key not in self._made:
            name = self._free(value.name or "")
            self._made[key] = self._computed(value, name, source) if held is None else _constant(name, held, small)
        return self._made[key]

    def constant(self, name: str, values: np.ndarray, *, small: bool) -> Tensor:
        """Make a constant that the model does not have in this form."""
        return _constant(self._free(name), values, small)

    def is_integer(self, value: ir.Value) -> bool:
        """Return whether a value holds exact integers."""
        if value not in self._integral:
            held = constant(value)
            self._integral[value] = self._computes_integers(value) if held is None else integer_ends(held) is not None
        return self._integral[value]

    def _computes_integers(self, value: ir.Value) -> bool:
        if value in self._inexact or not isinstance(self._fact(value).datatype, IntegerType):
            return False
        known, node = self.ranges.get(value), value.producer()
        is_float = value.dtype is None or value.dtype.is_floating_point()
        if not is_float or known is None or known.grid is None or known.grid.exact:
            return True
        # Bounds include rounding errors, which sums of integers do not have.
        if node is None or not known.grid.is_held(exact_up_to(value.dtype)):
            return False
        return all(self.is_integer(each) for each in operands(node))

    def bounds(self, value: ir.Value | None) -> Bounds | None:
        """Return the smallest and the largest integer of a value that holds integers."""
        if value is None:
            return 0, 0
        held = constant(value)
        if held is not None:
            return integer_ends(held)
        if not self.is_integer(value):
            return None
        low, high = self._integers(value)
        return int(low.min()), int(high.max())

    def _computed(self, value: ir.Value, name: str, source: str) -> Tensor:
        shape = (
            None
            if value.shape is None
            else tuple(dim if isinstance(dim, int) else dim_text(dim) for dim in value.shape)
        )
        datatype = self._fact(value).datatype if self.is_integer(value) else element_type(value.dtype)
        if datatype.is_integer:
            low, high = self._integers(value)
        else:
            known = self.ranges.get(value)
            low, high = (np.array(-np.inf), np.array(np.inf)) if known is None else (known.low, known.high)
        if low.size == high.size == 1:
            low, high = np.asarray(low).reshape(()), np.asarray(high).reshape(())
        return Tensor(name, shape, datatype, container_of(datatype), low, high, source)

    def _integers(self, value: ir.Value) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of integers: per channel from the scaled integer, or else from the type."""
        known = self.ranges.get(value)
        grid = None if known is None else known.whole_grid
        if grid is not None:
            low, high = grid.bounds
            return np.asarray(low, np.int64), np.asarray(high, np.int64)
        ends = self._fact(value).range
        assert ends is not None
        return np.array(ends.low), np.array(ends.high)

    def _fact(self, value: ir.Value) -> Fact:
        found = self._facts.get(value)
        return fact_of_input(value) if found is None else found

    def _free(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._names:
            name, number = f"{wanted}_{number}", number + 1
        self._names.add(name)
        return name


def _constant(name: str, values: np.ndarray, small: bool) -> Tensor:
    datatype = smallest_for_values(values) if small else element_type(ir.DataType.from_numpy(values.dtype))
    container = container_of(datatype)
    held = values.astype(NUMPY[container]) if small and container in NUMPY else values
    low, high = (held.min(), held.max()) if held.size and held.dtype.kind in "iuf" else (0, 0)
    least, most = (np.array(end, np.int64 if datatype.is_integer else np.float64) for end in (low, high))
    return Tensor(name, held.shape, datatype, container, least, most, values=held)


def element_type(dtype: ir.DataType | None) -> DataType:
    """Return the data type with all values of an element type."""
    known = None if dtype is None else _FLOATS.get(dtype)
    return fact_of_element(dtype).datatype if known is None else known
