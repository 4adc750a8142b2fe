"""Let operators read what was transposed for them as it was before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument, integer
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.shapes import dims, same_dim
from onnx_passes.passes.move.forms import exchange, shaped
from onnx_passes.passes.move.layout import moves_only_ones, permutation, reshape_target
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_AXES_ARE_INPUTS = 18
_NUMBERS = ", ".join(f"{number / 4}" for number in range(-5, 7))
_EXAMPLE = f"""g (float[N, {{sizes}}] x, float[N, 3, 4] z, float[3] b)
=> (float[N, M] y1, float[N, M] y2, float[N, M] y3, float[N, M] y4, float[N, 3, 3] y5)
<float[N, 6] f1, float[N, 6] f2, float[N, 6] f3, float[N, 6] f4, int64[2] s = {{{{0, 6}}}},
float[6, 2] w = {{{{{_NUMBERS}}}}}, float[2, 6] v = {{{{{_NUMBERS}}}}}, float[3, 4, 1] k = {{{{{_NUMBERS}}}}}> {{{{
    t1 = Transpose <perm = [0, {{perm}}]> (x)  f1 = Flatten (t1)  y1 = MatMul (f1, w)
    t2 = Transpose <perm = [0, {{perm}}]> (x)  f2 = Reshape (t2, s)  y2 = MatMul (f2, w)
    t3 = Transpose <perm = [0, {{perm}}]> (x)  f3 = Flatten (t3)  y3 = Gemm (f3, w)
    t4 = Transpose <perm = [0, {{perm}}]> (x)  f4 = Reshape (t4, s)  y4 = Gemm <transB = 1> (f4, v)
    t5 = Transpose <perm = [0, 2, 1]> (z)  y5 = Conv (t5, k, b)
}}}}"""
_IMAGES = product(("3, 2, 1", "2, 3, 1", "1, 3, 2", "1, 2, 3"), ("2, 1, 3", "3, 2, 1", "3, 1, 2"))
_EXAMPLES = [_EXAMPLE.format(sizes=sizes, perm=perm) for sizes, perm in (("3, 2", "2, 1"), ("2, 3", "2, 1"), *_IMAGES)]


@passes.verify.tolerance
@passes.register(tags=("layout",))
class AbsorbTranspose(Transformation, RewriteRuleSetPass):
    """Let products and pooling read what was transposed for them as it was before.

    Rewrites: ``Flatten(Transpose(x)) @ w`` → ``Flatten(x) @ w'`` with the rows of ``w`` in the order of ``x``, for
              MatMul and Gemm, Flatten and Reshape; ``Conv(Transpose(x), w, b)`` with windows of one element, channels
              last → ``Transpose(x @ w' + b)``; ``GlobalAveragePool(Transpose(x))`` → ``Transpose(ReduceMean(x))``;
              ``Transpose(x)`` that moves only axes of size one → ``Reshape(x)``.
    Refuses:  weights that are not constant; sizes of the moved axes that are not known; a batch axis that moves;
              what was flattened, if others use it too; windows, strides, pads and groups.
    Exactness: up to rounding; sums are taken in another order.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_EXAMPLES)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return [
            *(_product_of(name, flat) for name in ("MatMul", "Gemm") for flat in ("Flatten", "Reshape")),
            exchange("Conv", "Transpose", _into_conv),
            exchange("GlobalAveragePool", "Transpose", _into_pool),
            Rule(_any_transpose, _as_reshape, name="TransposeOfOnes"),
        ]


def _product_of(name: str, flat: str) -> Rule:
    def pattern(op: Op, x: Var, w: Var) -> Var:
        middle = getattr(op, flat)(op.Transpose(x, _outputs=["t"]), _allow_other_inputs=True, _outputs=["f"])
        return getattr(op, name)(middle, w, _allow_other_inputs=True, _outputs=["y"])

    return Rule(pattern, _into_product, name=f"{name}Of{flat}", commute=False)


