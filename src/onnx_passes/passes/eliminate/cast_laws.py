"""Laws of casts that preserve every value."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, integer
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import same_dtype
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes

_FLOATS = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE)


def _target(node: ir.Node) -> ir.DataType | None:
    to = integer(node, "to", 0)
    return None if not to else ir.DataType(to)


def _keeps_type(node: ir.Node) -> Answer:
    x = node.inputs[0]
    if x is None or x.dtype is None:
        return no("the type is not known", at=x)
    return yes if x.dtype == _target(node) else no("the type changes", at=node)


def _keeps_type_of_other(node: ir.Node) -> Answer:
    return yes if same_dtype(node.inputs[0], argument(node, 1)) else no("the type changes, or is not known", at=node)


def _cast_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    x = inner.inputs[0]
    source, middle, target = None if x is None else x.dtype, _target(inner), _target(outer)
    if x is None or source is None or middle is None or target is None:
        return no("the type is not known", at=x)
    if not (_holds(middle, source) and _holds(target, source)):
        return no("a type is too narrow for all values", at=inner)
    return x if target == source else op.Cast(x, to=int(target))


def _holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Return whether every value of type ``narrow`` is also a value of type ``wide``."""
    if wide == narrow:
        return True
    if narrow == ir.DataType.BOOL:
        return wide.is_integer() or wide in _FLOATS
    if narrow.is_integer():
        if wide.is_integer():
            low, high = _limits(narrow)
            return _limits(wide)[0] <= low and high <= _limits(wide)[1]
        digits = narrow.bitwidth - narrow.is_signed()
        return wide in _FLOATS and digits <= _finfo(wide).nmant + 1
    if narrow not in _FLOATS or wide not in _FLOATS:
        return False
    small, large = _finfo(narrow), _finfo(wide)
    return small.nmant <= large.nmant and small.maxexp <= large.maxexp and small.minexp >= large.minexp


def _finfo(dtype: ir.DataType) -> Any:
    return cast(Any, ml_dtypes).finfo(dtype.numpy())


def _limits(dtype: ir.DataType) -> tuple[int, int]:
    bits = dtype.bitwidth
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed() else (0, (1 << bits) - 1)


_law = Vocabulary(_cast_once, _keeps_type, _keeps_type_of_other).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateCast(LawPass):
    """Remove casts to the type that a value already has, and round trips through a wider type.

    Rewrites: ``Cast(x)``, ``CastLike(x, t)`` → ``x``, if the type stays; ``Cast(Cast(x))`` → ``Cast(x)``, if all values
              of the type of ``x`` are also values of both other types; → ``x`` for a cast back to the type of ``x``.
    Refuses:  unknown types; a type in between that is narrower or of another kind (float → int → float).
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        "g (float[2,3] x, float t) => (float[2,3] y) {y = CastLike (x, t)}",
        "g (int8[N] x) => (int8[N] y) {a = Cast<to=1>(x) y = Cast<to=3>(a)}",
        "g (int8[2] x) => (int32[2] y) {a = Cast<to=5>(x) y = Cast<to=6>(a)}",
        "g (float16[2] x) => (float16[2] y) {a = Cast<to=11>(x) y = Cast<to=10>(a)}",
        "g (bool[2] x) => (bool[2] y) {a = Cast<to=16>(x) y = Cast<to=9>(a)}",
        "g (float[2] x) => (float[2] y) {y = Cast<to=1>(x)}",
        "g (int32 x) => (int32 y) {y = Cast<to=6>(x)}",
    )
    laws = (
        _law("Cast(x) → x", When("keeps_type(result)")),
        _law("CastLike(x, ...) → x", When("keeps_type_of_other(result)")),
        _law("Cast(inner := Cast(x)) → cast_once(result, inner)", name="CastOfCast", forks="duplicate"),
    )
