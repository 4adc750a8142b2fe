"""Laws of operators without effect for the given arguments."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, integer, integers, text
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, holds_only
from onnx_passes.graph.shapes import dimension, is_integral
from onnx_passes.rewrite.hints import hints, in_opset
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, no, yes

_NO_INPUT = 4


def _has_one_input(node: ir.Node) -> Answer:
    return yes if len(node.inputs) == 1 else no("it has several inputs", at=node)


def _tiles_once(node: ir.Node) -> Answer:
    repeats = integers(node, 1)
    return yes if repeats is not None and set(repeats) <= {1} else no("it repeats, or may do so", at=node)


def _splits_nothing(node: ir.Node) -> Answer:
    return yes if len(node.outputs) == 1 else no("it has several parts", at=node)


def _has_blocks_of_one(node: ir.Node) -> Answer:
    return yes if integer(node, "blocksize", 0) == 1 else no("its blocks are larger", at=node)


def _has_windows_of_one(node: ir.Node) -> Answer:
    for name, number in (("kernel_shape", 1), ("strides", 1), ("pads", 0)):
        given = node.attributes.get(name)
        if given is not None and (given.is_ref() or any(item != number for item in given.as_ints())):
            return no("its windows are larger, wider apart or padded", at=node)
    if not is_integral(node.inputs[0]):
        # ONNX Runtime starts from the least finite number, depending on attributes that do not matter here.
        return no("NaN and infinities may become finite", at=node)
    return yes


def _gathers_all(node: ir.Node) -> Answer:
    axis = integer(node, "axis", 0)
    size = None if axis is None else dimension(node.inputs[0], axis)
    indices = node.inputs[1]
    if size is None or indices is None or indices.shape is None or indices.shape != (size,):
        return no("the number of indices is not the size of the axis", at=node)
    order = integers(node, 1)
    if order is None or [index % size for index in order] != list(range(size)):
        return no("the indices are not known to be in order", at=node)
    return yes


def _is_inactive(node: ir.Node) -> Answer:
    training = argument(node, 2)
    if training is not None and not holds_only(training, False):
        return no("it may be in training mode", at=training)
    return yes


def _with_mask(op: Builder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    return x, op.Expand(np.array(True), op.Shape(x))


def _keeps_size(node: ir.Node) -> Answer:
    if text(node, "coordinate_transformation_mode", "half_pixel") in ("tf_crop_and_resize", None):
        return no("it crops", at=node)
    if len(node.inputs) == 2:  # opset 10
        return _scales_by_one(node)
    sizes = argument(node, 3)
    if sizes is None:
        return _are_ones(node, constant(argument(node, 2)))
    wanted = integers(node, 3)
    if wanted is None:
        return no("the sizes are not constant", at=sizes)
    axes = integers(node, _NO_INPUT, "axes") if "axes" in node.attributes else list(range(len(wanted)))
    if axes is None or any(dimension(node.inputs[0], axis) != size for axis, size in zip(axes, wanted, strict=True)):
        return no("a size changes, or is not known", at=node)
    return yes


def _scales_by_one(node: ir.Node) -> Answer:
    given = node.attributes.get("scales")
    if given is not None and not given.is_ref():
        return _are_ones(node, np.array(given.as_floats()))
    return _are_ones(node, constant(argument(node, 1)))


def _are_ones(node: ir.Node, scales: np.ndarray | None) -> Answer:
    ones = scales is not None and scales.size > 0 and bool((scales == 1).all())
    return yes if ones else no("a scale is not known to be one", at=node)


_law = Vocabulary(
    _gathers_all,
    _has_blocks_of_one,
    _has_one_input,
    _has_windows_of_one,
    _is_inactive,
    _keeps_size,
    _scales_by_one,
    _splits_nothing,
    _tiles_once,
    _with_mask,
).law
_CHECKS = {
    "Tile": "tiles_once",
    "Split": "splits_nothing",
    "DepthToSpace": "has_blocks_of_one",
    "SpaceToDepth": "has_blocks_of_one",
    "MaxPool": "has_windows_of_one",
    "Gather": "gathers_all",
    **dict.fromkeys(("Concat", "Sum", "Mean", "Max", "Min"), "has_one_input"),
}
_INACTIVE = When("is_inactive(y)")


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoOp(LawPass):
    """Remove operators that have no effect with the given arguments.

    Rewrites: ``Tile`` by ones, ``Split`` into one part, ``DepthToSpace`` and ``SpaceToDepth`` of blocks of one,
              ``Gather`` of all indices in order, ``MaxPool`` of integers in windows of one, and ``Concat``, ``Sum``,
              ``Mean``, ``Max``, ``Min`` of one input → ``x``.
    Refuses:  arguments that are computed; ``MaxPool`` of floats, for which ONNX Runtime may turn NaN finite;
              ``AveragePool``, which turns ``-0.0`` into ``0.0``.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g ({kind}[{shape}] x) => ({kind}[{shape}] y) <int64[4] ones = {{1, 1, 1, 1}}, int64[1] all = {{{size}}},
            int64[{size}] i = {{{indices}}}> {{
                a = Tile (x, ones)  b = Split <axis = 1> (a, all)  c = Concat <axis = -1> (b)
                d = DepthToSpace <blocksize = 1> (c)  e = SpaceToDepth <blocksize = 1> (d)
                g = Gather <axis = 1> (e, i)
                h = Sum (g)  j = Mean (h)  k = Max (j)  y = Min (k)
            }}"""
            for kind, shape, size, indices in (
                ("float", "1,3,2,2", 3, "0, 1, 2"),
                ("float", "N,2,1,M", 2, "0, -1"),
                ("float", "2,1,3,2", 1, "0"),
            )
        ),
        "g (float[2,3] x) => (float[2,3] y) <int64[3] i = {0, 1, 2}> {y = Gather <axis = 1> (x, i)}",
        "g (float[2,M] x) => (float[2,M] y) <int32[2] i = {-2, 1}> {y = Gather (x, i)}",
        "g (int64[2,1] x, int64[1] n) => (int64[2,1] y) {a = Split <axis = 1> (x, n) b = Max (a) y = Min (b)}",
        'g (int8[1,2,3,3] x) => (int8[1,2,3,3] y) {y = MaxPool <kernel_shape = [1, 1], auto_pad = "SAME_UPPER"> (x)}',
        "g (double[1,2,3] x) => (double[1,2,3] y) {y = MaxPool <kernel_shape = [1], ceil_mode = 1> (x)}",
    )
    laws = tuple(_law(f"{f}(x, ...) → x", When(f"{check}(result)"), commute=False) for f, check in _CHECKS.items())


@passes.verify.equality
@passes.register("eliminate")
class EliminateDropout(LawPass):
    """Remove Dropout that is not in training mode.

    Rewrites: ``Dropout(x)`` → ``x``; its mask, if used → ``true`` everywhere.
    Refuses:  a training mode that is computed, true, or may be overridden; opsets below 7 (and, if the mask is used,
              below 10), where training is an attribute.
    Exactness: bit-exact.
    """

    needs = ()
    fuzz_hints = hints(
        "g (float[2,3] x) => (float[2,3] y, bool[2,3] m) {y, m = Dropout (x)}",
        "g (float x, float r) => (float y, bool m) <bool t = {0}> {y, m = Dropout (x, r, t)}",
        "g (float16[N] x) => (float16[N] y, m) <float r = {0.3}> {a, b = Dropout (x, r) y = Neg (a) m = Not (b)}",
        "g (double[0,2] x) => (double[0,2] y, bool[0,2] m) {y, m = Dropout (x)}",
    )
    laws = tuple(
        _law(text, When(f"opset >= {since}", "training is an attribute in this opset"), _INACTIVE, name=name)
        for name, since, text in (
            ("Dropout", 7, "y = Dropout(x, ...) → x"),
            ("DropoutWithMask", 10, "y, mask = Dropout(x, ...) → with_mask(x)"),
        )
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateResize(LawPass):
    """Remove Resize and Upsample that keep the size.

    Rewrites: ``Resize(x, scales=[1, …])``, ``Resize(x, sizes=shape of x)``, ``Upsample(x, [1, …])`` → ``x``.
    Refuses:  ``tf_crop_and_resize``, which crops; computed scales or sizes; sizes of unknown dimensions.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g (float[{shape}] x) => (float[{shape}] y) <float[4] ones = {{1.0, 1.0, 1.0, 1.0}}> {{
                y = Resize <mode = "{mode}", coordinate_transformation_mode = "{way}"> (x, , ones)
            }}"""
            for shape in ("1,2,3,2", "N,1,M,K")
            for mode in ("nearest", "linear", "cubic")
            for way in ("half_pixel", "align_corners")
        ),
        *(
            f"""g (float[2,1,3,4] x) => (float[2,1,3,4] y) <int64[{count}] sizes = {{{sizes}}}> {{
                y = Resize <mode = "linear"{axes}> (x, , , sizes)
            }}"""
            for count, sizes, axes in ((4, "2, 1, 3, 4", ""), (2, "4, 3", ", axes = [-1, 2]"))
        ),
        *(
            in_opset(
                9,
                f"""g ({kind}[{shape}] x) => ({kind}[{shape}] y) <float[4] ones = {{1.0, 1.0, 1.0, 1.0}}> {{
                    y = Upsample <mode = "{mode}"> (x, ones)
                }}""",
            )
            for kind in ("float", "int32", "uint8")
            for shape in ("1,2,3,2", "N,1,M,K")
            for mode in ("nearest", "linear")
        ),
    )
    laws = (
        _law("Resize(x, ...) → x", When("keeps_size(result)")),
        _law("Upsample(x, ...) → x", When("scales_by_one(result)")),
    )
