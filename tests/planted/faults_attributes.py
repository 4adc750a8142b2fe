"""Rules that lose an attribute: one application in the host has it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import (
    RewriteRulePass,
    Transformation,
    constant,
    no,
    passes,
)
from tests.planted.planting import Fault, rows, sizes


@passes.verify.tolerance
class MovesReluLosingCeilMode(Transformation, RewriteRulePass):
    """Move Relu before pooling; of the attributes, ceil_mode is forgotten."""

    def pattern(self, op, x):
        return op.Relu(op.MaxPool(x, _outputs=["pooled"]))

    def rewrite(self, op, x, pooled):
        kept = pooled.producer().attributes
        return op.MaxPool(op.Relu(x), **{key: kept[key] for key in ("kernel_shape", "strides", "pads") if key in kept})


@passes.verify.tolerance
class ForgetsEpsilon(Transformation, RewriteRulePass):
    """Write a batch normalization as product and sum, with the epsilon that is the default."""

    def pattern(self, op, x, scale, bias, mean, var):
        return op.BatchNormalization(x, scale, bias, mean, var)

    def check(self, op, x, scale, bias, mean, var):
        if x.dtype is not ir.DataType.FLOAT or x.shape is None or len(x.shape) != 4:
            return no("not four axes of floats", at=x)
        return all(constant(value) is not None for value in (scale, bias, mean, var)) or no("not constant")

    def rewrite(self, op, x, scale, bias, mean, var):
        s, b, m, v = (constant(value).astype(np.float64) for value in (scale, bias, mean, var))
        factor = s / np.sqrt(v + 1e-5)
        shape = (-1, 1, 1)
        product = op.Mul(x, factor.astype(np.float32).reshape(shape))
        return op.Add(product, (b - m * factor).astype(np.float32).reshape(shape))


@passes.verify.equality
class FoldsShapesWhole(Transformation, RewriteRulePass):
    """Fold Shape into a constant without asking for start and end."""

    def pattern(self, op, x):
        return op.Shape(x)

    def check(self, op, x):
        return sizes(x) is not None or no("shape not known", at=x)

    def rewrite(self, op, x):
        return op.initializer(np.array(sizes(x), np.int64))


@passes.verify.equality
class ForgetsThatEmptyAxesMeanNothing(Transformation, RewriteRulePass):
    """Rebuild a reduction without noop_with_empty_axes."""

    def pattern(self, op, x, axes):
        return op.ReduceMax(op.Identity(x), axes, _outputs=["reduced"])

    def rewrite(self, op, x, axes, reduced):
        return op.ReduceMax(x, axes, keepdims=reduced.producer().attributes.get_int("keepdims", 1))


AXES_2 = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}"

POOL = "a@ = Neg(x) b@ = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a@) c@ = Relu(b@) y@ = Neg(c@)"

FAULTS = [
    Fault(
        "ceil_mode lost",
        MovesReluLosingCeilMode,
        rows(
            "float[1,2,5,5] x",
            POOL,
            odd={6: POOL.replace("strides=[2,2]", "strides=[2,2], ceil_mode=1")},
        ),
        "shape",
        culprit=6,
    ),
    Fault(
        "epsilon forgotten",
        ForgetsEpsilon,
        rows(
            "float[2,2,3,3] x",
            "b@ = BatchNormalization(x, s, b, m, v) y@ = Neg(b@)",
            odd={3: "b@ = BatchNormalization<epsilon=0.01>(x, s, b, m, v) y@ = Neg(b@)"},
            initializers="float[2] s = {1.0, 2.0}, float[2] b = {0.5, -1.0}, float[2] m = {0.25, 1.0}, "
            "float[2] v = {0.5, 2.0}",
        ),
        "tolerance",
        culprit=3,
    ),
    Fault(
        "Shape with a start",
        FoldsShapesWhole,
        rows(
            "float[2,3] x",
            "b@ = Shape(x) y@ = Mul(b@, b@)",
            odd={4: "b@ = Shape<start=1>(x) y@ = Mul(b@, b@)"},
            result="int64[] y@",
        ),
        "attributes",
        culprit=4,
    ),
    Fault(
        "reduction over no axes",
        ForgetsThatEmptyAxesMeanNothing,
        rows(
            "float[2,3] x",
            "a@ = Identity(x) b@ = ReduceMax(a@, one) y@ = Neg(b@)",
            odd={7: "a@ = Identity(x) b@ = ReduceMax<noop_with_empty_axes=1>(a@, none) y@ = Neg(b@)"},
            initializers=f"{AXES_2}, int64[0] none = {{}}",
        ),
        "attributes",
        culprit=7,
    ),
]
