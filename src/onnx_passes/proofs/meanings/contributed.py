"""Operators of ONNX Runtime's own, as functions of standard ones.

ONNX Runtime computes them in ways of its own, so that bit by bit nothing is known of them; in real numbers they are
these functions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.proofs.meaning import MEANINGS, Call
from onnx_passes.proofs.meanings.products import product

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


def _by_body(call: Call) -> Sequence[Tensor]:
    node = call.node
    if call.algebra.exact or (node.op_type, len(call.inputs)) not in _BODIES:
        raise UnsupportedError(f"{node.op_type} is computed in its own way")
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:3]):
        raise UnsupportedError(f"statistics of {node.op_type}")
    return call.evaluation.inside(_body(node.op_type, len(call.inputs)), call)


MEANINGS.attach(dict.fromkeys((name for name, _ in _BODIES), _by_body), domains=_DOMAINS)


@MEANINGS.of("FusedMatMul", domains=_DOMAINS)
def _fused_matmul(call: Call) -> Tensor:
    if call.algebra.exact or call.get("transBatchA", 0) or call.get("transBatchB", 0):
        raise UnsupportedError("FusedMatMul is computed in its own way")
    a, b = call.tensor(0), call.elements(1)
    x = a.elements(call.algebra)
    x = np.swapaxes(x, -1, -2) if call.get("transA", 0) else x
    b = np.swapaxes(b, -1, -2) if call.get("transB", 0) else b
    found = product(call, a.dtype, x, b)
    alpha = call.algebra.constant(a.dtype, np.asarray(call.get("alpha", 1.0)).astype(a.dtype.numpy()))
    return Tensor(a.dtype, None, call.algebra.scalar(Symbol("Mul", a.dtype, (a.dtype,) * 2), [found, alpha]))
