"""Rules that are right for every shape, on models that tempt a careless check."""

from __future__ import annotations

import numpy as np

from onnx_passes import (
    RewriteRulePass,
    Transformation,
    constant,
    no,
    passes,
)
from tests.planted.planting import Tricky, perm_of, rows, sizes, text, vector


@passes.verify.equality
class CancelsTransposes(Transformation, RewriteRulePass):
    """Remove a Transpose and its inverse."""

    def pattern(self, op, x):
        inner = op.Transpose(x, _outputs=["inner"])
        return op.Transpose(inner, _outputs=["outer"])

    def check(self, op, x, inner, outer):
        if "perm" not in inner.producer().attributes or "perm" not in outer.producer().attributes:
            return no("no permutation given")
        return [perm_of(inner)[axis] for axis in perm_of(outer)] == sorted(perm_of(inner)) or no("not inverse")

    def rewrite(self, op, x, inner, outer):
        return op.Identity(x)


@passes.verify.equality
class SplitsConcats(Transformation, RewriteRulePass):
    """Join three in two steps."""

    def pattern(self, op, a, b, c):
        return op.Concat(a, b, c, _outputs=["joined"])

    def rewrite(self, op, a, b, c, joined):
        axis = joined.producer().attributes["axis"]
        return op.Concat(op.Concat(a, b, axis=axis), c, axis=axis)


@passes.verify.equality
class FlattensByReshape(Transformation, RewriteRulePass):
    """Write Flatten as Reshape, also for what has zero size."""

    def pattern(self, op, x):
        return op.Flatten(x, axis=1)

    def check(self, op, x):
        return bool(sizes(x)) or no("shape not known", at=x)

    def rewrite(self, op, x):
        first, *rest = sizes(x)
        return op.Reshape(x, [first, int(np.prod(rest))], allowzero=1)


@passes.verify.equality
class MergesSlices(Transformation, RewriteRulePass):
    """Slice a slice at once, ending where the first of both ends."""

    def pattern(self, op, x, start, end, later, last):
        return op.Slice(op.Slice(x, start, end), later, last)

    def check(self, op, x, start, end, later, last):
        ends = [vector(value) for value in (start, end, later, last)]
        return all(end is not None and len(end) == 1 and 0 <= end[0] < 2**31 for end in ends) or no("not simple")

    def rewrite(self, op, x, start, end, later, last):
        first, second, third, fourth = (constant(value).astype(np.int64) for value in (start, end, later, last))
        return op.Slice(x, first + third, np.minimum(second, first + fourth))


@passes.verify.equality
class CancelsUnsqueeze(Transformation, RewriteRulePass):
    """Cancel Squeeze after Unsqueeze of the same axes."""

    def pattern(self, op, x, axes):
        return op.Squeeze(op.Unsqueeze(x, axes), axes)

    def rewrite(self, op, x, axes):
        return op.Identity(x)


@passes.verify.equality
class RemovesIdentities(Transformation, RewriteRulePass):
    """Remove Identity, also where both its ends belong to the interface."""

    def pattern(self, op, x):
        return op.Identity(x)

    def rewrite(self, op, x):
        return x


TURN = "a@ = Neg(x) b@ = Transpose<perm=[1,2,0]>(a@) c@ = Transpose<perm=[2,0,1]>(b@) y@ = Abs(c@)"


TRICKY = [
    Tricky("inverse permutations", CancelsTransposes, rows("float[2,3,4] x", TURN), "rule"),
    Tricky(
        "join in two steps",
        SplitsConcats,
        rows(
            "float[2,0] x, float[2,3] z",
            "a@ = Concat<axis=1>(x, z, x) y@ = Neg(a@)",
            odd={3: "b@ = Transpose(z) a@ = Concat<axis=-1>(b@, b@, b@) y@ = Neg(a@)"},
        ),
        "rule",
    ),
    Tricky(
        "Flatten of zero size",
        FlattensByReshape,
        rows(
            "float[2,3,4] x, float[0,3,4] z, float[3,0,2] w",
            "a@ = Flatten<axis=1>(x) y@ = Neg(a@)",
            odd={3: "a@ = Flatten<axis=1>(z) y@ = Neg(a@)", 6: "a@ = Flatten<axis=1>(w) y@ = Neg(a@)"},
        ),
        "rule",
    ),
    Tricky(
        "slices ended by the first",
        MergesSlices,
        rows(
            "float[12] x, float[N] z",
            "a@ = Neg(x) b@ = Slice(a@, two, end) c@ = Slice(b@, two, end) y@ = Abs(c@)",
            odd={5: "a@ = Neg(z) b@ = Slice(a@, two, end) c@ = Slice(b@, end, end) y@ = Abs(c@)"},
            initializers="int64[1] two = {2}, int64[1] end = {9}",
        ),
        "rule",
    ),
    Tricky(
        "axes added and removed",
        CancelsUnsqueeze,
        rows(
            "float[N,1] x",
            "a@ = Neg(x) b@ = Unsqueeze(a@, axes) c@ = Squeeze(b@, axes) y@ = Abs(c@)",
            initializers="int64[2] axes = {0, 2}",
        ),
        "rule",
    ),
    Tricky(
        "Identity at the interface",
        RemovesIdentities,
        text(
            "float[3] x, float[3] same",
            "float[3] y, float[3] z, float[3] same, float[3] w",
            "y = Identity(x) a = Neg(x) b = Identity(a) z = Identity(b) w = Identity(z)",
        ),
        "rule",
        levels=frozenset({"bits:sampled"}),
    ),
]
