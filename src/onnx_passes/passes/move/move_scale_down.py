"""Sink constant factors of floats: past products, and to joins of branches with the same factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, finite_constant, grows, is_constant
from onnx_passes.graph.shapes import dims, is_float, keeps_shape
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.ops.number_systems.constants import rounded, wide
from onnx_passes.passes.move.forms import MovePass, exchange, is_forked, shaped
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no
from onnx_passes.rewrite.rule import Rule

_PRODUCTS = {"Conv": (0,), "Gemm": (0, 1), "MatMul": (0, 1)}
"""Products, and the inputs from which a factor may be moved; the third input is a bias."""
_SUMS = ("Add", "Sub")
_LINEAR = ("AveragePool", "Flatten", "GlobalAveragePool", "ReduceMean", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_OF_POSITIVE = ("LeakyRelu", "MaxPool", "Relu")
"""Operators that commute with positive factors only."""
_BIAS = 2
_FAR = 64
"""Maximum number of operators that are searched for a product or join."""

_ROWS = "float[2] b = {1.5, -2.0}, float[2, 2] w = {1.0, 2.0, -3.0, 0.25}"
_WEIGHTS = "float[2] b = {1.5, -2.0}, float[2, 2, 1, 1] w = {1.0, 2.0, -3.0, 0.25}"
_EXAMPLES = (
    *(
        f"""g (float[1, 3, 2] x) => (float[A, B, C] y) <float s = {{{s}}}, {_ROWS}> {{
            m = Mul (x, s)  p = MatMul (m, w)  q = Add (b, p)  y = Add (m, q)
        }}"""
        for s in (0.37, -2.0)
    ),
    *(
        f"g (float[4, 2] x) => (float[A, B] y) <float s = {{-3.0}}, {_ROWS}> {{ m = Mul ({scaled}, s)  y = {product} }}"
        for scaled, product in (
            ("x", "Gemm <alpha = 0.5> (m, w, b)"),
            ("x", "Gemm <transB = 1> (m, w)"),
            ("x", "Gemm <transA = 1> (x, m)"),
            ("x", "MatMul (m, w)"),
        )
    ),
    *(
        f"""g (float[2, 2] x, float[2, 2] z) => (float[A, B] y) <float s = {{0.37}}, float[1] t = {{0.37}}, {_ROWS}> {{
            {body}
        }}"""
        for body in (
            "m = Mul (x, s)  y = Gemm (z, m, b)",
            "m = Mul (x, s)  y = MatMul (z, m)",
            "m = Mul (x, s)  n = Mul (t, z)  y = Add (m, n)",
            "m = Mul (x, s)  n = Mul (t, z)  y = Sub (m, n)",
            "m = Mul (x, s)  a = Add (m, b)  y = MatMul (a, w)",
            "m = Mul (x, s)  a = Sub (m, b)  y = MatMul (a, w)",
            "m = Mul (x, s)  a = Sub (b, m)  y = MatMul (w, a)",
        )
    ),
    *(
        f"""g (float[1, 2, 4, 4] x) => (float[A, B, C, D{", E" if "Unsqueeze" in moved else ""}] y)
        <float s = {{0.37}}, int64[1] i = {{0}}, int64[4] r = {{1, 2, 8, 2}}, {_WEIGHTS}> {{
            m = Mul (x, s)  {moved}
        }}"""
        for moved in (
            "y = Conv (m, w, b)",
            "c = Conv (m, w, b)  y = Add (c, m)",
            "p = Relu (m)  y = Conv (p, w)",
            "p = LeakyRelu <alpha = 0.1> (m)  y = Conv (p, w, b)",
            "p = MaxPool <kernel_shape = [2, 2]> (m)  y = Conv (p, w, b)",
            "p = AveragePool <kernel_shape = [2, 2]> (m)  y = Conv (p, w, b)",
            "p = GlobalAveragePool (m)  y = Conv (p, w, b)",
            "p = ReduceMean <keepdims = 1> (m, i)  y = Conv (p, w, b)",
            "p = Transpose <perm = [0, 1, 3, 2]> (m)  y = Conv (p, w, b)",
            "p = Reshape (m, r)  y = Conv (p, w, b)",
            "p = Flatten <axis = 3> (m)  y = MatMul (p, x)",
            "p = Squeeze (m, i)  y = MatMul (p, x)",
            "p = Unsqueeze (m, i)  y = MatMul (p, x)",
        )
    ),
)


class _Scaled(NamedTuple):
    """A product of a value and a constant number."""

    value: ir.Value
    x: ir.Value
    factor: np.ndarray


def _scaled(value: ir.Value | None) -> _Scaled | Refusal:
    node = None if value is None else value.producer()
    if value is None or node is None or node.op_type != "Mul" or node.domain != "":
        return no("it is not a product", at=value)
    for x, s in (tuple(node.inputs), tuple(reversed(node.inputs))):
        factor = constant(s)
        if x is None or s is None or factor is None or is_constant(x):
            continue
        if not is_float(s):
            return no("it is not a product of floats", at=s)
        if factor.size != 1 or not keeps_shape(x, value, s):
            return no("the factor is not one number, or changes the rank of its operand", at=s)
        if not np.isfinite(wide(factor)).all() or not factor.any():
            return no("the factor is zero or not finite", at=s)
        return _Scaled(value, x, factor.reshape(()))
    return no("not one operand is constant", at=value)


def _past(op: Builder, node: ir.Node, mul: ir.Node) -> Rewritten:
    found = _scaled(mul.outputs[0])
    if isinstance(found, Refusal):
        return found
    other = _other_of_join(node, found.value, found.factor)
    if other is not None:
        return _join(op, node, found, other)
    if not _is_linear_in(node, found.value, found.factor):
        return no("the operator is not linear here", at=node)
    if is_forked(found.value, node, partial(_is_linear, factor=found.factor)):
        return no("the product is used elsewhere", at=found.value)
    if node.op_type not in _PRODUCTS and not _reaches_product(node.outputs[0], found.factor):
        return no("no product or join follows", at=node.outputs[0])
    return _exchanged(op, node, found)


def _join(op: Builder, node: ir.Node, found: _Scaled, other: _Scaled) -> Rewritten:
    if is_used_elsewhere(found.value) and is_used_elsewhere(other.value):
        return no("both products are used elsewhere", at=node)
    parts = {found.value: found.x, other.value: other.x}
    return op.Mul(_like(op, node, [parts[value] for value in node.inputs if value is not None]), found.factor)


def _exchanged(op: Builder, node: ir.Node, found: _Scaled) -> Rewritten:
    """Build the operator on the unscaled operand, and scale its result."""
    inputs: list[Any] = []
    for index, value in enumerate(node.inputs):
        if value is found.value:
            inputs.append(found.x)
        elif value is not None and _is_shift(node, index):
            shift = _divided(value, found.factor)
            if shift is None:
                return no("the bias divided by the factor is not finite", at=value)
            inputs.append(shift)
        else:
            inputs.append(value)
    return op.Mul(_like(op, node, inputs), found.factor)


def _like(op: Builder, node: ir.Node, inputs: Sequence[Any]) -> Rewritten:
    return shaped(op.like(node, inputs), dims(node.outputs[0]))


def _is_shift(node: ir.Node, index: int) -> bool:
    return node.op_type in _SUMS or (node.op_type in _PRODUCTS and index == _BIAS)


def _divided(value: ir.Value, factor: np.ndarray) -> np.ndarray | None:
    array = finite_constant(value)
    if array is None or value.dtype is None or grows(value):
        return None
    with np.errstate(all="ignore"):
        return rounded(array / wide(factor), value.dtype)


def _other_of_join(node: ir.Node, value: ir.Value, factor: np.ndarray) -> _Scaled | None:
    """Return the other operand of a sum if it has the same factor; None otherwise."""
    if node.op_type not in _SUMS or node.domain != "" or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    other = _scaled(second if first is value else first)
    return None if isinstance(other, Refusal) or other.factor != factor else other


def _is_linear_in(node: ir.Node, value: ir.Value, factor: np.ndarray) -> bool:
    """Return whether an operator is linear in ``value`` for this factor."""
    if list(node.inputs).count(value) != 1 or not _is_linear(node, factor):
        return False
    return node.op_type in _SUMS or list(node.inputs).index(value) in _PRODUCTS.get(node.op_type, (0,))


def _is_linear(node: ir.Node, factor: np.ndarray) -> bool:
    """Return whether an operator is linear in its only non-constant input for this factor."""
    if node.domain != "" or len(node.outputs) != 1 or "broadcast" in node.attributes:
        return False
    name = node.op_type
    if name in _PRODUCTS:
        bias = argument(node, _BIAS)
        return bias is None or _divided(bias, factor) is not None
    if name in _SUMS:
        shifts = [value for value in node.inputs if value is not None and is_constant(value)]
        return len(shifts) == 1 and len(node.inputs) == 2 and _divided(shifts[0], factor) is not None
    return name in _LINEAR or (name in _OF_POSITIVE and bool(factor > 0))


def _reaches_product(value: ir.Value, factor: np.ndarray) -> bool:
    """Return whether a factor of ``value`` can move to a product, or to a sum of operands with the same factor."""
    for _ in range(_FAR):
        users = list(value.consumers())
        if value.is_graph_output() or not users:
            return False
        if any(_other_of_join(user, value, factor) is not None for user in users):
            return True
        ways = [user for user in users if _goes_past(user, value, factor)]
        if any(user.op_type in _PRODUCTS for user in ways):
            return True
        if len(users) != 1 or not ways:
            return False
        value = ways[0].outputs[0]
    return False


def _goes_past(node: ir.Node, value: ir.Value, factor: np.ndarray) -> bool:
    passes: Callable[[ir.Node], bool] = partial(_is_linear, factor=factor)
    return _is_linear_in(node, value, factor) and not is_forked(value, node, passes)


def _rules() -> list[Rule]:
    places = {**_PRODUCTS, "Add": (0,), "Sub": (0, 1)} | dict.fromkeys((*_LINEAR, *_OF_POSITIVE), (0,))
    return [
        exchange(name, "Mul", _past, slot=slot, forks="duplicate") for name, slots in places.items() for slot in slots
    ]


@passes.verify.tolerance
@passes.register(tags=("streamline",))
class MoveScaleDown(MovePass):
    """Sink constant float factors below products, and to joins of branches with the same factor.

    Rewrites: ``MatMul(x * s, w)`` → ``MatMul(x, w) * s``, also for the second operand, and for Conv and Gemm, whose
              bias is divided; ``x * s + y * s`` → ``(x + y) * s``, also with Sub. Only towards such an operator, ``x *
              s + b`` → ``(x + b / s) * s``, and past reshapes, transpositions, means and, with positive ``s``, Relu,
              LeakyRelu and MaxPool: ``m = x * s; m + (m @ w + b)`` → ``(x + (x @ w + b / s)) * s``.
    Refuses:  factors that are not one number, zero or not finite; integers; a factor with other consumers, unless they
              join results of this consumer; a bias that is computed, or not finite after division.
    Exactness: rounding; intermediate overflow may appear or disappear.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_EXAMPLES)
    moves = partial(_rules)
