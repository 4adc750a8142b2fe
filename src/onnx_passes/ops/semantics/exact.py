"""Exact values of constants: real numbers that no float holds, kept next to the floats that they were rounded to.

A pass that merges scales writes the product as a constant of floats, which rounds it. It stores the exact product here,
and thresholds are computed from that. An exact value is valid as long as the constant keeps its tensor; it lives in
memory, so that constants of a model that was saved and loaded have the values of their floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.graph.operators import STANDARD
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.traits import is_elementwise
from onnx_passes.numbers.algebra import Algebra, Symbol, Tensor, TooLargeError, UnsupportedError
from onnx_passes.numbers.arithmetic import Arithmetic, ExactArithmetic, RealsArithmetic, UnknownOperatorError
from onnx_passes.numbers.reals import Reals
from onnx_passes.numbers.surds import exactly
from onnx_passes.ops.number_systems.real_functions import RealAlgebra
from onnx_passes.ops.quantizer import has_scales
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.ops.semantics.table import OperatorView

_KEY = "onnx_passes.exact"


class _ExactValue:
    """Real numbers and the tensor that rounds them; copies of a model share both."""

    def __init__(self, tensor: ir.TensorProtocol, numbers: Reals) -> None:
        self.tensor = tensor
        self.numbers = numbers

    def __deepcopy__(self, memo: object) -> _ExactValue:
        return self


def set_exact_value(value: ir.Value, numbers: Reals) -> None:
    """Store the exact value of a constant: real numbers in its shape."""
    tensor = constant_tensor(value)
    assert tensor is not None
    assert tuple(tensor.shape.numpy()) == numbers.shape
    _meta(value)[_KEY] = _ExactValue(tensor, numbers)


def has_exact_value(value: ir.Value | None) -> bool:
    """Return whether an exact value is stored for a constant."""
    return value is not None and _stored(value) is not None


def exact_value(value: ir.Value | None) -> Reals | None:
    """Return the exact value of a constant: the stored one, else that of its bits; None if not a finite constant."""
    if value is None:
        return None
    stored = _stored(value)
    if stored is not None:
        return stored.numbers
    held = constant(value)
    return None if held is None or not _is_finite(held) else Reals.of(held)


def stored_exact_value(value: ir.Value) -> object | None:
    """Return the object that holds the stored exact value of a constant, to tell whether another one was stored."""
    return _meta(value).get(_KEY) if value.meta else None


def _stored(value: ir.Value) -> _ExactValue | None:
    stored = _meta(value).get(_KEY) if value.meta else None
    return stored if isinstance(stored, _ExactValue) and stored.tensor is constant_tensor(value) else None


def _meta(value: ir.Value) -> MutableMapping[str, Any]:
    return cast("MutableMapping[str, Any]", value.meta)


def _is_finite(held: np.ndarray) -> bool:
    return held.dtype.kind in "iub" or (held.dtype.kind == "f" and bool(np.isfinite(held).all()))


_BY_CHANNEL = frozenset({"BatchNormalization", "Dropout", "Identity"})
"""Operators that compute element by element from parameters of channels, or return their input."""
_FEW = 16


class ExactAlgebra(RealAlgebra):
    """Elements are exact numbers; functions are computed once for each combination of numbers."""

    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Compute a function of numbers."""
        operands = np.broadcast_arrays(*operands)
        if operands[0].size <= _FEW:
            return np.asarray(super().scalar(symbol, operands), object)
        numbered: dict[tuple[Any, ...], int] = {}
        rows = zip(*(operand.reshape(-1).tolist() for operand in operands), strict=True)
        places = [numbered.setdefault(row, len(numbered)) for row in rows]
        distinct = [np.empty(len(numbered), object) for _ in operands]
        for array, numbers in zip(distinct, zip(*numbered, strict=True), strict=True):
            array[:] = numbers
        found = np.broadcast_to(super().scalar(symbol, distinct), len(numbered))
        return found[np.array(places, np.intp)].reshape(operands[0].shape)

    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Compute a function of sequences; one number alone is an array of rank 0."""
        return np.asarray(super().sequence(symbol, operands), object)


class _ExactEvaluation(Evaluation):
    """Takes the exact values of constants."""

    def value(self, value: ir.Value | None) -> Tensor:
        tensor = super().value(value)
        if tensor.made is None and (stored := exact_value(value)) is not None:
            tensor.made = self.algebra.arithmetic.of(stored)  # pyright: ignore
        return tensor


def evaluate(model: ir.Model, inputs: Mapping[str, np.ndarray], also: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Return the outputs of a model, and values that are named ``also``, as arrays of exact numbers.

    Raises UnknownOperatorError at an operator that is not computed exactly.
    """
    algebra, graph = ExactAlgebra(ExactArithmetic()), model.graph
    evaluation = _ExactEvaluation(model, algebra)
    given = [Tensor(value.dtype or ir.DataType.FLOAT, None, exactly(inputs[str(value.name)])) for value in graph.inputs]
    wanted = [*graph.outputs, *(value for node in graph for value in node.outputs if value.name in also)]
    try:
        evaluation.outputs(given)
        return {str(value.name): evaluation.value(value).elements(algebra) for value in wanted}
    except (UnsupportedError, TooLargeError) as error:
        raise UnknownOperatorError(f"it is not computed exactly: {error}") from error


