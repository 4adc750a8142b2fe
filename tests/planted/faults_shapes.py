"""Rules that are right for most shapes: one application in the host loses an axis or a size."""

from __future__ import annotations

import numpy as np

from onnx_passes import (
    RewriteRulePass,
    RewriteRuleSetPass,
    Rule,
    Transformation,
    constant,
    no,
    passes,
    yes,
)
from tests.planted.planting import Fault, rows, sizes


@passes.verify.equality
class RemovesReductionsOfOne(Transformation, RewriteRuleSetPass):
    """Take any reduction over an axis of one element for a Squeeze; L1 makes positive."""

    def rules(self):
        def rule(kind):
            def pattern(op, x, axes):
                return getattr(op, f"Reduce{kind}")(x, axes, keepdims=0)

            def check(op, x, axes):
                dims, chosen = sizes(x), constant(axes)
                if dims is None or chosen is None or chosen.size != 1:
                    return no("not one constant axis", at=axes)
                return dims[chosen[0]] == 1 or no("more than one element")

            def rewrite(op, x, axes):
                return op.Squeeze(x, axes)

            return Rule(pattern, rewrite, check, name=f"Squeeze{kind}")

        return [rule(kind) for kind in ("Max", "Min", "L1")]


@passes.verify.equality
class RemovesOnesOfAnyShape(Transformation, RewriteRulePass):
    """Remove a multiplication by ones, even if it broadcasts."""

    def pattern(self, op, x, factor):
        return op.Mul(x, factor)

    def check(self, op, x, factor):
        number = constant(factor)
        return number is not None and bool((number == 1).all())

    def rewrite(self, op, x, factor):
        return op.Identity(x)


@passes.verify.equality
class RemovesWhereOfTwins(Transformation, RewriteRulePass):
    """Choose between a value and itself without asking how far the condition reaches."""

    def pattern(self, op, condition, x):
        return op.Where(condition, x, x)

    def rewrite(self, op, condition, x):
        return op.Identity(x)


@passes.verify.equality
class RemovesExpandsThatAddNothing(Transformation, RewriteRulePass):
    """Remove an Expand that adds no elements, though it may add axes."""

    def pattern(self, op, x, shape):
        return op.Expand(x, shape)

    def check(self, op, x, shape):
        dims, target = sizes(x), constant(shape)
        return dims is not None and target is not None and np.prod(dims) == np.prod(target)

    def rewrite(self, op, x, shape):
        return op.Identity(x)


@passes.verify.equality
class CancelsUnsqueeze(Transformation, RewriteRulePass):
    """Cancel Squeeze after Unsqueeze whatever their axes."""

    def pattern(self, op, x, added, removed):
        return op.Squeeze(op.Unsqueeze(x, added), removed)

    def rewrite(self, op, x, added, removed):
        return op.Identity(x)


@passes.verify.tolerance
class MovesNegLosingKeepdims(Transformation, RewriteRulePass):
    """Move Neg past a reduction and lose keepdims."""

    def pattern(self, op, x, axes):
        return op.ReduceSum(op.Neg(x), axes)

    def rewrite(self, op, x, axes):
        return op.Neg(op.ReduceSum(x, axes))


@passes.verify.equality
class FlattensByReshape(Transformation, RewriteRulePass):
    """Write Flatten as Reshape to (first, -1), which nothing of zero size can be."""

    def pattern(self, op, x):
        return op.Flatten(x, axis=1)

    def check(self, op, x):
        return yes if sizes(x) else no("shape not known", at=x)

    def rewrite(self, op, x):
        return op.Reshape(x, [sizes(x)[0], -1])


AXES_2 = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}"


FAULTS = [
    Fault(
        "L1 norm of one element",
        RemovesReductionsOfOne,
        rows(
            "float[2,1,3] x",
            "a@ = ReduceMin<keepdims=0>(x, one) y@ = Neg(a@)",
            odd={
                2: "a@ = ReduceMax<keepdims=0>(x, one) y@ = Neg(a@)",
                5: "a@ = ReduceL1<keepdims=0>(x, one) y@ = Neg(a@)",
            },
            initializers=AXES_2,
        ),
        "values",
        culprit=5,
        rule="SqueezeL1",
    ),
    Fault(
        "ones that broadcast",
        RemovesOnesOfAnyShape,
        rows(
            "float[1,3] x",
            "a@ = Neg(x) b@ = Mul(a@, ones) y@ = Abs(b@)",
            odd={3: "a@ = Neg(x) b@ = Mul(a@, more) y@ = Abs(b@)"},
            initializers="float[3] ones = {1.0, 1.0, 1.0}, float[2,1] more = {1.0, 1.0}",
        ),
        "shape",
        culprit=3,
    ),
    Fault(
        "condition that broadcasts",
        RemovesWhereOfTwins,
        rows(
            "float[1,3] x, float[2,3] z",
            "a@ = Neg(x) b@ = Where(near, a@, a@) y@ = Abs(b@)",
            odd={8: "a@ = Neg(x) b@ = Where(far, a@, a@) y@ = Abs(b@)"},
            before="near = Less(x, x) far = Less(z, z)",
        ),
        "shape",
        culprit=8,
    ),
    Fault(
        "Expand that adds an axis",
        RemovesExpandsThatAddNothing,
        rows(
            "float[2,3] x",
            "b@ = Expand(x, same) y@ = Abs(b@)",
            odd={2: "b@ = Expand(x, more) y@ = Abs(b@)"},
            initializers="int64[2] same = {2, 3}, int64[3] more = {1, 2, 3}",
        ),
        "shape",
        culprit=2,
    ),
    Fault(
        "Squeeze of another axis",
        CancelsUnsqueeze,
        rows(
            "float[4,1] x",
            "a@ = Neg(x) b@ = Unsqueeze(a@, zero) c@ = Squeeze(b@, zero) y@ = Abs(c@)",
            odd={5: "a@ = Neg(x) b@ = Unsqueeze(a@, zero) c@ = Squeeze(b@, two) y@ = Abs(c@)"},
            initializers=AXES_2,
        ),
        "shape",
        culprit=5,
    ),
    Fault(
        "keepdims lost",
        MovesNegLosingKeepdims,
        rows(
            "float[3,3] x",
            "a@ = Neg(x) b@ = ReduceSum(a@, one) y@ = Sub(x, b@)",
            odd={4: "a@ = Neg(x) b@ = ReduceSum<keepdims=0>(a@, one) y@ = Sub(x, b@)"},
            initializers=AXES_2,
        ),
        "broadcast",
        culprit=4,
    ),
    Fault(
        "Flatten of zero size",
        FlattensByReshape,
        rows(
            "float[2,3,4] x, float[0,3,4] z",
            "a@ = Flatten<axis=1>(x) y@ = Neg(a@)",
            odd={3: "a@ = Flatten<axis=1>(z) y@ = Neg(a@)"},
        ),
        "zero size",
        culprit=3,
    ),
]
