"""Operators that apply one scalar function to each element."""

from __future__ import annotations

from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.schemas import signature
from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView, Place, arrays_key

_LIMITS_ARE_INPUTS = 11
"""Since this operator set, limits of Clip are inputs, and types have ends of their own."""


def elementwise(call: OperatorView) -> Tensor:
    """Apply the scalar function that the operator is."""
    node = call.node
    operands = [tensor for tensor in call.inputs if tensor is not None]
    if not operands or len(operands) < len(call.inputs):
        raise UnsupportedError(f"{node.op_type} lacks inputs")
    symbol = Symbol(node.op_type, _result(call, operands), tuple(t.dtype for t in operands), call.params())
    return apply(call, symbol, operands)


def apply(call: OperatorView, symbol: Symbol, operands: list[Tensor]) -> Tensor:
    """Apply a scalar function to tensors that broadcast."""
    arrays = [tensor.elements(call.algebra) for tensor in operands]
    if call.algebra.exact and symbol.dtype.is_floating_point() and traits_of(symbol.name).place_dependent:
        call.evaluation.places.add(Place(symbol.name, symbol, arrays_key(arrays)))
    return Tensor(symbol.dtype, None, call.algebra.scalar(symbol, arrays))


def _result(call: OperatorView, operands: list[Tensor]) -> ir.DataType:
    node = call.node
    known = signature(node.domain, node.op_type, call.version)
    found = None if known is None else known.type_of_output(0, [ir.TensorType(t.dtype) for t in operands])
    if found is None:
        return operands[-1].dtype if node.op_type == "Where" else operands[0].dtype
    return found.dtype


def _folded(name: str) -> None:
    @SEMANTICS.of(name)
    def meaning(call: OperatorView, name: str = name) -> Tensor:  # pyright: ignore[reportUnusedFunction]
        tensors = [tensor for tensor in call.inputs if tensor is not None]
        dtype, binary = tensors[0].dtype, {"Sum": "Add"}.get(name, name)
        symbol = Symbol(binary, dtype, (dtype, dtype))
        return reduce(lambda a, b: apply(call, symbol, [a, b]), tensors)


for _name in ("Sum", "Max", "Min"):
    _folded(_name)


@SEMANTICS.of("Clip")
def _clip(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    given = [call.has(index) or name in call.attributes for index, name in ((1, "min"), (2, "max"))]
    if call.algebra.exact or all(given) or x.dtype.is_integer():
        limits = [_limit(call, index) for index in (1, 2)]
        return apply(call, Symbol("Clip", x.dtype, (x.dtype,) * 3), [x, *limits])
    # Real numbers have no ends.
    for index, name in ((1, "Max"), (2, "Min")):
        if given[index - 1]:
            x = apply(call, Symbol(name, x.dtype, (x.dtype,) * 2), [x, _limit(call, index)])
    return x


def _limit(call: OperatorView, index: int) -> Tensor:
    """Return a limit: an input, an attribute in older versions, or the end of the type."""
    dtype = call.tensor(0).dtype
    if call.has(index):
        return call.tensor(index)
    attribute = call.attributes.get(("min", "max")[index - 1])
    end = dtype.min if index == 1 else dtype.max
    if attribute is None and call.version < _LIMITS_ARE_INPUTS and dtype.is_floating_point():
        # The default of the attribute is a float of 32 bits, which is infinite in half precision.
        end = ir.DataType.FLOAT.min if index == 1 else ir.DataType.FLOAT.max
    number = end if attribute is None else attribute.value
    with np.errstate(over="ignore"):
        return Tensor(dtype, np.asarray(number).astype(dtype.numpy()))


@SEMANTICS.of("Cast")
def _cast(call: OperatorView) -> Tensor:
    return cast_to(call, call.tensor(0), ir.DataType(call.get("to")))


@SEMANTICS.of("BitCast")
def _bit_cast(call: OperatorView) -> Tensor:
    x, dtype = call.tensor(0), ir.DataType(call.get("to"))
    return x if dtype is x.dtype else apply(call, Symbol("BitCast", dtype, (x.dtype,)), [x])


@SEMANTICS.of("CastLike")
def _cast_like(call: OperatorView) -> Tensor:
    return cast_to(call, call.tensor(0), call.tensor(1).dtype)


def cast_to(call: OperatorView, x: Tensor, dtype: ir.DataType) -> Tensor:
    """Convert a tensor to another type."""
    if dtype is x.dtype:
        return x
    small = dtype.bitwidth == 8 and dtype.is_floating_point()
    return apply(call, Symbol("Cast", dtype, (x.dtype,), (bool(call.get("saturate", 1)),) if small else ()), [x])


@SEMANTICS.of("Identity")
def _identity(call: OperatorView) -> Tensor:
    return call.tensor(0)


@SEMANTICS.of("Dropout")
def _dropout(call: OperatorView) -> list[Tensor]:
    training = call.known(2) if call.has(2) else None
    if training is not None and training.any():
        raise UnsupportedError("Dropout is random in training")
    x = call.tensor(0)
    return [x, Tensor(ir.DataType.BOOL, np.ones(x.shape, bool))]