def _into_product(op: Builder, x: ir.Value, w: ir.Value, t: ir.Value, f: ir.Value, y: ir.Value) -> Rewritten:
    perm, sizes, flat = permutation(t.producer()), dims(x), dims(f)
    node, reshape, tensor = y.producer(), f.producer(), constant_tensor(w)
    assert node is not None
    assert reshape is not None
    if tensor is None:
        return no("the weights are not constant", at=w)
    if perm is None or sizes is None or flat is None or perm[:1] != [0] or perm == sorted(perm):
        return no("the batch axis moves, or shapes are not known", at=t)
    rest = [size for size in sizes[1:] if isinstance(size, int)]
    count = int(np.prod(rest))
    if len(rest) != len(sizes) - 1 or len(flat) != 2 or flat[1] != count or not same_dim(flat[0], sizes[0]):
        return no("it is not known to be flattened behind the batch axis", at=f)
    across = node.op_type == "Gemm" and integer(node, "transB", 0)
    if node.op_type == "Gemm" and (integer(node, "transA", 0) != 0 or across is None):
        return no("the batch axis is summed over", at=y)
    array = tensor.numpy()
    if array.ndim != 2 or array.shape[1 if across else 0] != count or count == 0:
        return no("the weights are no matrix that fits", at=w)
    rows = _reordered(array.T if across else array, perm, rest)
    weights = ir.Tensor(np.ascontiguousarray(rows.T if across else rows), dtype=tensor.dtype)
    return op.like(node, [op.like(reshape, [x, *reshape.inputs[1:]]), weights, *node.inputs[2:]])


def _reordered(rows: np.ndarray, perm: list[int], sizes: list[int]) -> np.ndarray:
    """Put rows that belong to transposed elements into the order of the elements before."""
    moved = [axis - 1 for axis in perm[1:]]
    places = rows.reshape([*(sizes[axis] for axis in moved), rows.shape[1]])
    return places.transpose([*(moved.index(axis) for axis in range(len(moved))), len(moved)]).reshape(rows.shape)


def _into_conv(op: Builder, node: ir.Node, transpose: ir.Node) -> Rewritten:
    perm, tensor = permutation(transpose), constant_tensor(argument(node, 1))
    if tensor is None:
        return no("the weights are not constant", at=node)
    array = tensor.numpy()
    if perm != [0, array.ndim - 1, *range(1, array.ndim - 1)]:
        return no("the channels do not come last", at=transpose)
    if array.shape[2:] != (1,) * (array.ndim - 2) or not _is_plain(node):
        return no("it has windows, strides, pads or groups", at=node)
    weights = ir.Tensor(np.ascontiguousarray(array.reshape(array.shape[:2]).T), dtype=tensor.dtype)
    result = op.MatMul(transpose.inputs[0], weights)
    bias = argument(node, 2)
    return op.Transpose(result if bias is None else op.Add(result, bias), perm=perm)


def _is_plain(node: ir.Node) -> bool:
    attributes = node.attributes
    if any(attribute.is_ref() for attribute in attributes.values()):
        return False
    steps, pads = attributes.get_ints("strides") or (), attributes.get_ints("pads") or ()
    return all(step == 1 for step in steps) and not any(pads) and attributes.get_int("group", 1) == 1


def _into_pool(op: Builder, node: ir.Node, transpose: ir.Node) -> Rewritten:
    perm, sizes = permutation(transpose), dims(transpose.inputs[0])
    if perm is None or len(perm) < 3 or sizes is None:
        return no("the rank is not known", at=transpose)
    if not all(isinstance(sizes[axis], int) and sizes[axis] for axis in perm[2:]):
        return no("the size of the image is not known, or zero", at=transpose)
    axes = sorted(perm[2:])
    if op.opset < _AXES_ARE_INPUTS:
        mean = op.ReduceMean(transpose.inputs[0], axes=axes, keepdims=1)
    else:
        mean = op.ReduceMean(transpose.inputs[0], np.array(axes, np.int64), keepdims=1)
    shaped(mean, [1 if axis in axes else size for axis, size in enumerate(sizes)])
    return op.Transpose(mean, perm=perm)


def _any_transpose(op: Op, x: Var) -> Var:
    return op.Transpose(x, _outputs=["y"])


def _as_reshape(op: Builder, x: ir.Value, y: ir.Value) -> Rewritten:
    perm, sizes = permutation(y.producer()), dims(x)
    if perm is None or sizes is None or perm == sorted(perm):
        return no("the rank is not known, or nothing moves", at=y)
    if not moves_only_ones(perm, sizes):
        return no("axes move that have more than one place", at=y)
    target = reshape_target([sizes[axis] for axis in perm])
    if target is None:
        return no("several sizes are not known, or one is zero")
    return op.Reshape(x, np.array(target, np.int64))
