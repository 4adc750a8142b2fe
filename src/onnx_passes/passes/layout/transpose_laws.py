"""Laws of transpositions that operators and layout converters absorb."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import ModelError
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor, is_constant
from onnx_passes.graph.permutations import moves_only_ones, permutation, reshape_target
from onnx_passes.graph.shapes import dims
from onnx_passes.ops.definition import OUR_DOMAIN, definition_of
from onnx_passes.passes.layout.flattened import Flattened, product_of_flattened
from onnx_passes.passes.layout.rearranged import rearranged
from onnx_passes.passes.move.forms import shaped
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

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
_CONVERTER = f'{OUR_DOMAIN}.LayoutConverter <from_layout: string = "{{}}", to_layout: string = "{{}}">'
_CHAINS = (
    f"{{ t = Transpose <perm = [1, 2, 0]> (x) y = {_CONVERTER.format('NCW', 'NWC')} (t) }}",
    f"<float[4, N, 3] c> {{ c = {_CONVERTER.format('NCW', 'WNC')} (x) y = Transpose <perm = [2, 0, 1]> (c) }}",
    f"<float[4, N, 3] c> {{ c = {_CONVERTER.format('NCW', 'WNC')} (x) y = {_CONVERTER.format('WNC', 'NWC')} (c) }}",
)
_HEAD = f'<ir_version: 9, opset_import: ["" : 20, "{OUR_DOMAIN}" : 1]> g (float[N, 3, 4] x) => (float[A, B, C] y)'

_WEIGHTS = """g (float[2, 3] x) => (float[2, 2] y)
<int8[2, 3] w = {1, -2, 3, 4, 5, -6}, float[2] s = {0.5, 0.25}, float[3] b = {1, 2, 3}> {
    d = DequantizeLinear <axis = 0> (w, s) e = Add (d, b) t = Transpose <perm = [1, 0]> (e) y = MatMul (x, t)
}"""

Layouts = tuple[str, str]


def _product_of_unturned(op: Builder, node: ir.Node, reshape: ir.Node) -> Rewritten:
    found = Flattened.of(reshape)
    return found if isinstance(found, Refusal) else product_of_flattened(op, node, found)


def _product_channels_last(op: Builder, node: ir.Node, transpose: ir.Node) -> Rewritten:
    perm, tensor = permutation(transpose), constant_tensor(argument(node, 1))
    if tensor is None:
        return no("the weights are not constant", at=node)
    array = tensor.numpy()
    if perm != [0, array.ndim - 1, *range(1, array.ndim - 1)]:
        return no("the transposition does not move the last axis to the channels", at=transpose)
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


def _mean_before(op: Builder, transpose: ir.Node) -> Rewritten:
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


def _reshaped(op: Builder, node: ir.Node, x: ir.Value) -> Rewritten:
    perm, sizes, y = permutation(node), dims(x), node.outputs[0]
    if perm is None or sizes is None or perm == sorted(perm):
        return no("the rank is not known, or the transposition is the identity", at=y)
    if not moves_only_ones(perm, sizes):
        return no("it moves axes of other sizes than one", at=y)
    target = reshape_target([sizes[axis] for axis in perm])
    if target is None:
        return no("several sizes are not known, or one is zero")
    return op.Reshape(x, np.array(target, np.int64))


def _transposed_weights(op: Builder, node: ir.Node, x: ir.Value) -> Rewritten:
    perm = permutation(node)
    if perm is None:
        return no("the rank is not known", at=node)
    moved = None if is_constant(x) else rearranged(op, x, len(perm), lambda array: array.transpose(perm))
    return no("it is not computed elementwise from constants only", at=x) if moved is None else moved


def _converted(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    """Build one converter for two nodes, one of which may be a transposition."""
    if inner.op_type == "Transpose":
        layouts = _before(outer, inner)
    else:
        layouts = _behind(outer, inner) if outer.op_type == "Transpose" else _twice(outer, inner)
    if layouts is None:
        return no("the rank is not known, or axes are named differently", at=inner.outputs[0])
    return op.LayoutConverter(inner.inputs[0], from_layout=layouts[0], to_layout=layouts[1], _domain=OUR_DOMAIN)


def _before(converter: ir.Node, transpose: ir.Node) -> Layouts | None:
    perm, layouts = permutation(transpose), _layouts(converter)
    if perm is None or layouts is None or len(perm) != len(layouts[0]):
        return None
    return "".join(layouts[0][perm.index(axis)] for axis in range(len(perm))), layouts[1]


def _behind(transpose: ir.Node, converter: ir.Node) -> Layouts | None:
    perm, layouts = permutation(transpose), _layouts(converter)
    if perm is None or layouts is None or len(perm) != len(layouts[0]):
        return None
    return layouts[0], "".join(layouts[1][axis] for axis in perm)


def _twice(second: ir.Node, first: ir.Node) -> Layouts | None:
    before, behind = _layouts(first), _layouts(second)
    if before is None or behind is None or before[1] != behind[0]:
        return None
    return before[0], behind[1]


def _layouts(converter: ir.Node) -> Layouts | None:
    definition = definition_of(converter)
    try:
        given = {} if definition is None else definition.checked(converter)
    except ModelError:
        return None
    before, behind = given.get("from_layout", ""), given.get("to_layout", "")
    return (before, behind) if before and sorted(before) == sorted(behind) else None


_law = Vocabulary(
    _converted, _mean_before, _product_channels_last, _product_of_unturned, _reshaped, _transposed_weights
).law


@passes.verify.tolerance
@passes.register(tags=("layout",))
class AbsorbTranspose(LawPass):
    """Absorb transposes into the products and pooling that read them.

    Rewrites: ``Flatten(Transpose(x)) @ w`` → ``Flatten(x) @ w'`` with the rows of ``w`` in the order of ``x``, for
              MatMul and Gemm, Flatten and Reshape; ``Conv(Transpose(x), w, b)`` with windows of one element, channels
              last → ``Transpose(x @ w' + b)``; ``GlobalAveragePool(Transpose(x))`` → ``Transpose(ReduceMean(x))``;
              ``Transpose(x)`` that moves only axes of size one → ``Reshape(x)``.
    Refuses:  weights that are not constant; unknown sizes of the moved axes; a batch axis that moves; a flattened value
              with other consumers; windows, strides, pads and groups.
    Exactness: up to rounding; sums are taken in another order.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_EXAMPLES)
    laws = (
        *(
            _law(
                f"{f}(flat := {g}(Transpose(x), ...), w, ...) → product_of_unturned(result, flat)",
                name=f"{f}Of{g}",
            )
            for f in ("MatMul", "Gemm")
            for g in ("Flatten", "Reshape")
        ),
        _law("Conv(t := Transpose(x), ...) → product_channels_last(result, t)"),
        _law("GlobalAveragePool(t := Transpose(x)) → mean_before(t)"),
        _law("Transpose(x) → reshaped(result, x)", name="TransposeOfOnes"),
    )


