"""Laws of Reshape, Flatten, Squeeze and Unsqueeze, which keep the order of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, integer, integers, squeezed_axes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import Dim, dims, rank, same_dim, stays
from onnx_passes.passes.move.rows import SIZES_TO_TRY, stacked_rows
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Refusal, Rewritten, no, yes

_UNKNOWN = no("the axes are not constant, or counted from an unknown end")
_NEW = -1


def _keeps_shape(node: ir.Node) -> Answer:
    x = node.inputs[0]
    if stays(node):
        return yes
    target, shape, allow_zero = integers(node, 1), dims(x), integer(node, "allowzero", 0)
    if target is None or shape is None or allow_zero is None:
        return no("the shapes are not known", at=node)
    if len(target) != len(shape):
        return no("the rank changes", at=node)
    changed = [
        size
        for size, dim in zip(target, shape, strict=True)
        if not (size == 0 and not allow_zero) and not (size == dim and dim != 0)
    ]
    return yes if changed in ([], [-1]) else no("the shape changes, or is not known", at=node)


def _flattens_nothing(node: ir.Node) -> Answer:
    two_axes = rank(node.inputs[0]) == 2 and integer(node, "axis", 1) in (1, -1)
    return yes if two_axes else no("the shape changes, or is not known", at=node)


def _reshaped_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    x, shape = inner.inputs[0], argument(outer, 1)
    target, allow_zero = integers(outer, 1), integer(outer, "allowzero", 0)
    if allow_zero:
        return op.Reshape(x, shape, allowzero=1)
    if target is None or allow_zero is None:
        computed = shape is not None and shape.producer() is not None
        copied = _copied(dims(x), dims(outer.outputs[0])) if computed else None
        if copied is None:
            return no("the target is not constant and may copy dimensions", at=shape)
        return op.Reshape(x, np.array(copied, np.int64))
    if 0 not in target:
        return op.Reshape(x, shape)
    before, between = dims(x) or (), dims(outer.inputs[0])
    if between is None:
        return no("the copied dimensions are not known", at=outer.inputs[0])
    for axis in [axis for axis, size in enumerate(target) if size == 0]:
        dim = between[axis]
        if isinstance(dim, int) and dim > 0:
            target[axis] = dim
        elif axis >= len(before) or not same_dim(before[axis], dim):
            return no("the copied dimensions are not known", at=outer.inputs[0])
    return op.Reshape(x, np.array(target, np.int64))


def _copied(before: Sequence[Dim] | None, after: Sequence[Dim] | None) -> list[int] | None:
    """Return a constant target that copies the dynamic sizes in place; None if that is not possible."""
    if before is None or after is None:
        return None
    fits = all(
        (isinstance(size, int) and size > 0) or (axis < len(before) and same_dim(before[axis], size))
        for axis, size in enumerate(after)
    )
    return [size if isinstance(size, int) else 0 for size in after] if fits else None


def _keeps_rank(node: ir.Node) -> Answer:
    nothing = node.op_type == "Unsqueeze" and integers(node, 1, "axes") == []
    return yes if nothing or stays(node) else no("the rank changes", at=node)


def _apply(layout: list[int], node: ir.Node) -> list[int] | None:
    """Apply Squeeze or Unsqueeze to a layout: a list of axes of the first input, or of new axes."""
    if node.op_type == "Squeeze":
        axes = squeezed_axes(node, len(layout))
        return None if axes is None else [item for axis, item in enumerate(layout) if axis not in axes]
    given = integers(node, 1, "axes")
    axes = None if given is None else squeezed_axes(node, len(layout) + len(given))
    if axes is None:
        return None
    result = list(layout)
    for axis in axes:
        result.insert(axis, _NEW)
    return result


def _squeezed_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    x, length = inner.inputs[0], rank(inner.inputs[0])
    if length is None:
        return x if _reverts(outer, inner) else _UNKNOWN
    between = _apply(list(range(length)), inner)
    after = None if between is None else _apply(between, outer)
    if between is None or after is None:
        return _UNKNOWN
    removed = [axis for axis in range(length) if axis not in after]
    if inner.op_type == "Squeeze" and len(after) == length and _brings_back(after, removed):
        return x
    added = [axis for axis, item in enumerate(after) if item == _NEW]
    if removed and added:
        return no("axes are both removed and added", at=outer)
    if not removed and not added:
        return x
    op_type, axes = ("Squeeze", removed) if removed else ("Unsqueeze", added)
    build = getattr(op, op_type)
    return build(x, axes=axes) if argument(outer, 1) is None and "axes" in outer.attributes else build(x, _list(axes))


def _brings_back(after: list[int], removed: list[int]) -> bool:
    """Return whether removed axes of size one are restored at their places."""
    return all(item == axis or (item == _NEW and axis in removed) for axis, item in enumerate(after))


def _reverts(outer: ir.Node, inner: ir.Node) -> bool:
    """Return whether Unsqueeze reverts Squeeze, or conversely, on the same axes of the same rank."""
    if outer.op_type == inner.op_type:
        return False
    first, second = integers(inner, 1, "axes"), integers(outer, 1, "axes")
    return first is not None and second is not None and sorted(first) == sorted(second)


def _list(axes: list[int]) -> np.ndarray:
    return np.array(axes, np.int64)


def _reshaped_wider(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    found = _target_and_axes(outer, inner)
    if isinstance(found, Refusal):
        return found
    target, axes, allow_zero = found
    rank = len(target) + len(axes)
    places = {axis + rank if axis < 0 else axis for axis in axes}
    if len(places) != len(axes) or not places <= set(range(rank)):
        return no("the axes are not valid", at=outer)
    rest = iter(enumerate(target))
    moved: list[int] = []
    for place in range(rank):
        if place in places:
            moved.append(1)
            continue
        before, size = next(rest)
        if size == 0 and before != place and not allow_zero:
            return no("a copied dimension would move to another axis", at=inner)
        moved.append(size)
    return _reshape(op, inner, moved, allow_zero)


def _reshaped_narrower(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    found = _target_and_axes(outer, inner)
    if isinstance(found, Refusal):
        return found
    target, axes, allow_zero = found
    places = {axis + len(target) if axis < 0 else axis for axis in axes}
    if not all(0 <= place < len(target) and target[place] == 1 for place in places):
        return no("an axis to remove is not 1 in the target", at=inner)
    kept = [(place, size) for place, size in enumerate(target) if place not in places]
    if not allow_zero and any(size == 0 and place != now for now, (place, size) in enumerate(kept)):
        return no("a copied dimension would move to another axis", at=inner)
    return _reshape(op, inner, [size for _, size in kept], allow_zero)


def _target_and_axes(outer: ir.Node, inner: ir.Node) -> tuple[list[int], list[int], int] | Refusal:
    target, axes = integers(inner, 1), integers(outer, 1, "axes")
    allow_zero = integer(inner, "allowzero", 0)
    if target is None or allow_zero is None:
        return no("the target is not constant", at=inner)
    if axes is None and outer.op_type == "Squeeze" and _removes_all_ones(outer) and min(target, default=1) > 0:
        axes = [place for place, size in enumerate(target) if size == 1]
    if axes is None:
        return no("the axes are not constant", at=outer)
    return target, axes, allow_zero


def _removes_all_ones(squeeze: ir.Node) -> bool:
    return "axes" not in squeeze.attributes and (len(squeeze.inputs) < 2 or squeeze.inputs[1] is None)


def _reshape(op: Builder, inner: ir.Node, target: list[int], allow_zero: int) -> ir.Value:
    shape = np.array(target, np.int64)
    x = inner.inputs[0]
    return op.Reshape(x, shape, allowzero=1) if allow_zero else op.Reshape(x, shape)


def _product_of_stacked(op: Builder, flat: ir.Value, w: ir.Value, product: ir.Value, result: ir.Value) -> Rewritten:
    """Multiply ``w`` by the rows, shaped as in the result."""
    sizes = dims(w)
    if sizes is None or len(sizes) != 2:
        return no("the right operand is not known to be a matrix", at=w)
    if (rank(result) or 0) < 2:
        return no("the rank of the result is unknown or less than 2", at=result)
    rows = stacked_rows(op, flat, product, result, sizes, reshape_pays=True)
    return rows if isinstance(rows, Refusal) else op.MatMul(rows, w)


_law = Vocabulary(
    _flattens_nothing,
    _keeps_rank,
    _keeps_shape,
    _product_of_stacked,
    _reshaped_narrower,
    _reshaped_once,
    _reshaped_wider,
    _squeezed_once,
).law
_BOTH = ("Squeeze", "Unsqueeze")


@passes.verify.equality
@passes.register("eliminate")
class EliminateReshape(LawPass):
    """Remove reshapes that have no effect, or are redundant because of another reshape.

    Rewrites: ``Reshape(x, s)``, ``Flatten(x)`` → ``x``, if the shape stays: known numbers and named dimensions agree,
              or the target only copies dimensions and infers the last one;
              ``Reshape(f(x), s)`` → ``Reshape(x, s)`` for ``Reshape``, ``Flatten``, ``Squeeze``, ``Unsqueeze``.
    Refuses:  a target that copies (``0``) a dimension that is not known or is zero; targets that are computed and may
              hold zeros, unless all dynamic sizes of the result equal those of ``x`` on the same axes.
    Exactness: bit-exact.
    """

    laws = (
        _law("Reshape(x, ...) → x", When("keeps_shape(result)")),
        _law("Flatten(x) → x", When("flattens_nothing(result)")),
        *(
            _law(
                f"Reshape(inner := {f}(x, ...), ...) → reshaped_once(result, inner)",
                name=f"ReshapeOf{f}",
                forks="duplicate",
            )
            for f in ("Reshape", "Flatten", *_BOTH)
        ),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateSqueeze(LawPass):
    """Remove Squeeze and Unsqueeze nodes without effect, and merge or cancel consecutive ones.

    Rewrites: ``Squeeze(x)``, ``Unsqueeze(x, [])`` → ``x``, if the rank stays; ``Squeeze(Unsqueeze(x))`` and
              ``Unsqueeze(Squeeze(x))`` → ``x``, ``Squeeze(x)`` or ``Unsqueeze(x)``;
              ``Squeeze(Squeeze(x))`` → ``Squeeze(x)``; ``Unsqueeze(Unsqueeze(x))`` → ``Unsqueeze(x)``.
    Refuses:  axes that are computed, or counted from the end of an unknown rank; a pair that, merged, still removes and
              adds axes.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g ({kind} x, float[2,1,3] v) => ({kind} y, {kind} z, float[2,1,3] w)
                <int64[0] none = {{}}, int64[1] one = {{1}}> {{
                y = Squeeze (x) z = Unsqueeze (x, none) t = Squeeze (v, one) w = Unsqueeze (t, one)
            }}"""
            for kind in (
                "float[2,3]",
                "int8",
                "bool[4,0,2]",
                "float[5]",
                "double[3,2,7]",
                "int64[2]",
                "float16[2,2,2]",
                "int8[3]",
                "bool[2,2]",
                "float[3,0]",
                "double",
                "int64[2,3,2]",
                "float16",
                "int32[2]",
                "uint8[4]",
            )
        )
    )
    laws = (
        *(_law(f"{f}(x, ...) → x", When("keeps_rank(result)")) for f in _BOTH),
        *(
            _law(f"{f}(inner := {g}(x, ...), ...) → squeezed_once(result, inner)", name=f"{f}Of{g}", forks="duplicate")
            for f in _BOTH
            for g in _BOTH
        ),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateSqueezeOfReshape(LawPass):
    """Fold Squeeze and Unsqueeze nodes into the target of the Reshape before them.

    Rewrites: ``Unsqueeze(Reshape(x, [-1, 8]), [0])`` → ``Reshape(x, [1, -1, 8])``;
              ``Squeeze(Reshape(x, [-1, 1, 8]), [1])`` → ``Reshape(x, [-1, 8])``; ``Squeeze(Reshape(x, [1, 4, 8]))``
              → ``Reshape(x, [4, 8])``.
    Refuses:  targets or axes that are not constant; a Reshape with other consumers; a target that copies (``0``) a
              dimension that moves to another axis; axes that are not 1 in the target.
    Exactness: bit-exact.
    """

    needs = ()
    fuzz_hints = hints(
        "g (float[2,6] x) => (float[1,3,4] y) <int64[2] s = {3, 4}, int64[1] a = {0}>"
        " { r = Reshape (x, s) y = Unsqueeze (r, a) }",
        "g (float[2,6] x) => (float[12] y) <int64[3] s = {1, -1, 1}, int64[2] a = {0, 2}>"
        " { r = Reshape (x, s) y = Squeeze (r, a) }",
        "g (float[2,6] x) => (float[12] y) <int64[3] s = {1, 12, 1}> { r = Reshape (x, s) y = Squeeze (r) }",
    )
    laws = (
        _law("Unsqueeze(inner := Reshape(x, ...), ...) → reshaped_wider(result, inner)", name="UnsqueezeOfReshape"),
        _law("Squeeze(inner := Reshape(x, ...), ...) → reshaped_narrower(result, inner)", name="SqueezeOfReshape"),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateReshapeOfMatmul(LawPass):
    """Remove reshapes that flatten the rows of a MatMul and unflatten its result.

    Rewrites: ``Reshape(MatMul(Reshape(x, s), w), t)`` → ``MatMul(x, w)``, if the reshapes keep the rows of ``x`` and
              those of the product; → ``MatMul(Reshape(x, [0, 0, 4]), w)``, if ``x`` splits the rows.
    Refuses:  a ``w`` that is not known to be a matrix; empty rows, or rows of unknown size; leading axes that are not
              known to be those of ``x``, or to be reached by a constant target; a product with other consumers.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g ({kind}[{lead},3] x, {kind}[3,2] w) => ({kind}[{lead},2] y)
                    <int64[2] s = {{-1, 3}}, {shape}, {kind}[A,3] r, {kind}[A,2] p> {{
                        r = Reshape (x, s) p = MatMul (r, w) y = Reshape (p, t)
                    }}"""
            for kind in ("float", "double", "float16", "int32", "uint64")
            for lead, shape in (("2,5", "int64[3] t = {2, 5, 2}"), ("2,N,2", "int64[4] t = {2, -1, 2, 2}"))
        ),
        *(
            f"""g (float[N,M,{x}] x, float[4,2] w) => (float[N,M,2] y)
                    <int64[2] s = {{-1, 4}}, int64[1] n = {{2}}, float[A,4] r, float[A,2] p> {{
                        r = Reshape (x, s) p = MatMul (r, w)
                        l = Shape <start = 0, end = 2> (x) t = Concat <axis = 0> (l, n) y = Reshape (p, t)
                    }}"""
            for x in ("4", "2,2", "1,2,2")
        ),
        **SIZES_TO_TRY,
    )
    laws = (
        _law(
            "Reshape(product := (flat := Reshape(x, s)) @ w, t) → product_of_stacked(flat, w, product, result)",
            name="EliminateReshapeOfMatmul",
            forks="duplicate",
        ),
    )
