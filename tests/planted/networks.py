"""Networks of four kinds with faults in them that differ little: a scale, a bias, an axis, a level, a mask.

Each kind is built with few blocks or with so many that it is no small model any more, with quantizers in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from tests.planted.exchanges import Exchange

_WIDTH, _HEADS = 16, 2
_OPSET = 20


@dataclass
class _Net:
    """A graph in the making; values are known by name."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"{kind.lower()}{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"node{len(self.nodes)}", **attributes))
        return names[0]

    def const(self, value: object, dtype: type = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def weight(self, *shape: int) -> str:
        return self.const(self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0]))

    def bias(self, size: int) -> str:
        return self.const(self.random.normal(size=size) * 0.5)

    def linear(self, x: str, before: int = _WIDTH, after: int = _WIDTH) -> str:
        return self.op("Add", self.op("MatMul", x, self.weight(before, after)), self.bias(after))

    def fake_quant(self, x: str, step: float = 0.05, zero: int = 3) -> str:
        scale, point = self.const(step), self.const(zero, np.int8)
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, scale, point), scale, point)

    def steps(self, x: str, step: float = 0.125) -> str:
        """Quantize as exporters write it out."""
        scaled = self.op("Round", self.op("Div", x, self.const(step)))
        clipped = self.op("Clip", scaled, self.const(-15), self.const(15))
        return self.op("Mul", clipped, self.const(step))

    def norm(self, x: str, *, whole: bool) -> str:
        gain, bias = self.const(1 + self.random.normal(size=_WIDTH) * 0.2), self.bias(_WIDTH)
        if whole:
            return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-5)
        last = self.const([-1], np.int64)
        centred = self.op("Sub", x, self.op("ReduceMean", x, last))
        variance = self.op("ReduceMean", self.op("Mul", centred, centred), last)
        deviation = self.op("Sqrt", self.op("Add", variance, self.const(1e-5)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, deviation), gain), bias)

    def softmax(self, x: str, *, whole: bool) -> str:
        if whole:
            return self.op("Softmax", x, axis=-1)
        last = self.const([-1], np.int64)
        raised = self.op("Exp", self.op("Sub", x, self.op("ReduceMax", x, last)))
        return self.op("Div", raised, self.op("ReduceSum", raised, last))

    def model(self, inputs: list[tuple[str, int, list]], outputs: list[tuple[str, list]]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(*given) for given in inputs],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)


def layer_norm(blocks: int) -> onnx.ModelProto:
    """Build blocks of normalization, a linear layer and a gate, of which a mask chooses rows."""
    net = _Net()
    x = "x"
    keep = net.op("Greater", "lengths", net.const(0, np.int64))
    for number in range(blocks):
        y = net.norm(x, whole=number % 2 == 1)
        y = net.op("Gelu", net.linear(net.fake_quant(y)))
        y = net.steps(net.linear(y))
        x = net.op("Where", keep, net.op("Add", x, y), x)
    last = net.norm(x, whole=False)
    shape = ["N", 6, _WIDTH]
    given = [("x", onnx.TensorProto.FLOAT, shape), ("lengths", onnx.TensorProto.INT64, ["N", 6, 1])]
    return net.model(given, [(last, shape)])


def _heads(net: _Net, x: str, size: int) -> str:
    split = net.op("Reshape", x, net.const([0, -1, _HEADS, size], np.int64))
    return net.op("Transpose", split, perm=[0, 2, 1, 3])


def _attend(net: _Net, q: str, k: str, v: str, mask: str, size: int, *, whole: bool) -> str:
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = net.op("Mul", scores, net.const(size**-0.5))
    masked = net.op("Where", mask, scaled, net.const(-1e4))
    mixed = net.op("Transpose", net.op("MatMul", net.softmax(masked, whole=whole), v), perm=[0, 2, 1, 3])
    return net.linear(net.op("Reshape", mixed, net.const([0, 0, _WIDTH], np.int64)))