@passes.verify.equality
@passes.register(tags=("layout",))
class AbsorbTransposeIntoLayout(LawPass):
    """Merge layout converters with the transposes and converters next to them.

    Rewrites: ``LayoutConverter<NCHW, NHWC>(Transpose<0312>(x))`` → ``LayoutConverter<NHWC, NHWC>(x)``, likewise with
              the transposition last; two converters of which the second starts with the result of the first → one. A
              converter that moves nothing stays: it names the axes.
    Refuses:  a transposition of unknown rank; converters with different or invalid axis names; results with other
              consumers.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(*(f"{_HEAD} {chain}" for chain in _CHAINS))
    laws = tuple(
        _law(f"{outer.format('inner := ' + inner.format('x'))} → converted(result, inner)", name=name)
        for outer, inner, name in (
            (f"{OUR_DOMAIN}.LayoutConverter({{}})", "Transpose({})", "ConverterOfTranspose"),
            ("Transpose({})", f"{OUR_DOMAIN}.LayoutConverter({{}})", "TransposeOfConverter"),
            (f"{OUR_DOMAIN}.LayoutConverter({{}})", f"{OUR_DOMAIN}.LayoutConverter({{}})", "ConverterOfConverter"),
        )
    )


@passes.verify.equality
@passes.register(tags=("layout",))
class AbsorbTransposeIntoWeights(LawPass):
    """Transpose constant weights, and the parameters of their quantizers, in place.

    Rewrites: ``Transpose(Quant(w, s, z, b))`` → ``Quant(w', s', z', b')`` with transposed constants, likewise for other
              quantizers, DequantizeLinear and elementwise operators on constants only.
    Refuses:  plain constants, which fold-constants transposes; values that depend on inputs; results with other
              consumers.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(_WEIGHTS)
    laws = (_law("Transpose(x) → transposed_weights(result, x)", name="TransposeOfWeights"),)
