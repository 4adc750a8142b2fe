"""Remove operators that do nothing with the arguments they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import integer, integers
from onnx_passes.graph.shapes import dimension, is_integral
from onnx_passes.passes.eliminate.forms import bypass, examples
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoOp(Transformation, RewriteRuleSetPass):
    """Remove operators that have no effect with the arguments given.

    Rewrites: ``Tile`` by ones, ``Split`` into one part, ``DepthToSpace`` and ``SpaceToDepth`` of blocks of one,
              ``Gather`` of all in their order, ``MaxPool`` of integers in windows of one, and ``Concat``, ``Sum``,
              ``Mean``, ``Max``, ``Min`` of one input → ``x``.
    Refuses:  arguments that are computed; ``MaxPool`` of floats, of which ONNX Runtime may make NaN finite;
              ``AveragePool``, which turns ``-0.0`` into ``0.0``.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
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

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return [
            *(bypass(name, check) for name, check in _CHECKS.items()),
            *(bypass(name, _has_one_input) for name in ("Concat", "Sum", "Mean", "Max", "Min")),
        ]


def _has_one_input(node: ir.Node) -> Any:
    return yes if len(node.inputs) == 1 else no("it has several inputs", at=node)


def _tiles_once(node: ir.Node) -> Any:
    repeats = integers(node, 1)
    return yes if repeats is not None and set(repeats) <= {1} else no("it repeats, or may do so", at=node)


def _splits_nothing(node: ir.Node) -> Any:
    return yes if len(node.outputs) == 1 else no("it has several parts", at=node)


def _has_blocks_of_one(node: ir.Node) -> Any:
    return yes if integer(node, "blocksize", 0) == 1 else no("its blocks are larger", at=node)


def _has_windows_of_one(node: ir.Node) -> Any:
    for name, number in (("kernel_shape", 1), ("strides", 1), ("pads", 0)):
        given = node.attributes.get(name)
        if given is not None and (given.is_ref() or any(item != number for item in given.as_ints())):
            return no("its windows are larger, wider apart or padded", at=node)
    if not is_integral(node.inputs[0]):
        # ONNX Runtime compares with the least finite number first, depending on attributes that say nothing new.
        return no("NaN and infinities may become finite", at=node)
    return yes


def _gathers_all(node: ir.Node) -> Any:
    axis = integer(node, "axis", 0)
    size = None if axis is None else dimension(node.inputs[0], axis)
    indices = node.inputs[1]
    if size is None or indices is None or indices.shape is None or indices.shape != (size,):
        return no("it does not take as many as there are", at=node)
    order = integers(node, 1)
    if order is None or [index % size for index in order] != list(range(size)):
        return no("it takes them in another order, or may do so", at=node)
    return yes


_CHECKS = {
    "Tile": _tiles_once,
    "Split": _splits_nothing,
    "DepthToSpace": _has_blocks_of_one,
    "SpaceToDepth": _has_blocks_of_one,
    "MaxPool": _has_windows_of_one,
    "Gather": _gathers_all,
}
