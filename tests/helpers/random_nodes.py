"""Single nodes with attributes drawn at random, and what ONNX Runtime computes: an oracle for whatever knows operators.

Numbers are quarters of small integers, so that sums and products are exact in any order, and what is known of an
operator can be held to the last bit where that is not approximated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

Rng = np.random.Generator
Array = np.ndarray


@dataclass
class Node:
    """A node to be: its inputs by name, of which ``fixed`` ones are initializers, and its attributes."""

    operator: str
    inputs: dict[str, Array | None]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    fixed: Sequence[str] = ()
    outputs: int = 1
    opset: int = 21
    domain: str = ""


@dataclass(frozen=True)
class Drawn:
    """A model of one node, what it is fed, and what comes out."""

    name: str
    proto: onnx.ModelProto
    feeds: Mapping[str, Array]
    results: Sequence[Array]

    def __str__(self) -> str:
        return f"{self.name}: {helper.printable_graph(self.proto.graph)}"


def numbers(rng: Rng, shape: Sequence[int], *, most: int = 16, by: float = 4.0, dtype: Any = np.float32) -> Array:
    return (rng.integers(-most, most + 1, tuple(shape)) / by).astype(dtype)


def sizes(rng: Rng, rank: int, most: int = 4) -> list[int]:
    return [int(size) for size in rng.integers(1, most + 1, rank)]


def either(rng: Rng, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def some_axes(rng: Rng, rank: int, least: int = 1) -> list[int]:
    count = int(rng.integers(least, rank + 1))
    axes = sorted(rng.choice(rank, count, replace=False).tolist())
    return [int(axis) - rank * int(rng.integers(2)) for axis in axes]


def whole(*values: int) -> Array:
    return np.array(values, np.int64)


# --- operators -------------------------------------------------------------------------------------------------------


def _unary(rng: Rng, name: str, **attributes: Any) -> Node:
    return Node(name, {"x": numbers(rng, sizes(rng, int(rng.integers(4))))}, attributes)


def _positive(rng: Rng, name: str) -> Node:
    return Node(name, {"x": numbers(rng, sizes(rng, 2)) + np.float32(4.25)})


def _broadcast(rng: Rng, count: int) -> list[list[int]]:
    shape = sizes(rng, int(rng.integers(1, 4)))
    found = [[either(rng, 1, size) for size in shape[int(rng.integers(len(shape) + 1)) :]] for _ in range(count)]
    found[0] = shape
    rng.shuffle(found)
    return found


def _binary(rng: Rng, name: str, *, count: int = 2, dtype: Any = None, **attributes: Any) -> Node:
    dtype = dtype or either(rng, np.float32, np.float32, np.int32, np.int64)
    shapes = _broadcast(rng, count)
    by = 1 if np.dtype(dtype).kind == "i" else 4
    inputs = {f"x{place}": numbers(rng, shape, by=by, dtype=dtype) for place, shape in enumerate(shapes)}
    if name in ("Div", "Mod"):
        last = f"x{count - 1}"
        inputs[last] = np.where(inputs[last] == 0, np.asarray(2, dtype), inputs[last])
    # One operand may be constant.
    fixed = either(rng, (), (f"x{int(rng.integers(count))}",)) if count > 1 else ()
    return Node(name, inputs, attributes, fixed)


def _truth(rng: Rng, name: str) -> Node:
    return Node(name, {f"x{place}": rng.random(shape) < 0.5 for place, shape in enumerate(_broadcast(rng, 2))})


def _bits(rng: Rng, name: str, **attributes: Any) -> Node:
    shapes = _broadcast(rng, 2)
    dtype = np.uint8 if name == "BitShift" else either(rng, np.uint8, np.int8, np.int32)
    most = 9 if name == "BitShift" else 100
    inputs = {f"x{place}": rng.integers(0, most, shape).astype(dtype) for place, shape in enumerate(shapes)}
    return Node(name, inputs, attributes)


def _where(rng: Rng) -> Node:
    condition, a, b = _broadcast(rng, 3)
    return Node("Where", {"c": rng.random(condition) < 0.5, "a": numbers(rng, a), "b": numbers(rng, b)})


def _clip(rng: Rng) -> Node:
    low, high = (either(rng, None, numbers(rng, ())) for _ in range(2))
    return Node("Clip", {"x": numbers(rng, sizes(rng, 2)), "low": low, "high": high}, fixed=("low", "high"))


def _clip_of_old(rng: Rng) -> Node:
    given = {"min": float(numbers(rng, ())), "max": float(numbers(rng, ()))}
    return Node("Clip", {"x": numbers(rng, (2, 5))}, {k: v for k, v in given.items() if rng.random() < 0.7}, opset=9)


def _cast(rng: Rng) -> Node:
    source = either(rng, np.float32, np.int32, np.uint8, np.bool_, np.float16, np.float64)
    to = either(rng, *(getattr(TensorProto, kind) for kind in ("FLOAT", "FLOAT16", "INT8", "INT32", "UINT8", "BOOL")))
    x = rng.integers(0, 20, (3, 4))
    x = (x / 4 if np.dtype(source).kind == "f" else x).astype(source)
    return Node("Cast", {"x": x}, {"to": to})


def _prelu(rng: Rng) -> Node:
    shape = sizes(rng, 3)
    slope = [either(rng, 1, size) for size in shape[int(rng.integers(3)) :]]
    return Node("PRelu", {"x": numbers(rng, shape), "s": numbers(rng, slope)}, fixed=either(rng, (), ("s",)))


def _transpose(rng: Rng) -> Node:
    rank = int(rng.integers(1, 5))
    perm = {} if rng.random() < 0.2 else {"perm": rng.permutation(rank).tolist()}
    return Node("Transpose", {"x": numbers(rng, sizes(rng, rank))}, perm)


def _reshape(rng: Rng) -> Node:
    shape, target, attributes = either(
        rng,
        ([2, 3, 4], [0, -1], {}),
        ([2, 3, 4], [4, 0, -1], {}),
        ([2, 3, 4], [-1], {}),
        ([2, 3, 4], [3, 2, 4], {}),
        ([2, 3, 4], [1, 0, 8], {}),
        ([0, 3], [3, 0], {"allowzero": 1}),
        ([1, 6], [2, -1, 1], {"allowzero": 1}),
    )
    return Node("Reshape", {"x": numbers(rng, shape), "s": whole(*target)}, attributes, ("s",))


def _flatten(rng: Rng) -> Node:
    rank = int(rng.integers(1, 5))
    return Node("Flatten", {"x": numbers(rng, sizes(rng, rank))}, {"axis": int(rng.integers(-rank, rank + 1))})


def _squeeze(rng: Rng) -> Node:
    shape = [either(rng, 1, 3) for _ in range(4)]
    axes = [axis - either(rng, 0, 4) for axis, size in enumerate(shape) if size == 1 and rng.random() < 0.7]
    given = whole(*axes) if axes else None
    return Node("Squeeze", {"x": numbers(rng, shape), "a": given}, fixed=("a",))


def _unsqueeze(rng: Rng) -> Node:
    shape = sizes(rng, 2)
    return Node("Unsqueeze", {"x": numbers(rng, shape), "a": whole(*some_axes(rng, 4, 2)[:2])}, fixed=("a",))


def _slice(rng: Rng) -> Node:
    shape = [int(size) for size in rng.integers(1, 7, 3)]
    axes = some_axes(rng, 3)
    starts, ends, steps = [], [], []
    for axis in axes:
        size, step = shape[axis], either(rng, 1, 1, 2, -1, -2)
        first, last = int(rng.integers(-size - 1, size // 2 + 1)), int(rng.integers(size // 2, size + 2))
        first, last = either(rng, (first, last), (first - size, 2**31), (0, last))
        starts.append(first if step > 0 else last)
        ends.append(last if step > 0 else either(rng, first - size, -(2**31)))
        steps.append(step)
    named = either(rng, True, False)
    inputs = {"x": numbers(rng, shape), "starts": whole(*starts), "ends": whole(*ends)}
    if not named:
        inputs = {"x": inputs["x"], **{k: whole(*(v * 3)[:3]) for k, v in (("starts", starts), ("ends", ends))}}
        return Node("Slice", inputs, fixed=("starts", "ends"))
    inputs |= {"axes": whole(*axes), "steps": whole(*steps)}
    return Node("Slice", inputs, fixed=("starts", "ends", "axes", "steps"))


def _slice_of_old(rng: Rng) -> Node:
    shape, axes = sizes(rng, 3, 5), some_axes(rng, 3)
    given = {"starts": rng.integers(-3, 2, len(axes)).tolist(), "ends": rng.integers(1, 6, len(axes)).tolist()}
    return Node("Slice", {"x": numbers(rng, shape)}, {**given, "axes": [axis % 3 for axis in axes]}, opset=9)


def _concat(rng: Rng) -> Node:
    shape, axis = sizes(rng, 3), int(rng.integers(-3, 3))
    parts: dict[str, Array | None] = {}
    for place in range(int(rng.integers(1, 4))):
        shape[axis] = int(rng.integers(1, 4))
        parts[f"x{place}"] = numbers(rng, shape)
    return Node("Concat", parts, {"axis": axis}, either(rng, (), ("x0",)))


def _split(rng: Rng) -> Node:
    axis, parts = int(rng.integers(-2, 2)), sizes(rng, 3, 3)
    shape = [4, 4]
    if rng.random() < 0.5:
        shape[axis] = either(rng, 5, 6, 7)
        return Node("Split", {"x": numbers(rng, shape)}, {"axis": axis, "num_outputs": 3}, outputs=3)
    shape[axis] = sum(parts)
    return Node("Split", {"x": numbers(rng, shape), "s": whole(*parts)}, {"axis": axis}, ("s",), 3)


def _pad(rng: Rng) -> Node:
    mode, shape = either(rng, "constant", "edge", "reflect", "wrap"), [3, 4, 3]
    axes = either(rng, None, some_axes(rng, 3))
    count = 3 if axes is None else len(axes)
    least = -1 if mode == "constant" else 0
    inputs: dict[str, Array | None] = {"x": numbers(rng, shape), "p": rng.integers(least, 3, 2 * count)}
    inputs["v"] = either(rng, None, numbers(rng, ())) if mode == "constant" else None
    inputs["a"] = None if axes is None else whole(*axes)
    return Node("Pad", inputs, {"mode": mode}, ("p", "v", "a"))


def _gather(rng: Rng) -> Node:
    shape, axis = sizes(rng, 3), int(rng.integers(-3, 3))
    indices = rng.integers(-shape[axis], shape[axis], sizes(rng, int(rng.integers(3)), 3))
    return Node("Gather", {"x": numbers(rng, shape), "i": np.asarray(indices, np.int64)}, {"axis": axis}, ("i",))


def _gather_elements(rng: Rng) -> Node:
    axis = int(rng.integers(-2, 2))
    return Node(
        "GatherElements",
        {"x": numbers(rng, (3, 3)), "i": rng.integers(-3, 3, (2, 3) if axis % 2 == 0 else (3, 2))},
        {"axis": axis},
        ("i",),
    )


def _gather_nd(rng: Rng) -> Node:
    batch = int(rng.integers(2))
    shape = (2, int(rng.integers(1, 3))) if batch else (3, int(rng.integers(1, 4)))
    indices = rng.integers(0, 2, shape)
    return Node("GatherND", {"x": numbers(rng, (2, 3, 4)), "i": indices}, {"batch_dims": batch}, ("i",))


def _scatter_elements(rng: Rng) -> Node:
    axis, reduction = int(rng.integers(-2, 2)), either(rng, "none", "add", "mul", "max", "min")
    indices = np.argsort(rng.random((3, 4)), axis=axis)[:2] if axis % 2 else np.argsort(rng.random((3, 4)), axis=0)[:2]
    inputs = {"x": numbers(rng, (3, 4)), "i": np.asarray(indices, np.int64), "u": numbers(rng, (2, 4))}
    return Node("ScatterElements", inputs, {"axis": axis, "reduction": reduction}, ("i",), opset=18)


def _scatter_nd(rng: Rng) -> Node:
    inputs = {"x": numbers(rng, (4, 3)), "i": rng.permutation(4)[:2, None].astype(np.int64), "u": numbers(rng, (2, 3))}
    return Node("ScatterND", inputs, {"reduction": either(rng, "none", "add", "mul", "max", "min")}, ("i",), opset=18)


def _expand(rng: Rng) -> Node:
    x, shape = _broadcast(rng, 2)
    return Node("Expand", {"x": numbers(rng, x), "s": whole(*shape)}, fixed=("s",))


def _tile(rng: Rng) -> Node:
    return Node("Tile", {"x": numbers(rng, sizes(rng, 2, 3)), "r": rng.integers(1, 4, 2)}, fixed=("r",))


def _space(rng: Rng, name: str) -> Node:
    mode = {"mode": either(rng, "DCR", "CRD")} if name == "DepthToSpace" else {}
    shape = (2, 8, 2, 3) if name == "DepthToSpace" else (2, 2, 4, 6)
    return Node(name, {"x": numbers(rng, shape)}, {"blocksize": 2, **mode})


def _trilu(rng: Rng) -> Node:
    k = either(rng, None, np.array(int(rng.integers(-3, 4)), np.int64))
    inputs = {"x": numbers(rng, (2, 3, 4)), "k": k}
    return Node("Trilu", inputs, {"upper": either(rng, 0, 1)}, ("k",))


def _one_hot(rng: Rng) -> Node:
    inputs = {"i": rng.integers(-4, 4, (2, 3)), "d": np.array(4, np.int64), "v": np.array([-0.5, 2.25], np.float32)}
    return Node("OneHot", inputs, {"axis": int(rng.integers(-3, 3))}, ("d", "v", "i"))


def _matmul(rng: Rng) -> Node:
    a, b = either(
        rng,
        ((2, 3), (3, 4)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (3, 3)),
    )
    return Node("MatMul", {"a": numbers(rng, a), "b": numbers(rng, b)}, fixed=either(rng, (), ("b",)))


def _gemm(rng: Rng) -> Node:
    turned = {name: either(rng, 0, 1) for name in ("transA", "transB")}
    factors = {"alpha": either(rng, 1.0, 0.5, -2.0), "beta": either(rng, 1.0, 0.25, 2.0)}
    a, b = numbers(rng, (2, 3)), numbers(rng, (3, 4))
    c = either(rng, None, *(numbers(rng, shape) for shape in ((4,), (1,), (2, 1), (2, 4), ())))
    inputs = {"a": a.T.copy() if turned["transA"] else a, "b": b.T.copy() if turned["transB"] else b, "c": c}
    return Node("Gemm", inputs, {**turned, **factors}, either(rng, (), ("b", "c")))


def _window(rng: Rng, kernel: Sequence[int], *, auto: bool = True, dilates: bool = True) -> dict[str, Any]:
    axes = len(kernel)
    given: dict[str, Any] = {}
    if rng.random() < 0.7:
        given["strides"] = rng.integers(1, 3, axes).tolist()
    if dilates and rng.random() < 0.5:
        given["dilations"] = rng.integers(1, 3, axes).tolist()
    if auto and rng.random() < 0.3:
        given["auto_pad"] = either(rng, "SAME_UPPER", "SAME_LOWER", "VALID")
    elif rng.random() < 0.7:
        given["pads"] = [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
    return given


def _conv(rng: Rng, name: str = "Conv") -> Node:
    axes, group = int(rng.integers(1, 3)), either(rng, 1, 1, 2)
    kernel = sizes(rng, axes, 3)
    channels, each = 2 * group, either(rng, 1, 2)
    given = _window(rng, kernel) | {"group": group}
    if rng.random() < 0.5:
        given["kernel_shape"] = kernel
    image = [int(size) for size in rng.integers(5, 8, axes)]
    inputs: dict[str, Array | None] = {
        "x": numbers(rng, (2, channels, *image)),
        "w": numbers(rng, (group * each, 2, *kernel), by=2),
        "b": either(rng, None, numbers(rng, (group * each,))),
    }
    return Node(name, inputs, given, either(rng, (), ("w", "b")))


def _conv_transpose(rng: Rng) -> Node:
    axes, group = int(rng.integers(1, 3)), either(rng, 1, 2)
    kernel = sizes(rng, axes, 3)
    given: dict[str, Any] = {"strides": rng.integers(1, 3, axes).tolist(), "group": group}
    given["dilations"] = rng.integers(1, 3, axes).tolist()
    given["pads"] = [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
    if rng.random() < 0.4:
        given["output_padding"] = [int(rng.integers(0, stride)) for stride in given["strides"]]
    inputs: dict[str, Array | None] = {
        "x": numbers(rng, (1, 2 * group, *rng.integers(3, 5, axes).tolist())),
        "w": numbers(rng, (2 * group, 2, *kernel), by=2),
        "b": either(rng, None, numbers(rng, (2 * group,))),
    }
    return Node("ConvTranspose", inputs, given, either(rng, (), ("w", "b")))


def _einsum(rng: Rng) -> Node:
    equation, *shapes = either(
        rng,
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,jk", (2, 3), (3, 4)),
        ("bij,bjk->bki", (2, 2, 3), (2, 3, 2)),
        ("ii->i", (3, 3)),
        ("ij->j", (2, 3)),
        ("i,j->ji", (2,), (3,)),
        ("...ij,j->...i", (2, 2, 3), (3,)),
    )
    return Node("Einsum", {f"x{n}": numbers(rng, s) for n, s in enumerate(shapes)}, {"equation": equation})


def _pool(rng: Rng, name: str, opset: int = 22) -> Node:
    axes = int(rng.integers(1, 3))
    kernel = sizes(rng, axes, 3)
    given = _window(rng, kernel, dilates=opset >= 19 or name == "MaxPool") | {"kernel_shape": kernel}
    if rng.random() < 0.5:
        given["ceil_mode"] = 1
    if name == "AveragePool" and rng.random() < 0.5:
        given["count_include_pad"] = 1
    if name == "LpPool":
        given["p"] = either(rng, 1, 2, 3)
    return Node(name, {"x": numbers(rng, (2, 2, *rng.integers(4, 8, axes).tolist()))}, given, opset=opset)


def _global(rng: Rng, name: str) -> Node:
    return Node(name, {"x": numbers(rng, (2, 3, *either(rng, (4,), (2, 4), (1, 2, 2))))})


def _reduce(rng: Rng, name: str) -> Node:
    rank = int(rng.integers(1, 4))
    axes = either(rng, None, some_axes(rng, rank), [])
    given: dict[str, Any] = {"keepdims": either(rng, 0, 1)}
    if rng.random() < 0.5:
        given["noop_with_empty_axes"] = either(rng, 0, 1)
    x = numbers(rng, sizes(rng, rank), dtype=either(rng, np.float32, np.float32, np.int32), by=1)
    if "Log" in name or name in ("ReduceL2", "ReduceMean"):
        x = np.abs(x).astype(np.float32) + np.float32(1)
    inputs = {"x": x, "a": None if axes is None else whole(*axes)}
    return Node(name, inputs, given, ("a",))


def _reduce_of_old(rng: Rng, name: str) -> Node:
    given = {"keepdims": either(rng, 0, 1)} | either(rng, {}, {"axes": some_axes(rng, 3)})
    return Node(name, {"x": numbers(rng, sizes(rng, 3), by=1)}, given, opset=11)


def _extreme_place(rng: Rng, name: str) -> Node:
    given = {"axis": int(rng.integers(-2, 2)), "keepdims": either(rng, 0, 1), "select_last_index": either(rng, 0, 1)}
    return Node(name, {"x": numbers(rng, (3, 5), most=2)}, given)


def _cumulative(rng: Rng) -> Node:
    given = {"exclusive": either(rng, 0, 1), "reverse": either(rng, 0, 1)}
    return Node("CumSum", {"x": numbers(rng, (3, 4)), "a": np.array(int(rng.integers(-2, 2)), np.int64)}, given, ("a",))


def _top_k(rng: Rng) -> Node:
    x = rng.permutation(20).reshape(4, 5).astype(np.float32)
    given = {"axis": int(rng.integers(-2, 2)), "largest": either(rng, 0, 1)}
    return Node("TopK", {"x": x, "k": whole(int(rng.integers(1, 4)))}, given, ("k",), 2)


def _softmax(rng: Rng, name: str, opset: int = 21) -> Node:
    return Node(name, {"x": numbers(rng, (2, 3, 4))}, {"axis": int(rng.integers(-3, 3))}, opset=opset)


def _layer_norm(rng: Rng) -> Node:
    axis = int(rng.integers(-2, 3)) or 1
    shape = (2, 3, 4)[axis:]
    inputs = {
        "x": numbers(rng, (2, 3, 4)),
        "s": numbers(rng, shape),
        "b": either(rng, None, numbers(rng, shape)),
    }
    return Node("LayerNormalization", inputs, {"axis": axis, "epsilon": either(rng, 1e-5, 0.5)}, ("s", "b"))


def _batch_norm(rng: Rng, opset: int = 21) -> Node:
    shape = either(rng, (2, 3), (2, 3, 4), (1, 3, 2, 2))
    inputs = {"x": numbers(rng, shape), **{name: numbers(rng, (3,)) for name in ("s", "b", "m")}}
    inputs["v"] = np.abs(numbers(rng, (3,))) + np.float32(0.5)
    fixed = either(rng, (), ("s", "b", "m", "v"))
    return Node("BatchNormalization", inputs, {"epsilon": either(rng, 1e-5, 0.25)}, fixed, opset=opset)


def _instance_norm(rng: Rng) -> Node:
    inputs = {"x": numbers(rng, (2, 3, 4, 2)), "s": numbers(rng, (3,)), "b": numbers(rng, (3,))}
    return Node("InstanceNormalization", inputs, {"epsilon": either(rng, 1e-5, 0.5)}, ("s", "b"))


def _lp_norm(rng: Rng) -> Node:
    given = {"axis": int(rng.integers(-2, 2)), "p": either(rng, 1, 2)}
    return Node("LpNormalization", {"x": np.abs(numbers(rng, (3, 4))) + np.float32(0.25)}, given)


_LIMITS = {np.uint8: (0, 255), np.int8: (-128, 127), np.uint16: (0, 65535), np.int16: (-32768, 32767)}


def _quantize(rng: Rng, name: str) -> Node:
    dtype, per_axis = either(rng, np.uint8, np.int8, np.uint16, np.int16), rng.random() < 0.5
    axis = int(rng.integers(-3, 3))
    shape = (2, 3, 4)
    count = (shape[axis],) if per_axis else ()
    scale = np.asarray(rng.choice([0.25, 0.5, 1.0, 2.0, 0.125], count), np.float32)
    low, high = _LIMITS[dtype]
    zero = np.asarray(rng.integers(max(low, -9), 9, count), dtype)
    if name == "QuantizeLinear":
        x: Array = numbers(rng, shape, most=either(rng, 40, 2000))
    else:
        x = rng.integers(max(low, -200), min(high, 200), shape).astype(dtype)
    given = {"axis": axis} if per_axis else {}
    inputs = {"x": x, "s": scale, "z": either(rng, zero, zero, None) if name == "QuantizeLinear" else zero}
    return Node(name, inputs, given, ("s", "z"))


def _integer_product(rng: Rng) -> Node:
    a, b = (either(rng, np.uint8, np.int8) for _ in range(2))
    inputs: dict[str, Array | None] = {
        "a": rng.integers(0, 100, (2, 3)).astype(a),
        "b": rng.integers(0, 100, (3, 4)).astype(b),
        "za": either(rng, None, np.array(3, a)),
        "zb": either(rng, None, np.array(5, b)),
    }
    return Node("MatMulInteger", inputs, fixed=either(rng, ("za", "zb"), ("b", "za", "zb")))


def _integer_conv(rng: Rng) -> Node:
    kernel = sizes(rng, 2, 3)
    inputs: dict[str, Array | None] = {
        "x": rng.integers(0, 200, (1, 2, 6, 5)).astype(np.uint8),
        "w": rng.integers(-9, 9, (3, 2, *kernel)).astype(np.int8),
        "zx": either(rng, None, np.array(7, np.uint8)),
        "zw": either(rng, None, np.array(2, np.int8)),
    }
    return Node("ConvInteger", inputs, _window(rng, kernel), ("w", "zx", "zw"))


def _resize(rng: Rng) -> Node:
    modes = {
        "coordinate_transformation_mode": either(rng, "asymmetric", "half_pixel", "align_corners"),
        "nearest_mode": either(rng, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
        "mode": "nearest",
    }
    scales = np.array([1, 1, *rng.choice([0.5, 1.0, 2.0, 3.0], 2)], np.float32)
    return Node("Resize", {"x": numbers(rng, (1, 2, 4, 4)), "r": None, "s": scales}, modes, ("s",))


def _of(draw: Callable[..., Node], *given: Any, **more: Any) -> Callable[[Rng], Node]:
    return functools.partial(draw, **more) if not given else lambda rng: draw(rng, *given, **more)


def _parameter(draw: Callable[..., Node], name: str, **choices: Sequence[Any]) -> Callable[[Rng], Node]:
    return lambda rng: draw(rng, name, **{key: either(rng, *values) for key, values in choices.items()})


_PLAIN = ("Abs", "Neg", "Floor", "Ceil", "Round", "Relu", "Sign", "Identity", "Exp", "Tanh", "Sigmoid", "Erf")
_MORE = ("Softplus", "Softsign", "HardSwish", "Mish", "Sin", "Cos", "Atan", "Not", "IsNaN")
_ROOTS = ("Sqrt", "Log", "Reciprocal")
_PAIRS = ("Add", "Sub", "Mul", "Div", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")

NODES: dict[str, Callable[[Rng], Node]] = {
    **{name: _of(_unary, name) for name in (*_PLAIN, *_MORE) if name != "Not"},
    "Not": lambda rng: Node("Not", {"x": rng.random((2, 3)) < 0.5}),
    **{name: _of(_positive, name) for name in _ROOTS},
    **{name: _of(_binary, name) for name in _PAIRS},
    **{name: (lambda rng, name=name: _binary(rng, name, count=int(rng.integers(1, 4)))) for name in ("Max", "Min")},
    **{
        name: (lambda rng, name=name: _binary(rng, name, count=int(rng.integers(1, 4)), dtype=np.float32))
        for name in ("Sum", "Mean")
    },
    "Mod": lambda rng: _binary(rng, "Mod", dtype=np.int32, fmod=either(rng, 0, 1)),
    "FloatMod": lambda rng: _binary(rng, "Mod", dtype=np.float32, fmod=1),
    **{name: _of(_truth, name) for name in ("And", "Or", "Xor")},
    **{name: _of(_bits, name) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitShift": _parameter(_bits, "BitShift", direction=("LEFT", "RIGHT")),
    "Where": _where,
    "Clip": _clip,
    "Clip-9": _clip_of_old,
    "Cast": _cast,
    "LeakyRelu": _parameter(_unary, "LeakyRelu", alpha=(0.01, 0.5, -1.5)),
    "Elu": _parameter(_unary, "Elu", alpha=(1.0, 0.5, 2.0)),
    "Celu": _parameter(_unary, "Celu", alpha=(1.0, 0.5, 2.0)),
    "Selu": _parameter(_unary, "Selu", alpha=(1.67, 0.5), gamma=(1.05, 2.0)),
    "ThresholdedRelu": _parameter(_unary, "ThresholdedRelu", alpha=(1.0, 0.5, -1.0)),
    "HardSigmoid": _parameter(_unary, "HardSigmoid", alpha=(0.2, 0.5, -0.25), beta=(0.5, 0.25)),
    "Shrink": _parameter(_unary, "Shrink", lambd=(0.5, 1.5), bias=(0.0, 0.25)),
    "Gelu": _parameter(_unary, "Gelu", approximate=("none", "tanh")),
    "IsInf": _parameter(_unary, "IsInf", detect_negative=(0, 1), detect_positive=(0, 1)),
    "PRelu": _prelu,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Slice-9": _slice_of_old,
    "Concat": _concat,
    "Split": _split,
    "Pad": _pad,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _of(_space, "DepthToSpace"),
    "SpaceToDepth": _of(_space, "SpaceToDepth"),
    "Trilu": _trilu,
    "OneHot": _one_hot,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    **{name: _of(_pool, name) for name in ("MaxPool", "AveragePool", "LpPool")},
    "AveragePool-11": _of(_pool, "AveragePool", opset=11),
    **{name: _of(_global, name) for name in ("GlobalAveragePool", "GlobalMaxPool")},
    **{f"Reduce{name}": _of(_reduce, f"Reduce{name}") for name in _REDUCTIONS},
    **{f"Reduce{name}-11": _of(_reduce_of_old, f"Reduce{name}") for name in ("Sum", "Mean", "Max", "L1")},
    **{name: _of(_extreme_place, name) for name in ("ArgMax", "ArgMin")},
    "CumSum": _cumulative,
    "TopK": _top_k,
    **{name: _of(_softmax, name) for name in ("Softmax", "LogSoftmax", "Hardmax")},
    "Softmax-11": _of(_softmax, "Softmax", opset=11),
    "LayerNormalization": _layer_norm,
    "BatchNormalization": _batch_norm,
    "BatchNormalization-9": _of(_batch_norm, opset=9),
    "InstanceNormalization": _instance_norm,
    "LpNormalization": _lp_norm,
    "QuantizeLinear": _of(_quantize, "QuantizeLinear"),
    "DequantizeLinear": _of(_quantize, "DequantizeLinear"),
    "MatMulInteger": _integer_product,
    "ConvInteger": _integer_conv,
    "Resize": _resize,
}
"""Draws a node of each operator; a number behind the name is that of an older operator set."""


@functools.cache
def drawn(name: str, seed: int) -> Drawn | None:
    """Return the node of a seed, or None if ONNX Runtime refuses it."""
    rng = np.random.default_rng([seed, *name.encode()])
    node = NODES[name](rng)
    proto, feeds = _model(node)
    results = run(proto, feeds)
    if results is None or not all(isinstance(result, np.ndarray) for result in results):
        return None
    for output, result in zip(proto.graph.output, results, strict=True):
        output.type.CopyFrom(helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(result.dtype), result.shape))
    return Drawn(f"{name}-{seed}", proto, feeds, results)


def some(name: str, count: int, first: int = 0) -> list[Drawn]:
    """Return so many nodes of an operator that ONNX Runtime runs."""
    found = (drawn(name, seed) for seed in range(first, first + 4 * count))
    return [each for each in found if each is not None][:count]


def _model(node: Node) -> tuple[onnx.ModelProto, dict[str, Array]]:
    given = {name: np.asarray(array) for name, array in node.inputs.items() if array is not None}
    names = [name if name in given else "" for name in node.inputs]
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{place}" if place else "y" for place in range(node.outputs)]
    made = helper.make_node(node.operator, names, outputs, domain=node.domain, **node.attributes)
    feeds = {name: array for name, array in given.items() if name not in node.fixed}
    if not feeds:
        feeds = {name: given[name] for name in list(given)[:1]}
    graph = helper.make_graph(
        [made],
        "one",
        [_info(name, array) for name, array in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in given.items() if name not in feeds],
    )
    imports = [helper.make_opsetid("", node.opset)]
    imports += [helper.make_opsetid(node.domain, 1)] if node.domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def session_of(proto: onnx.ModelProto) -> ort.InferenceSession:
    """Load a model as it is written."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array] | None:
    """Run a model as it is written; None if ONNX Runtime refuses."""
    try:
        return session_of(proto).run(None, dict(feeds))
    except Exception:  # noqa: BLE001 - whatever it says, there is nothing to compare with
        return None