def softmax(blocks: int) -> onnx.ModelProto:
    """Build attention under a mask of what is padding, and of what comes later."""
    net = _Net()
    x, size = "x", _WIDTH // _HEADS
    keep = net.op("Unsqueeze", net.op("Cast", "mask", to=onnx.TensorProto.BOOL), net.const([1, 2], np.int64))
    later = net.op("Trilu", net.const(np.ones((6, 6))), upper=0)
    mask = net.op("And", keep, net.op("Cast", later, to=onnx.TensorProto.BOOL))
    for number in range(blocks):
        q, k, v = (_heads(net, net.linear(x), size) for _ in range(3))
        y = _attend(net, net.fake_quant(q), k, net.steps(v), mask, size, whole=number % 2 == 1)
        x = net.op("Add", x, y)
    shape = ["N", 6, _WIDTH]
    given = [("x", onnx.TensorProto.FLOAT, shape), ("mask", onnx.TensorProto.INT64, ["N", 6])]
    return net.model(given, [(x, shape)])


def unet(blocks: int) -> onnx.ModelProto:
    """Build a net that goes down and up again, with skips, normalized groups and a mask of the image."""
    net = _Net()

    def conv(x: str, before: int, after: int, stride: int = 1) -> str:
        kernel, bias = net.weight(after, before, 3, 3), net.bias(after)
        y = net.op("Conv", x, kernel, bias, pads=[1, 1, 1, 1], strides=[stride, stride])
        groups = net.op("Reshape", y, net.const([0, 2, -1], np.int64))
        scale, shift = net.const([1.1, 0.9]), net.const([0.1, -0.2])
        normal = net.op("InstanceNormalization", groups, scale, shift, epsilon=1e-5)
        y = net.op("Reshape", normal, net.op("Shape", y))
        gain, bias = (
            net.const(1 + net.random.normal(size=(after, 1, 1)) * 0.2),
            net.const(net.random.normal(size=(after, 1, 1))),
        )
        y = net.op("Add", net.op("Mul", y, gain), bias)
        return net.op("Mul", y, net.op("Sigmoid", y))

    inside = net.op("Greater", "mask", net.const(0.5))
    x = net.op("Where", inside, "x", net.const(0))
    first = conv(x, 3, 4)
    down = net.fake_quant(conv(first, 4, 8, 2))
    for _ in range(blocks):
        down = net.op("Add", down, net.steps(conv(down, 8, 8)))
    up = net.op("Resize", down, "", net.const([1, 1, 2, 2]), mode="nearest")
    y = conv(net.op("Concat", up, first, axis=1), 12, 4)
    y = net.op("Conv", y, net.weight(3, 4, 1, 1), net.bias(3))
    y = net.op("Where", inside, y, "x")
    shape = ["N", 3, 8, 8]
    given = [("x", onnx.TensorProto.FLOAT, shape), ("mask", onnx.TensorProto.FLOAT, ["N", 1, 8, 8])]
    return net.model(given, [(y, shape)])


