"""Normalizations and sorting: functions that make a sequence of each sequence along some axes.

Runtimes compute them in ways of their own, so that bit by bit nothing more is known of them; in real numbers they are
what the standard says.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.semantics.products import product
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView


def _grouped(
    call: OperatorView, name: str, axes: Sequence[int], others: Sequence[np.ndarray] = (), params: tuple[Any, ...] = ()
) -> Tensor:
    """Apply a function to the sequences along some axes of the first input, and those of others that broadcast."""
    x = call.tensor(0)
    arrays = np.broadcast_arrays(x.elements(call.algebra), *others)
    if arrays[0].shape != x.shape:
        raise UnsupportedError(f"{name} with parameters larger than its input")
    rank = len(x.shape)
    axes = sorted(axis % rank for axis in axes)
    order = [axis for axis in range(rank) if axis not in axes] + axes
    moved = [array.transpose(order) for array in arrays]
    lead, size = moved[0].shape[: rank - len(axes)], int(np.prod([x.shape[axis] for axis in axes]))
    if not moved[0].size:
        return x
    symbol = Symbol(name, x.dtype, (x.dtype,) * len(arrays), params)
    found = call.vector(symbol, [array.reshape(*lead, size) for array in moved], size)
    return Tensor(x.dtype, None, found.reshape(moved[0].shape).transpose(np.argsort(order)))


@SEMANTICS.of("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def _along_one_axis(call: OperatorView) -> Tensor | Sequence[Tensor]:
    node = call.node
    if not call.algebra.exact:
        return call.evaluation.by_body(call)
    rank = len(call.tensor(0).shape)
    if call.version < 13 and node.op_type != "LpNormalization":
        axes = range(call.get("axis", 1) % rank, rank)
    else:
        axes = [call.get("axis", -1)]
    return _grouped(call, node.op_type, tuple(axes), (), (call.get("p", 2),))


@SEMANTICS.of("LayerNormalization", "RMSNormalization")
def _to_the_end(call: OperatorView) -> Tensor | Sequence[Tensor]:
    if not call.algebra.exact:
        return call.evaluation.by_body(call)
    if len(call.node.outputs) > 1:
        raise UnsupportedError(f"{call.node.op_type} with several results")
    rank = len(call.tensor(0).shape)
    axes = range(call.get("axis", -1) % rank, rank)
    others = [call.elements(index) for index in (1, 2) if call.has(index)]
    params = (float(np.float32(call.get("epsilon", 1e-5))), call.get("stash_type", 1))
    return _grouped(call, call.node.op_type, tuple(axes), others, params)


@SEMANTICS.of("InstanceNormalization")
def _of_channels(call: OperatorView) -> Tensor | Sequence[Tensor]:
    rank = len(call.tensor(0).shape)
    others = [call.elements(index).reshape(-1, *(1,) * (rank - 2)) for index in (1, 2)]
    params = (float(np.float32(call.get("epsilon", 1e-5))),)
    if call.algebra.exact:
        return _grouped(call, "InstanceNormalization", range(2, rank), others, params)
    return call.evaluation.by_body(call)


@SEMANTICS.of("TopK")
def _sorted(call: OperatorView) -> list[Tensor]:
    """Name the greatest or least elements, and their places, by functions of the sequence."""
    x = call.tensor(0)
    elements, axis = x.elements(call.algebra), call.get("axis", -1)
    amount = int((call.integers(1, "k") or [call.get("k", 0)])[0])
    params = (call.get("largest", 1), call.get("sorted", 1))
    moved = np.moveaxis(elements, axis, -1)
    found: list[Tensor] = []
    for name, dtype in (("TopK", x.dtype), ("TopKPlaces", ir.DataType.INT64)):
        made = call.vector(Symbol(name, dtype, (x.dtype,), params), [moved], amount)
        found.append(Tensor(dtype, None, np.moveaxis(made, -1, axis)))
    return found


_DOMAINS = ("com.microsoft",)
_NORMALIZED = "y = LayerNormalization <axis = -1, epsilon: float = @epsilon> "
_BODIES: dict[tuple[str, int], str] = {
    ("Gelu", 1): "(x) => (y) { y = Gelu(x) }",
    ("BiasGelu", 2): "(x, b) => (y) { s = Add(x, b) y = Gelu(s) }",
    ("FastGelu", 1): '(x) => (y) { y = Gelu <approximate = "tanh"> (x) }',
    ("FastGelu", 2): '(x, b) => (y) { s = Add(x, b) y = Gelu <approximate = "tanh"> (s) }',
    ("QuickGelu", 1): "<alpha: float = 1.702> (x) => (y) { a = Constant <value_float: float = @alpha> () "
    "b = Mul(x, a) c = Sigmoid(b) y = Mul(x, c) }",
    ("SkipLayerNormalization", 3): "<epsilon: float = 1e-12> (x, k, g) => (y, m, v, s) { s = Add(x, k) m = Identity(s) "
    "v = Identity(s) " + _NORMALIZED + "(s, g) }",
    ("SkipLayerNormalization", 4): "<epsilon: float = 1e-12> (x, k, g, b) => (y, m, v, s) { s = Add(x, k) "
    "m = Identity(s) v = Identity(s) " + _NORMALIZED + "(s, g, b) }",
    ("SkipLayerNormalization", 5): "<epsilon: float = 1e-12> (x, k, g, b, c) => (y, m, v, s) { t = Add(x, k) "
    "s = Add(t, c) m = Identity(s) v = Identity(s) " + _NORMALIZED + "(s, g, b) }",
    ("SkipSimplifiedLayerNormalization", 3): "<epsilon: float = 1e-12> (x, k, g) => (y, m, v, s) { s = Add(x, k) "
    "m = Identity(s) v = Identity(s) y = RMSNormalization <axis = -1, epsilon: float = @epsilon> (s, g) }",
}
"""Bodies by operator and number of inputs; of normalizations the second and third result have to be left out."""


@functools.cache
def _body(name: str, inputs: int) -> ir.Function:
    import onnx.parser

    text = _BODIES[name, inputs]
    return ir.from_proto(
        onnx.parser.parse_function(f'<domain: "com.microsoft", opset_import: ["" : 23]> {name} {text}')
    )


def _by_body(call: OperatorView) -> Sequence[Tensor]:
    node = call.node
    if call.algebra.exact or (node.op_type, len(call.inputs)) not in _BODIES:
        raise UnsupportedError(f"{node.op_type} is computed in its own way")
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:3]):
        raise UnsupportedError(f"statistics of {node.op_type}")
    return call.evaluation.inside(_body(node.op_type, len(call.inputs)), call)


SEMANTICS.attach(dict.fromkeys((name for name, _ in _BODIES), _by_body), domains=_DOMAINS)


@SEMANTICS.of("FusedMatMul", domains=_DOMAINS)
def _fused_matmul(call: OperatorView) -> Tensor:
    if call.algebra.exact or call.get("transBatchA", 0) or call.get("transBatchB", 0):
        raise UnsupportedError("FusedMatMul is computed in its own way")
    a, b = call.tensor(0), call.elements(1)
    x = a.elements(call.algebra)
    x = np.swapaxes(x, -1, -2) if call.get("transA", 0) else x
    b = np.swapaxes(b, -1, -2) if call.get("transB", 0) else b
    found = product(call, a.dtype, x, b)
    alpha = call.algebra.constant(a.dtype, np.asarray(call.get("alpha", 1.0)).astype(a.dtype.numpy()))
    return Tensor(a.dtype, None, call.algebra.scalar(Symbol("Mul", a.dtype, (a.dtype,) * 2), [found, alpha]))
