"""Rules that are wrong, each in a way that real collections of rules were wrong, with what must be found."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import constant
from onnx_passes.testing.fuzz import Kind
from tests.testing.fuzz.sound_rules import close, exact, static


def tensor(op: Any, values: Any, name: str = "new") -> Any:
    return op.initializer(ir.Tensor(np.asarray(values)), name=name)


def looks_scalar(value: ir.Value) -> bool:
    """Take what has one element for a scalar: the confusion of many rules."""
    shape = static(value)
    return shape is not None and int(np.prod(shape)) == 1


def _fold_shape(op: Any, x: Any) -> Any:
    return op.Constant(value=ir.tensor(np.array(static(x), np.int64)))


def _expands_to_itself(op: Any, x: Any, s: Any) -> bool:
    return constant(s) is not None and static(x) is not None and bool(np.all(np.equal(static(x), constant(s))))


def _reduces_ones(op: Any, x: Any, axes: Any) -> bool:
    found, shape = constant(axes), static(x)
    return found is not None and found.size > 0 and shape is not None and all(shape[axis] == 1 for axis in found)


def _pool_pads(op: Any, x: Any, y: Any) -> Any:
    node = y.producer()
    pads = node.attributes["pads"].as_ints()
    return op.MaxPool(op.Relu(x), **{**dict(node.attributes.items()), "pads": pads})


def _common_scale(op: Any, x: Any, w: Any) -> Any:
    scale = np.abs(constant(w)[constant(w) != 0])[0]
    return op.Mul(op.MatMul(x, tensor(op, constant(w) / scale, "w")), tensor(op, scale, "scale"))


def _attributes(value: ir.Value) -> dict[str, Any]:
    return dict(value.producer().attributes.items())


def _clip_fused(op: Any, x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    low, high = np.maximum(constant(a), constant(c)), np.minimum(constant(b), constant(d))
    return op.Clip(x, tensor(op, low, "low"), tensor(op, high, "high"))


def _is_no_power_of_two(array: np.ndarray) -> bool:
    return array.size > 0 and np.isfinite(array).all() and (np.abs(np.frexp(array)[0]) != 0.5).all() and array.all()


def _constants(*names: str) -> Any:
    return lambda op, **bound: all(constant(bound[name]) is not None for name in names)


SHAPE, WRONG, CRASH, HANG, INVALID = Kind.SHAPE, Kind.WRONG, Kind.CRASH, Kind.HANG, Kind.INVALID
FLOAT = ir.DataType.FLOAT

FAULTY: dict[str, tuple[Any, set[Kind]]] = {
    "absorption loses broadcasting": (
        exact(lambda op, x, y: op.Min(x, op.Max(x, y)), lambda op, x, y: op.Identity(x)),
        {SHAPE},
    ),
    "transpose past where rewrites its own result": (
        exact(
            lambda op, c, x, y, perm: op.Where(op.Transpose(c, perm=perm), x, y),
            lambda op, c, x, y, perm: (
                op.Transpose(op.Where(c, op.Transpose(x, perm=np.argsort(perm.as_ints()).tolist()), y), perm=perm)
                if len(perm.as_ints()) > 1
                else op.Where(op.Transpose(c, perm=perm), x, y)
            ),
        ),
        {HANG},
    ),
    "check with another signature": (
        exact(
            lambda op, x, y, z: op.Less(op.Add(x, z), op.Add(y, z)),
            lambda op, x, y, z: op.Less(x, y),
            lambda op, x: (lambda: True)(x),
        ),
        {CRASH},
    ),
    "expand with one input": (
        exact(lambda op, x: op.BitwiseXor(x, x), lambda op, x: op.Expand(op.Sub(x, x))),
        {INVALID, CRASH},
    ),
    "shape without start and end": (
        exact(lambda op, x: op.Shape(x), _fold_shape, lambda op, x: static(x) is not None),
        {SHAPE, WRONG},
    ),
    "expand of scalars": (
        exact(lambda op, x, s: op.Expand(x, s), lambda op, x, s: op.Identity(x), _expands_to_itself),
        {SHAPE, CRASH},
    ),
    "reduction of one element is not always that element": (
        exact(
            lambda op, x, axes: op.ReduceL1(x, axes, keepdims=0),
            lambda op, x, axes: op.Squeeze(x, axes),
            _reduces_ones,
        ),
        {WRONG},
    ),
    "relu absorbed by comparison": (
        exact(lambda op, x, a: op.Less(op.Relu(x), a), lambda op, x, a: op.Less(x, a)),
        {WRONG},
    ),
    "clip absorbed by comparison": (
        exact(
            lambda op, x, y: op.Equal(y, op.Clip(x, -1.0, 0.0)),
            lambda op, x, y: op.Equal(x, y),
        ),
        {WRONG},
    ),
    "square absorbed by comparison": (
        exact(
            lambda op, x, a: op.Less(op.Mul(x, x), a),
            lambda op, x, a: op.Less(op.Abs(x), op.Sqrt(op.Abs(a))),
            lambda op, x, a: constant(a) is not None and x.dtype is FLOAT,
        ),
        {WRONG},
    ),
    "log absorbed by comparison": (
        exact(
            lambda op, x, a: op.Less(op.Log(x), a),
            lambda op, x, a: op.Less(x, op.Exp(a)),
        ),
        {WRONG},
    ),
    "difference of unsigned numbers": (
        exact(
            lambda op, x, y, z: op.Less(x, op.Add(y, z)),
            lambda op, x, y, z: op.Less(op.Sub(x, op.Add(y, z, _outputs=["s"])), op.Sub(x, x)),
            lambda op, x, y, z: x.dtype is ir.DataType.UINT8 and static(x) == static(y) == static(z) is not None,
        ),
        {WRONG, HANG},
    ),
    "float constants in double models": (
        close(
            lambda op, x, w, b: op.Gemm(x, w, b),
            lambda op, x, w, b: op.Add(op.Mul(op.MatMul(x, w), tensor(op, np.float32(1))), b),
            lambda op, x, w, b: True,
        ),
        {INVALID, WRONG, SHAPE},
    ),
    "scale past matmul of vectors": (
        close(
            lambda op, x, c, w: op.MatMul(op.Mul(x, c), w),
            lambda op, x, c, w: op.Mul(op.MatMul(x, w), c),
            lambda op, x, c, w: constant(c) is not None and looks_scalar(c),
        ),
        {SHAPE, INVALID},
    ),
    "relu past reshape of a scalar": (
        exact(
            lambda op, x, s: op.Reshape(op.Relu(x), s), lambda op, x, s: op.Relu(x), lambda op, x, s: looks_scalar(x)
        ),
        {SHAPE},
    ),
    "add past slice of one element": (
        exact(
            lambda op, x, y, s, e, a: op.Slice(op.Add(x, y), s, e, a),
            lambda op, x, y, s, e, a: op.Add(x, y),
            lambda op, x, y, s, e, a: looks_scalar(x) and looks_scalar(y),
        ),
        {SHAPE},
    ),
    "clip limits made tensors": (
        exact(
            lambda op, x, a, b: op.Clip(op.Transpose(x, _outputs=["y"]), a, b),
            lambda op, x, a, b, y: op.Transpose(op.Clip(x, op.Expand(a, op.Shape(x)), b), **_attributes(y)),
        ),
        {INVALID},
    ),
    "pads that are not there": (
        exact(lambda op, x: op.Relu(op.MaxPool(x, _outputs=["y"])), _pool_pads, lambda op, x: x.dtype is FLOAT),
        {CRASH},
    ),
    "scale of a matrix of zeros": (
        close(
            lambda op, x, w: op.MatMul(x, w),
            _common_scale,
            lambda op, x, w: constant(w) is not None and w.dtype is FLOAT and not (np.abs(constant(w)) == 1).any(),
            fast_math=("nnan", "ninf", "reassoc"),
        ),
        {CRASH},
    ),
    "division by itself": (
        exact(lambda op, x: op.Div(x, x), lambda op, x: op.Exp(op.Sub(x, x)), lambda op, x: x.dtype is FLOAT),
        {Kind.NONFINITE},
    ),
    "equal to itself": (
        exact(lambda op, x: op.Equal(x, x), lambda op, x: op.GreaterOrEqual(op.Abs(x), op.Sub(x, x))),
        {WRONG, INVALID},
    ),
    "sum of a negated number": (
        exact(lambda op, x, y: op.Neg(op.Sub(x, y)), lambda op, x, y: op.Sub(y, x)),
        {Kind.SIGNZERO},
    ),
    "division by a constant": (
        exact(
            lambda op, x, c: op.Div(x, c),
            lambda op, x, c: op.Mul(x, tensor(op, (1 / constant(c)).astype(np.float32))),
            lambda op, x, c: constant(c) is not None and c.dtype is FLOAT and _is_no_power_of_two(constant(c)),
        ),
        {Kind.ROUND, WRONG, Kind.NONFINITE, SHAPE},
    ),
    "default taken for a constant": (
        exact(
            lambda op, x, c: op.Mul(x, c),
            lambda op, x, c: op.Identity(x),
            lambda op, x, c: (
                c.const_value is not None
                and static(c) == ()
                and x.shape is not None
                and bool((c.const_value.numpy() == 1).all())
            ),
        ),
        {WRONG},
    ),
    "clips fused as if they overlapped": (
        exact(
            lambda op, x, a, b, c, d: op.Clip(op.Clip(x, a, b), c, d),
            _clip_fused,
            _constants("a", "b", "c", "d"),
            fast_math=("nnan", "nsz"),
        ),
        {WRONG},
    ),
    "relu after clip dropped": (
        exact(
            lambda op, x, a, b: op.Relu(op.Clip(x, a, b)),
            lambda op, x, a, b: op.Clip(x, tensor(op, np.maximum(constant(a), 0)), b),
            _constants("a", "b"),
            fast_math=("nnan", "nsz"),
        ),
        {WRONG},
    ),
    "dropped bias": (
        close(lambda op, x, w, b: op.Gemm(x, w, b), lambda op, x, w, b: op.MatMul(x, w)),
        {WRONG, SHAPE, INVALID},
    ),
    "swapped inputs": (
        close(
            lambda op, x, w: op.MatMul(op.Neg(x), w),
            lambda op, x, w: op.Neg(op.MatMul(w, x)),
        ),
        {WRONG, SHAPE, INVALID},
    ),
    "wrong axis": (
        exact(
            lambda op, x, axis: op.Softmax(op.Neg(x), axis=axis),
            lambda op, x, axis: op.Softmax(op.Neg(x), axis=-1),
            lambda op, x, axis: axis.as_int() != -1,
        ),
        {WRONG, Kind.NONFINITE},
    ),
    "forgotten default of an attribute": (
        exact(
            lambda op, x, y: op.Concat(op.Relu(x), y, _outputs=["z"]),
            lambda op, x, y: op.Relu(op.Concat(x, y, axis=0)),
        ),
        {WRONG, SHAPE, INVALID},
    ),
    "permutations composed the wrong way": (
        exact(
            lambda op, x, p, q: op.Transpose(op.Transpose(x, perm=p), perm=q),
            lambda op, x, p, q: op.Transpose(x, perm=[q.as_ints()[a] for a in p.as_ints()]),
        ),
        {WRONG, SHAPE},
    ),
    "truncating casts dropped": (
        exact(
            lambda op, x: op.Cast(op.Cast(x, to=ir.DataType.INT32.value), to=FLOAT.value),
            lambda op, x: op.Identity(x),
            lambda op, x: x.dtype is FLOAT,
        ),
        {WRONG, Kind.NONFINITE},
    ),
    "keepdims forgotten": (
        exact(
            lambda op, x, axes: op.Neg(op.ReduceMax(x, axes)),
            lambda op, x, axes: op.ReduceMin(op.Neg(x), axes),
            lambda op, x, axes: x.dtype is FLOAT,
            fast_math=("nsz", "nnan"),
        ),
        {SHAPE},
    ),
    "unlike halves of a split": (
        exact(
            lambda op, x, axis: op.Concat(*reversed(op.Split(x, axis=axis, num_outputs=2, _outputs=2)), axis=axis),
            lambda op, x, axis: op.Identity(x),
        ),
        {WRONG},
    ),
}