def decoder(blocks: int) -> onnx.ModelProto:
    """Build a decoder with past keys and values, rotary positions and a causal mask."""
    net = _Net()
    size, vocabulary = _WIDTH // _HEADS, 40
    zero, one = net.const([0], np.int64), net.const([1], np.int64)
    x = net.op("Gather", net.const(net.random.normal(size=(vocabulary, _WIDTH))), "ids")
    length = net.op("Shape", "ids", start=1, end=2)
    past = net.op("Shape", "past0", start=2, end=3)
    total = net.op("Add", past, length)
    scalar = net.const(np.zeros(0), np.int64)
    ends = [net.op("Reshape", value, scalar) for value in (past, total)]
    start, step = net.const(0, np.int64), net.const(1, np.int64)
    places = net.op("Range", ends[0], ends[1], step)
    seen = net.op("LessOrEqual", net.op("Range", start, ends[1], step), net.op("Unsqueeze", places, one))
    mask = net.op("Unsqueeze", seen, net.const([0, 1], np.int64))
    frequencies = net.const(10.0 ** -np.arange(size // 2))
    angles = net.op("Mul", net.op("Unsqueeze", net.op("Cast", places, to=1), one), frequencies)
    turns = [net.op(kind, net.op("Concat", angles, angles, axis=-1)) for kind in ("Cos", "Sin")]
    half, all_, last = net.const([size // 2], np.int64), net.const([size], np.int64), net.const([-1], np.int64)

    def turned(value: str) -> str:
        low, high = net.op("Slice", value, zero, half, last), net.op("Slice", value, half, all_, last)
        rotated = net.op("Concat", net.op("Neg", high), low, axis=-1)
        return net.op("Add", net.op("Mul", value, turns[0]), net.op("Mul", rotated, turns[1]))

    shape = [1, _HEADS, "past", size]
    given = [("ids", onnx.TensorProto.INT64, [1, "length"])]
    results: list[tuple[str, list]] = []
    for number in range(blocks):
        y = net.norm(x, whole=number % 2 == 1)
        q, k, v = (_heads(net, net.linear(net.fake_quant(y)), size) for _ in range(3))
        k = net.op("Concat", f"past{number}", turned(k), axis=2)
        given.append((f"past{number}", onnx.TensorProto.FLOAT, shape))
        given.append((f"value{number}", onnx.TensorProto.FLOAT, shape))
        v = net.op("Concat", f"value{number}", net.steps(v), axis=2)
        x = net.op("Add", x, _attend(net, turned(q), k, v, mask, size, whole=number % 2 == 0))
        results += [(k, [1, _HEADS, "total", size]), (v, [1, _HEADS, "total", size])]
    logits = net.op("MatMul", net.norm(x, whole=False), net.weight(_WIDTH, vocabulary))
    return net.model(given, [(logits, [1, "length", vocabulary]), *results])


KINDS: dict[str, tuple[Callable[[int], onnx.ModelProto], int, int]] = {
    "LayerNorm": (layer_norm, 2, 24),
    "Softmax": (softmax, 2, 12),
    "UNet": (unet, 2, 28),
    "decoder": (decoder, 2, 6),
}
"""What builds a network, and the number of blocks of a small one and of one that is not small."""
CLASSES = ("scale", "bias", "axis", "level", "mask")
Change = Callable[[onnx.ModelProto, onnx.NodeProto], None]


def _drop(index: int, model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    node.op_type, kept = "Identity", node.input[index]
    node.input[:] = [kept]


def _attribute(name: str, value: object, model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _swap(first: int, second: int, model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    node.input[first], node.input[second] = node.input[second], node.input[first]


def _kind(op_type: str, model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    node.op_type = op_type


def _shorten(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    del node.input[2:]


def _constant(
    index: int, change: Callable[[np.ndarray], np.ndarray], model: onnx.ModelProto, node: onnx.NodeProto
) -> None:
    """Let a node read a changed constant; other nodes keep theirs."""
    array = next(numpy_helper.to_array(held) for held in model.graph.initializer if held.name == node.input[index])
    node.input[index] += "_changed"
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(change(array), array.dtype), node.input[index]))


def _up(array: np.ndarray) -> np.ndarray:
    return array + 1


def _down(array: np.ndarray) -> np.ndarray:
    return array - 1


def _a_little(array: np.ndarray) -> np.ndarray:
    return array * np.float32(1.001)


_SCALES = ("MatMul", "Mul", "Div", "Conv", "LayerNormalization", "InstanceNormalization")
_LEVELS: dict[str, list[Change]] = {
    "QuantizeLinear": [partial(_constant, 2, _up), partial(_constant, 2, _down)],
    "DequantizeLinear": [partial(_constant, 2, _up), partial(_constant, 2, _down)],
    "Clip": [partial(_constant, 2, _down), partial(_constant, 1, _up), partial(_constant, 2, _up)],
    "Round": [partial(_kind, "Floor"), partial(_kind, "Ceil")],
}
_MASKS: dict[str, list[Change]] = {
    "Where": [partial(_swap, 1, 2)],
    "Greater": [partial(_kind, "LessOrEqual"), partial(_kind, "GreaterOrEqual"), partial(_swap, 0, 1)],
    "LessOrEqual": [partial(_kind, "Greater"), partial(_kind, "Less"), partial(_swap, 0, 1)],
    "Trilu": [partial(_attribute, "upper", 1)],
    "And": [partial(_kind, "Or"), partial(_drop, 0)],
}
_BIASES: dict[str, Change] = {
    **dict.fromkeys(("Conv", "LayerNormalization"), _shorten),
    "InstanceNormalization": partial(_constant, 2, np.zeros_like),
}
_AXES: dict[str, Change] = {
    **dict.fromkeys(("ReduceMean", "ReduceMax", "ReduceSum"), partial(_constant, 1, _down)),
    "Softmax": partial(_attribute, "axis", -2),
    "Concat": partial(_swap, 0, 1),
}


def changes(model: onnx.ModelProto) -> Iterator[tuple[str, str, Change]]:
    """Yield what may go wrong at nodes: its class, the node, and how."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        held = [weights.get(name, np.zeros(0)) for name in node.input]
        floats = [n for n, array in enumerate(held) if array.dtype == np.float32 and array.size]
        kind, name = node.op_type, node.name
        if kind in _SCALES and floats:
            yield "scale", name, partial(_constant, floats[0], _a_little)
        if kind == "DequantizeLinear":
            yield "scale", name, partial(_constant, 1, _a_little)
        if kind == "Add" and floats and held[floats[0]].size > 1:
            yield "bias", name, partial(_drop, 1 - floats[0])
        if kind in _BIASES:
            yield "bias", name, _BIASES[kind]
        if kind in _AXES and len(set(node.input)) == len(node.input):
            yield "axis", name, _AXES[kind]
        if kind == "Transpose":
            wrong = [0, 3, 2, 1] if list(node.attribute[0].ints) == [0, 1, 3, 2] else [0, 2, 3, 1]
            yield "axis", name, partial(_attribute, "perm", wrong)
        yield from (("level", name, change) for change in _LEVELS.get(kind, ()))
        yield from (("mask", name, change) for change in _MASKS.get(kind, ()))


def faults(kind: str, *, large: bool = False, each: int = 20) -> Iterator[Exchange]:
    """Yield faults of every class in a network of one kind, spread over all its nodes."""
    build, few, many = KINDS[kind]
    right = build(many if large else few)
    found = list(changes(right))
    for name in CLASSES:
        own = [(where, change) for each_name, where, change in found if each_name == name]
        own = own[:: max(1, len(own) // each)][:each] if len(own) > each else own
        for number, (where, change) in enumerate(own):
            words = f"{name} {number} at {where} of {kind}{' in a large model' if large else ''}"
            yield Exchange(
                words, f"{name} of {kind}", partial(_copy, right), partial(_wrong, right, where, change),
                claim=lambda pass_class: pass_class, witness=_witness(right),
            )  # fmt: skip


def _witness(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Draw ordinary inputs, several of them in a batch."""
    random, found = np.random.default_rng(11), {}
    sizes = {"N": 4, "length": 5, "past": 3}
    for given in model.graph.input:
        tensor = given.type.tensor_type
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in tensor.shape.dim]
        drawn = (
            random.normal(size=shape) if tensor.elem_type == onnx.TensorProto.FLOAT else random.integers(0, 2, shape)
        )
        found[given.name] = drawn.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return found


def _copy(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], None] | None = None) -> ir.Model:
    """Read a copy of a model: naming values afterwards names the tensors of the proto, too."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    if change is not None:
        change(copied)
    return ir.from_proto(copied)


def _wrong(right: onnx.ModelProto, where: str, change: Callable[[onnx.ModelProto, onnx.NodeProto], None]) -> ir.Model:
    return _copy(right, lambda model: change(model, next(node for node in model.graph.node if node.name == where)))


def all_of(large: bool = False) -> list[Exchange]:
    """Return all of this file."""
    return [fault for kind in KINDS for fault in faults(kind, large=large)]
