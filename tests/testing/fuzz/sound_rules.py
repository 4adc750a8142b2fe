"""Rules that are right, over as many operators as possible: none of them may be accused of anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import pattern as onnxscript_pattern

from onnx_passes import Transformation, constant, passes
from onnx_passes.rewrite.passes import RewriteRulePass


def static(value: ir.Value) -> tuple[int, ...] | None:
    """Return the shape of a value if it is fully known."""
    if value.shape is None or not value.shape.is_static():
        return None
    return tuple(value.shape.numpy())


def exact(pattern: Any, rewrite: Any, check: Any = None, *, fast_math: tuple[str, ...] = (), **options: Any) -> Any:
    """Make a pass of a rule that promises equality."""
    return passes.verify.equality(_make(pattern, rewrite, check, fast_math, options))


def close(pattern: Any, rewrite: Any, check: Any = None, *, fast_math: tuple[str, ...] = (), **options: Any) -> Any:
    """Make a pass of a rule that promises a tolerance."""
    return passes.verify.tolerance(_make(pattern, rewrite, check, fast_math, options))


def _make(pattern: Any, rewrite: Any, check: Any, fast_math: tuple[str, ...], options: dict[str, Any]) -> Any:
    body: dict[str, Any] = {
        "pattern": staticmethod(pattern),
        "rewrite": staticmethod(rewrite),
        "fast_math": fast_math,
        **options,
    }
    if check is not None:
        body["check"] = staticmethod(check)
    return type("Tried", (Transformation, RewriteRulePass), body)


def _all(value: Any, number: float) -> bool:
    array = constant(value)
    return array is not None and array.size > 0 and bool((array == number).all())


def _keeps_shape(x: Any, c: Any) -> bool:
    a, b = static(x), static(c)
    return a is not None and b is not None and np.broadcast_shapes(a, b) == a


def _same_everywhere(op: Any, x: Any, **_: Any) -> bool:
    return static(x) is not None


def compose(outer: list[int], inner: list[int]) -> list[int]:
    return [inner[axis] for axis in outer]


def _perm(node: ir.Node, rank: int) -> list[int]:
    return list(node.attributes.get_ints("perm", list(range(rank))[::-1]))


def _merge_transposes(op: Any, x: Any, y: Any, z: Any) -> Any:
    rank = len(x.shape)
    inner, outer = _perm(y.producer(), rank), _perm(z.producer(), rank)
    return op.Transpose(x, perm=compose(outer, inner))


def _reversed(op: Any, x: Any, y: Any) -> Any:
    return op.Transpose(op.Relu(x), **dict(y.producer().attributes.items()))


def _reduce_axes_once(op: Any, x: Any, axes: Any) -> bool:
    array = constant(axes)
    return array is not None and x.shape is not None and array.size == len(x.shape) > 0


def _bias(op: Any, x: Any, w: Any, b: Any) -> bool:
    shapes = [static(v) for v in (x, w, b)]
    if None in shapes or any(len(s) != 2 for s in shapes[:2]) or x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return False
    product = (shapes[0][0], shapes[1][1])
    return len(shapes[2]) <= 2 and np.broadcast_shapes(product, shapes[2]) == product


def _norm_check(op: Any, x: Any, w: Any, scale: Any, b: Any, mean: Any, var: Any) -> bool:
    return all(constant(v) is not None and v.dtype is ir.DataType.FLOAT for v in (w, scale, b, mean, var))


def _norm_fold(op: Any, x: Any, w: Any, scale: Any, b: Any, mean: Any, var: Any, y: Any, z: Any) -> Any:
    epsilon = z.producer().attributes.get_float("epsilon", 1e-5)
    factor = constant(scale) / np.sqrt(constant(var) + epsilon)
    weights = constant(w) * factor.reshape(-1, *[1] * (w.const_value.numpy().ndim - 1))
    bias = constant(b) - constant(mean) * factor
    attributes = dict(y.producer().attributes.items())
    return op.Conv(
        x,
        op.initializer(ir.Tensor(weights.astype(np.float32)), name="folded_w"),
        op.initializer(ir.Tensor(bias.astype(np.float32)), name="folded_b"),
        **attributes,
    )


def _clips(op: Any, x: Any, a: Any, b: Any, c: Any, d: Any) -> bool:
    numbers = [constant(v) for v in (a, b, c, d)]
    if any(n is None or np.isnan(np.asarray(n, np.float64)).any() for n in numbers):
        return False
    return bool(numbers[0] <= numbers[1] and numbers[2] <= numbers[3])


def _merged_clip(op: Any, x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    low, high = (np.clip(constant(v), constant(c), constant(d)) for v in (a, b))
    return op.Clip(x, op.initializer(ir.Tensor(low), name="low"), op.initializer(ir.Tensor(high), name="high"))


SOUND: dict[str, Any] = {
    "neg neg": exact(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x)),
    "not not": exact(lambda op, x: op.Not(op.Not(x)), lambda op, x: op.Identity(x)),
    "bitwise not twice": exact(lambda op, x: op.BitwiseNot(op.BitwiseNot(x)), lambda op, x: op.Identity(x)),
    "abs abs": exact(lambda op, x: op.Abs(op.Abs(x)), lambda op, x: op.Abs(x)),
    "relu relu": exact(lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x)),
    "sub to add": exact(lambda op, x, y: op.Sub(x, op.Neg(y)), lambda op, x, y: op.Add(x, y)),
    "mul by one": exact(
        lambda op, x, c: op.Mul(x, c),
        lambda op, x, c: op.Identity(x),
        lambda op, x, c: _all(c, 1) and _keeps_shape(x, c),
    ),
    "sub zero": exact(
        lambda op, x, c: op.Sub(x, c),
        lambda op, x, c: op.Identity(x),
        lambda op, x, c: _all(c, 0) and not np.signbit(np.asarray(constant(c), float)).any() and _keeps_shape(x, c),
    ),
    "div by one": exact(
        lambda op, x, c: op.Div(x, c),
        lambda op, x, c: op.Identity(x),
        lambda op, x, c: _all(c, 1) and _keeps_shape(x, c),
    ),
    "mul constant of pattern": exact(lambda op, x: op.Mul(x, 1.0), lambda op, x: op.Identity(x)),
    "or false": exact(
        lambda op, x, c: op.Or(x, c),
        lambda op, x, c: op.Identity(x),
        lambda op, x, c: _all(c, 0) and _keeps_shape(x, c),
    ),
    "xor xor": exact(
        lambda op, x, y: op.BitwiseXor(op.BitwiseXor(x, y), y),
        lambda op, x, y: op.Identity(x),
        lambda op, x, y: _keeps_shape(x, y),
    ),
    "de morgan": exact(
        lambda op, x, y: op.And(op.Not(x), op.Not(y)),
        lambda op, x, y: op.Not(op.Or(x, y)),
    ),
    "less to greater": exact(lambda op, x, y: op.Less(x, y), lambda op, x, y: op.Greater(y, x)),
    "where not": exact(
        lambda op, c, x, y: op.Where(op.Not(c), x, y),
        lambda op, c, x, y: op.Where(c, y, x),
        fast_math=("nsz",),  # ONNX Runtime adds up what it selects, which loses the sign of zeros
    ),
    "min of three": exact(lambda op, x, y, z: op.Min(op.Min(x, y), z), lambda op, x, y, z: op.Min(x, y, z)),
    "transpose transpose": exact(
        lambda op, x: op.Transpose(op.Transpose(x, _outputs=["y"]), _outputs=["z"]),
        _merge_transposes,
        lambda op, x, y, z: x.shape is not None,
    ),
    "relu past transpose": exact(lambda op, x: op.Relu(op.Transpose(x, _outputs=["y"])), _reversed),
    "transpose with perm": exact(
        lambda op, x, perm: op.Neg(op.Transpose(x, perm=perm)),
        lambda op, x, perm: op.Transpose(op.Neg(x), perm=perm),
    ),
    "add past transpose": exact(
        lambda op, x, y, perm: op.Add(op.Transpose(x, perm=perm), op.Transpose(y, perm=perm)),
        lambda op, x, y, perm: op.Transpose(op.Add(x, y), perm=perm),
        lambda op, x, y, perm: x.shape is not None and y.shape is not None and len(x.shape) == len(y.shape),
    ),
    "matmul of transposes": close(
        lambda op, x, y: op.MatMul(op.Transpose(x, perm=[1, 0]), op.Transpose(y, perm=[1, 0])),
        lambda op, x, y: op.Transpose(op.MatMul(y, x), perm=[1, 0]),
    ),
    "reshape reshape": exact(
        lambda op, x, a, b: op.Reshape(op.Reshape(x, a), b),
        lambda op, x, a, b: op.Reshape(x, b),
        lambda op, x, a, b: constant(b) is not None and (constant(b) > 0).all(),
    ),
    "flatten to reshape": exact(
        lambda op, x: op.Flatten(x, axis=1),
        lambda op, x: op.Reshape(x, op.initializer(ir.Tensor(np.array([x.shape[0], -1], np.int64)), name="to")),
        lambda op, x: static(x) is not None and 0 not in static(x),
    ),
    "squeeze unsqueeze": exact(lambda op, x, a: op.Squeeze(op.Unsqueeze(x, a), a), lambda op, x, a: op.Identity(x)),
    "expand to itself": exact(
        lambda op, x, s: op.Expand(x, s),
        lambda op, x, s: op.Identity(x),
        lambda op, x, s: (
            constant(s) is not None
            and static(x) is not None
            and np.broadcast_shapes(static(x), tuple(constant(s))) == static(x)
        ),
    ),
    "concat of one": exact(lambda op, x, axis: op.Concat(x, axis=axis), lambda op, x, axis: op.Identity(x)),
    "relu past concat": exact(
        lambda op, x, y, axis: op.Relu(op.Concat(x, y, axis=axis)),
        lambda op, x, y, axis: op.Concat(op.Relu(x), op.Relu(y), axis=axis),
    ),
    "concat of split": exact(
        lambda op, x, axis: op.Concat(*op.Split(x, axis=axis, num_outputs=2, _outputs=2), axis=axis),
        lambda op, x, axis: op.Identity(x),
    ),
    "gather of neg": exact(
        lambda op, x, i: op.Gather(op.Neg(x), i, _outputs=["y"]),
        lambda op, x, i, y: op.Neg(op.Gather(x, i, **dict(y.producer().attributes.items()))),
    ),
    "slice of relu": exact(
        lambda op, x, s, e, a: op.Slice(op.Relu(x), s, e, a),
        lambda op, x, s, e, a: op.Relu(op.Slice(x, s, e, a)),
    ),
    "cast up and back": exact(
        lambda op, x: op.Cast(op.Cast(x, to=ir.DataType.DOUBLE.value), to=ir.DataType.FLOAT.value),
        lambda op, x: op.Identity(x),
        lambda op, x: x.dtype is ir.DataType.FLOAT,
    ),
    "reduce sum to all": close(
        lambda op, x, axes: op.ReduceSum(x, axes, keepdims=1, noop_with_empty_axes=0),
        lambda op, x, axes: op.ReduceSum(x, keepdims=1),
        _reduce_axes_once,
        fast_math=("reassoc", "nnan", "ninf"),
    ),
    "reduce max of neg": exact(
        lambda op, x, axes: op.ReduceMax(op.Neg(x), axes, keepdims=0, noop_with_empty_axes=0),
        lambda op, x, axes: op.Neg(op.ReduceMin(x, axes, keepdims=0)),
        lambda op, x, axes: static(x) is not None and 0 not in static(x) and x.dtype is ir.DataType.FLOAT,
        fast_math=("nsz", "nnan"),
    ),
    "matmul add to gemm": close(
        lambda op, x, w, b: op.Add(op.MatMul(x, w), b),
        lambda op, x, w, b: op.Gemm(x, w, b),
        _bias,
        fast_math=("contract", "ninf", "nnan"),
    ),
    "gemm to matmul": close(
        lambda op, x, w, b: op.Gemm(x, w, b, alpha=1.0, beta=1.0, transA=0, transB=0),
        lambda op, x, w, b: op.Add(op.MatMul(x, w), b),
        fast_math=("contract", "ninf", "nnan"),
    ),
    "regroup additions": close(
        lambda op, x, a, b: op.Add(op.Add(x, a), b),
        lambda op, x, a, b: op.Add(x, op.Add(a, b)),
        lambda op, x, a, b: constant(x) is None and constant(a) is not None and constant(b) is not None,
        fast_math=("reassoc", "ninf", "nnan"),
    ),
    "distribute": close(
        lambda op, x, y, c: op.Mul(op.Add(x, y), c),
        lambda op, x, y, c: op.Add(op.Mul(x, c), op.Mul(y, c)),
        fast_math=("reassoc", "ninf", "nnan"),
    ),
    "conv and batch norm": close(
        lambda op, x, w, scale, b, mean, var: op.BatchNormalization(
            op.Conv(x, w, _outputs=["y"]), scale, b, mean, var, _outputs=["z"]
        ),
        _norm_fold,
        _norm_check,
        fast_math=("reassoc", "nnan", "ninf"),
    ),
    "relu past max pool": exact(
        lambda op, x: op.Relu(op.MaxPool(x, _outputs=["y"])),
        lambda op, x, y: op.MaxPool(op.Relu(x), **dict(y.producer().attributes.items())),
        lambda op, x, y: x.dtype is ir.DataType.FLOAT and not y.producer().attributes.get_ints("pads"),
        fast_math=("nnan", "nsz"),
    ),
    "clip clip": exact(
        lambda op, x, a, b, c, d: op.Clip(op.Clip(x, a, b), c, d), _merged_clip, _clips, fast_math=("nsz",)
    ),
    "softmax twice negative axis": exact(
        lambda op, x: op.Softmax(x, axis=-1),
        lambda op, x: op.Softmax(x, axis=len(x.shape) - 1),
        lambda op, x: x.shape is not None,
    ),
    "alternatives": exact(
        lambda op, x: op.Abs(onnxscript_pattern.OrValue([op.Neg(x), op.Abs(x)])),
        lambda op, x: op.Abs(x),
    ),
    "optional bias": exact(
        lambda op, x, w, b: op.Relu(op.Conv(x, w, b, _outputs=["y"])),
        lambda op, x, w, b, y: op.Max(
            op.Conv(x, w, b, **dict(y.producer().attributes.items())),
            op.initializer(ir.Tensor(np.zeros((), np.float32)), name="zero"),
        ),
        lambda op, x, w, b, y: x.dtype is ir.DataType.FLOAT,
        fast_math=("nsz", "nnan"),
    ),
}