class _Constant:
    """Real numbers of a constant, until they meet numbers that are computed."""

    def __init__(self, numbers: Reals) -> None:
        self.numbers = numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    @property
    def size(self) -> int:
        return self.numbers.size

    def reshape(self, *shape: Any) -> _Constant:
        return _Constant(self.numbers.reshape(*(shape if len(shape) != 1 or isinstance(shape[0], int) else shape[0])))


class _ElementAlgebra(RealAlgebra):
    """Elements are numbers of any arithmetic, or constants, of which functions are constants again."""

    def constant(self, dtype: ir.DataType, array: np.ndarray) -> Any:
        """Return a constant."""
        if not (array.dtype.kind in "biu" or np.isfinite(array.astype(np.float64)).all()):
            raise UnknownOperatorError("a constant holds no finite numbers")
        return _Constant(Reals.of(array))

    def scalar(self, symbol: Symbol, operands: Sequence[Any]) -> Any:
        """Compute a function of numbers."""
        if all(isinstance(operand, _Constant) for operand in operands):
            try:
                return _Constant(_CONSTANTS.scalar(symbol, [operand.numbers for operand in operands]))
            except UnknownOperatorError:
                pass
        of = self.arithmetic.of
        numbers = [of(operand.numbers) if isinstance(operand, _Constant) else operand for operand in operands]
        return super().scalar(symbol, numbers)


_CONSTANTS = RealAlgebra(RealsArithmetic())


@dataclass(slots=True)
class _Element(Tensor):
    """Numbers that are computed, of a tensor of some rank; or a constant, whose numbers are looked up on demand."""

    rank: int | None = None
    value: ir.Value | None = None
    exact: Callable[[ir.Value], Reals | None] = exact_value

    @property
    def shape(self) -> tuple[int, ...]:
        if self.known is not None:
            return self.known.shape
        if self.rank is None:
            raise UnknownOperatorError("the rank of a tensor is not known")
        return (1,) * self.rank

    def elements(self, algebra: Algebra) -> Any:
        if self.made is None:
            found = None if self.value is None else self.exact(self.value)
            if found is None:
                name = "" if self.value is None else self.value.name
                raise UnknownOperatorError(f"'{name}' is computed, or holds no finite numbers")
            self.made = _Constant(found)  # pyright: ignore
        return self.made


def is_by_element(node: ir.Node) -> bool:
    """Return whether elements of the result depend on one element of each input, or on a parameter of channels."""
    return is_elementwise(node) or has_scales(node) or (node.op_type in _BY_CHANNEL and node.domain in STANDARD)


class _Elements(Evaluation):
    """Evaluates one elementwise node, given what is computed of its inputs."""

    def __init__(
        self,
        algebra: RealAlgebra,
        node: ir.Node,
        computed: Mapping[ir.Value, Any],
        exact: Callable[[ir.Value], Reals | None],
    ) -> None:
        imports = dict(node.graph.opset_imports) if node.graph is not None else {"": 17}
        super().__init__(ir.Model(ir.Graph([], [], nodes=[], opset_imports=imports), ir_version=10), algebra)
        self._exact = exact
        for value, numbers in computed.items():
            if value in node.inputs:
                dtype = value.dtype or ir.DataType.FLOAT
                self._values[value] = _Element(dtype, None, numbers, rank(value))

    def value(self, value: ir.Value | None) -> Tensor:
        assert value is not None
        if value not in self._values:
            array = constant(value)
            dtype = value.dtype or ir.DataType.FLOAT
            self._values[value] = _Element(dtype, array, None, rank(value), value, self._exact)
        return self._values[value]

    def _afford(self, tensor: Tensor) -> None:
        """Take numbers of any size."""

    def _results(self, call: OperatorView) -> Tensor | Sequence[Tensor]:
        if not is_by_element(call.node):
            raise UnknownOperatorError(f"{call.node.op_type} is not computed exactly")
        return self._evaluated(call)


def apply(
    arithmetic: Arithmetic[Any],
    node: ir.Node,
    computed: Mapping[ir.Value, Any],
    exact: Callable[[ir.Value], Reals | None] = exact_value,
) -> Any:
    """Return what an elementwise node makes of numbers that are computed, and of constants by their exact values.

    Raises UnknownOperatorError, and ArithmeticError where there is no result.
    """
    algebra = _ElementAlgebra(arithmetic)
    evaluation = _Elements(algebra, node, computed, exact)
    try:
        evaluation.node(node, {})
        found = evaluation.value(node.outputs[0]).elements(algebra)
    except (UnsupportedError, TooLargeError) as error:
        raise UnknownOperatorError(f"{node.op_type} is not computed exactly: {error}") from error
    return arithmetic.of(found.numbers) if isinstance(found, _Constant) else found
