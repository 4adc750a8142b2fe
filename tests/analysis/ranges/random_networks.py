"""Random small networks of the operators that range analysis knows, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from hypothesis import strategies as st

GENERAL = "qonnx.custom_op.general"
INTERVALS = ((-1.0, 1.0), (0.0, 255.0), (-3.7, 0.4), (999.0, 1000.0), (0.0, np.inf), (-np.inf, np.inf))
ROUNDINGS = ("ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")
Step = Callable[["Network", ir.Value], "ir.Value | None"]


class Network:
    """A graph that grows, with the shape of each value."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[ir.Node] = []
        self.constants: list[ir.Value] = []
        self.pool: list[ir.Value] = []

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def constant(self, array: Any, dtype: Any = np.float32) -> ir.Value:
        data = np.asarray(array, dtype)
        value = ir.Value(
            name=f"c{len(self.constants)}",
            shape=ir.Shape(data.shape),
            type=ir.TensorType(ir.DataType.from_numpy(data.dtype)),
            const_value=ir.Tensor(data),
        )
        self.constants.append(value)
        return value

    def add(
        self,
        op: str,
        *inputs: ir.Value | None,
        shape: tuple[int, ...],
        domain: str = "",
        dtype: ir.DataType = ir.DataType.FLOAT,
        outputs: int = 1,
        **attributes: Any,
    ) -> ir.Value:
        values = [ir.Value(name=f"v{len(self.nodes)}_{i}") for i in range(outputs)]
        node = ir.Node(domain, op, inputs, ir.convenience.convert_attributes(attributes), outputs=values)
        self.nodes.append(node)
        values[0].shape, values[0].type = ir.Shape(shape), ir.TensorType(dtype)
        return values[0]

    def numbers(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        kind = self.one_of("normal", "integers", "halves", "sparse")
        if kind == "normal":
            return self.random.normal(size=shape) * scale
        if kind == "integers":
            return self.random.integers(-3, 4, shape).astype(float)
        if kind == "halves":
            return self.random.integers(-4, 5, shape) / 2
        return np.where(self.random.random(shape) < 0.5, 0.0, self.random.normal(size=shape))

    def spread(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Choose a shape that broadcasts to another: one number, one for each channel, or one for each element."""
        kind = self.one_of("one", "one", "channel", "channel", "all", "last")
        if kind == "one":
            return self.one_of((), (1,), (1,) * len(shape))
        if kind == "channel" and len(shape) > 1:
            return (1, shape[1], *(1,) * (len(shape) - 2))
        return shape[-1:] if kind == "last" else shape

    def weights(self, *shape: int) -> ir.Value:
        """Return weights: plain, or quantized for each output or all at once, with or without zero point."""
        plain = self.constant(self.numbers(*shape))
        if self.one_of(True, False, False):
            return plain
        full = self.one_of((), (shape[0], *(1,) * (len(shape) - 1)))
        return quantized(self, plain, full, shape)

    def model(self, x: ir.Value, outputs: list[ir.Value]) -> ir.Model:
        graph = ir.Graph(
            [x],
            outputs,
            nodes=self.nodes,
            initializers=self.constants,
            opset_imports={"": 18, GENERAL: 1},
            name="random",
        )
        return ir.Model(graph, ir_version=10)


def dims(value: ir.Value) -> tuple[int, ...]:
    assert value.shape is not None
    return tuple(int(dim) for dim in value.shape)  # pyright: ignore[reportArgumentType]


def quantized(n: Network, x: ir.Value, full: tuple[int, ...], shape: tuple[int, ...]) -> ir.Value:
    scale = n.one_of(
        n.random.uniform(0.01, 0.7, full), 2.0 ** n.random.integers(-4, 2, full), n.random.uniform(-0.5, -0.1, full)
    )
    zero = n.one_of(0.0, 0.0, 0.0, float(n.random.integers(-3, 4)), n.random.integers(-2, 3, full), 0.5)
    bits = n.one_of(1, 2, 3, 4, 8, 16)
    return n.add(
        n.one_of("Quant", "IntQuant"),
        x,
        n.constant(scale),
        n.constant(zero),
        n.constant(bits),
        shape=shape,
        domain=GENERAL,
        signed=n.one_of(0, 1),
        narrow=n.one_of(0, 0, 1),
        rounding_mode=n.one_of(*ROUNDINGS),
    )


def quant(n: Network, x: ir.Value) -> ir.Value:
    shape = dims(x)
    full = n.spread(shape)
    return quantized(n, x, full if n.one_of(True, False) else (), shape)


def bipolar(n: Network, x: ir.Value) -> ir.Value:
    return n.add("BipolarQuant", x, n.constant(n.one_of(1.0, 0.25, 0.3)), shape=dims(x), domain=GENERAL)


def trunc(n: Network, x: ir.Value) -> ir.Value:
    scale, zero = n.one_of(0.25, 0.3, 1.0), n.one_of(0.0, 2.0)
    rest = [n.constant(v) for v in n.one_of((8, 4), (8, scale * 4, 5))]
    return n.add(
        "Trunc",
        x,
        n.constant(scale),
        n.constant(zero),
        *rest,
        shape=dims(x),
        domain=GENERAL,
        rounding_mode=n.one_of(*ROUNDINGS),
    )


def float_quant(n: Network, x: ir.Value) -> ir.Value:
    parameters = [
        n.constant(v)
        for v in (n.one_of(1.0, 0.3), n.one_of(4, 3), n.one_of(3, 2), n.one_of(7, 3), n.one_of(480.0, 30.0))
    ]
    return n.add(
        "FloatQuant",
        x,
        *parameters,
        shape=dims(x),
        domain=GENERAL,
        rounding_mode="ROUND",
        has_inf=0,
        has_nan=0,
        has_subnormal=1,
        saturation=1,
    )


def multi_threshold(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) not in (2, 4):
        return None
    last = len(shape) == 4 and n.one_of(True, False)
    channels = n.one_of(1, shape[-1] if last else shape[1])
    steps = np.sort(n.random.normal(size=(channels, n.one_of(1, 3, 7))) * 3, axis=1)
    if n.one_of(True, False, False):
        steps[:, 0] = -np.inf
    return n.add(
        "MultiThreshold", x, n.constant(steps), shape=shape, domain=GENERAL, out_dtype="INT8",
        out_scale=n.one_of(1.0, 2.0, 0.3, -1.0), out_bias=n.one_of(0.0, -1.0, 0.7),
        data_layout="NHWC" if last else "NCHW" if len(shape) == 4 else "NC",
    )  # fmt: skip


def linear_quantizers(n: Network, x: ir.Value) -> ir.Value:
    shape = dims(x)
    axis = n.one_of(None, 1) if len(shape) > 1 else None
    full = () if axis is None else (shape[1],)
    kind = n.one_of(np.int8, np.uint8)
    scale = n.constant(n.random.uniform(0.02, 0.3, full))
    zero = n.constant(n.random.integers(0, 5, full), kind)
    given = {} if axis is None else {"axis": axis}
    q = n.add("QuantizeLinear", x, scale, zero, shape=shape, dtype=ir.DataType.from_numpy(np.dtype(kind)), **given)
    return n.add("DequantizeLinear", q, scale, zero, shape=shape, **given)


def arithmetic(n: Network, x: ir.Value) -> ir.Value:
    op = n.one_of("Add", "Sub", "Mul", "Div")
    shape = dims(x)
    numbers = n.numbers(*n.spread(shape))
    if op == "Div":
        numbers = np.where(np.abs(numbers) < 0.1, 0.5, numbers)
    c = n.constant(numbers)
    pair = (x, c) if op in ("Div", "Sub") or n.one_of(True, False) else (c, x)
    return n.add(op, *pair, shape=shape)


def combine(n: Network, x: ir.Value) -> ir.Value:
    others = [value for value in n.pool if dims(value) == dims(x)]
    return n.add(n.one_of("Add", "Sub", "Mul", "Max", "Min", "Add"), x, n.one_of(*others), shape=dims(x))


def choose(n: Network, x: ir.Value) -> ir.Value:
    others = [value for value in n.pool if dims(value) == dims(x)]
    condition = n.constant(n.random.random(dims(x)) < 0.5, np.bool_)
    return n.add("Where", condition, x, n.one_of(*others, n.constant(n.numbers())), shape=dims(x))


def unary(n: Network, x: ir.Value) -> ir.Value:
    op = n.one_of(
        "Relu", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Selu", "Elu", "HardSigmoid", "HardSwish", "Softplus", "Sign",
        "Abs", "Neg", "Floor", "Ceil", "Round", "Erf", "Softsign", "Identity", "ThresholdedRelu", "Mish", "Celu",
        "Sin", "Atan",
    )  # fmt: skip
    return n.add(op, x, shape=dims(x))


def narrow_functions(n: Network, x: ir.Value) -> ir.Value:
    """Use functions that are not for all numbers on what they are for."""
    shape = dims(x)
    kept = n.add("Clip", x, n.constant(0.1), n.constant(5.0), shape=shape)
    op = n.one_of("Exp", "Log", "Sqrt", "Reciprocal", "Pow")
    return n.add(op, kept, *([n.constant(n.one_of(2.0, 0.5, 3.0, -1.0))] if op == "Pow" else []), shape=shape)


def limits(n: Network, x: ir.Value) -> ir.Value:
    low, high = sorted(n.numbers(2))
    return n.add("Clip", x, n.one_of(None, n.constant(low)), n.constant(high), shape=dims(x))


def slopes(n: Network, x: ir.Value) -> ir.Value:
    return n.add("PRelu", x, n.constant(n.numbers(*n.spread(dims(x)), scale=0.3)), shape=dims(x))


def powers(n: Network, x: ir.Value) -> ir.Value:
    return n.add("Pow", x, n.constant(n.one_of(1.0, 2.0, 3.0)), shape=dims(x))


def batch_norm(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) < 2:
        return None
    c = shape[1]
    parameters = [n.constant(v) for v in (n.numbers(c), n.numbers(c), n.numbers(c), n.random.uniform(0.1, 2, c))]
    return n.add("BatchNormalization", x, *parameters, shape=shape)


def normalize(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    op = n.one_of("LayerNormalization", "InstanceNormalization", "Softmax", "LogSoftmax")
    if op == "InstanceNormalization":
        if len(shape) < 3:
            return None
        return n.add(op, x, n.constant(n.numbers(shape[1])), n.constant(n.numbers(shape[1])), shape=shape)
    if op == "LayerNormalization":
        return n.add(op, x, n.constant(n.numbers(shape[-1])), n.constant(n.numbers(shape[-1])), shape=shape)
    return n.add(op, x, shape=shape, axis=-1)


def matmul(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) < 2:
        return None
    kind = n.one_of("right", "right", "left", "square", "vector")
    size = int(n.random.integers(1, 5))
    if kind == "right":
        return n.add("MatMul", x, n.weights(shape[-1], size), shape=(*shape[:-1], size))
    if kind == "left":
        return n.add("MatMul", n.weights(size, shape[-2]), x, shape=(*shape[:-2], size, shape[-1]))
    if kind == "vector":
        return n.add("MatMul", x, n.weights(shape[-1]), shape=shape[:-1])
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    turned = n.add("Transpose", x, shape=tuple(shape[i] for i in order), perm=order)
    return n.add("MatMul", x, turned, shape=(*shape[:-1], shape[-2]))


def gemm(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) != 2:
        return None
    size, across = int(n.random.integers(1, 5)), n.one_of(0, 1)
    w = n.weights(size, shape[1]) if across else n.weights(shape[1], size)
    c = n.one_of([], [n.constant(n.numbers(size))], [n.weights(size)])
    return n.add(
        "Gemm",
        x,
        w,
        *c,
        shape=(shape[0], size),
        transB=across,
        alpha=n.one_of(1.0, 1.0, 0.5),
        beta=n.one_of(1.0, 1.0, -2.0),
    )


def conv(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) != 4:
        return None
    groups = n.one_of(1, shape[1])
    out = groups * int(n.random.integers(1, 3))
    k = [int(n.random.integers(1, min(3, shape[2], shape[3]) + 1)) for _ in range(2)]
    pads, strides = n.one_of([0] * 4, [1, 1, 1, 1], [0, 1, 1, 0]), n.one_of([1, 1], [2, 1])
    sizes = tuple((shape[2 + i] + pads[i] + pads[2 + i] - k[i]) // strides[i] + 1 for i in range(2))
    bias = n.one_of([], [n.constant(n.numbers(out))])
    w = n.weights(out, shape[1] // groups, *k)
    if n.one_of(True, False, False) and strides == [1, 1]:
        return n.add(
            "Conv", x, w, *bias, shape=(shape[0], out, *shape[2:]), group=groups, auto_pad="SAME_UPPER", kernel_shape=k
        )
    return n.add(
        "Conv", x, w, *bias, shape=(shape[0], out, *sizes), group=groups, pads=pads, strides=strides, kernel_shape=k
    )


def conv_transpose(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) != 4:
        return None
    groups = n.one_of(1, shape[1])
    k, stride = int(n.random.integers(1, 4)), n.one_of(1, 2, 3)
    per = int(n.random.integers(1, 3))
    sizes = tuple((size - 1) * stride + k for size in shape[2:])
    bias = n.one_of([], [n.constant(n.numbers(groups * per))])
    w = n.weights(shape[1], per, k, k)
    return n.add(
        "ConvTranspose",
        x,
        w,
        *bias,
        shape=(shape[0], groups * per, *sizes),
        group=groups,
        strides=[stride, stride],
        kernel_shape=[k, k],
    )


def pool(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) != 4:
        return None
    op = n.one_of("MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    if op.startswith("Global"):
        return n.add(op, x, shape=(*shape[:2], 1, 1))
    if min(shape[2:]) < 2:
        return None
    pads = n.one_of([0] * 4, [1] * 4)
    sizes = tuple(shape[2 + i] + 2 * pads[i] - 1 for i in range(2))
    extra = {"count_include_pad": n.one_of(0, 1)} if op == "AveragePool" else {}
    return n.add(op, x, shape=(*shape[:2], *sizes), kernel_shape=[2, 2], pads=pads, strides=[1, 1], **extra)


def reduce(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) < 2:
        return None
    axis, keep = int(n.random.integers(len(shape))), n.one_of(0, 1)
    kept = tuple(1 if i == axis else s for i, s in enumerate(shape) if keep or i != axis)
    op = n.one_of("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
    return n.add(op, x, n.constant([axis], np.int64), shape=kept, keepdims=keep)


def reorder(n: Network, x: ir.Value) -> ir.Value:
    shape = dims(x)
    order = [int(i) for i in n.random.permutation(len(shape))]
    return n.add("Transpose", x, shape=tuple(shape[i] for i in order), perm=order)


def reshape(n: Network, x: ir.Value) -> ir.Value:
    shape = dims(x)
    total, axis = int(np.prod(shape)), int(n.random.integers(len(shape) + 1))
    kind = n.one_of("Reshape", "Reshape", "Flatten", "Unsqueeze", "Expand")
    if kind == "Flatten":
        return n.add(kind, x, shape=(int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))), axis=axis)
    if kind == "Unsqueeze":
        return n.add(kind, x, n.constant([axis], np.int64), shape=(*shape[:axis], 1, *shape[axis:]))
    if kind == "Expand":
        return n.add(kind, x, n.constant((2, *shape), np.int64), shape=(2, *shape))
    wishes = [(total,), (1, total), shape[::-1]]
    if shape:
        wishes += [(shape[0], total // shape[0]), (*shape[:-1], 1, shape[-1]), (total // shape[-1], shape[-1])]
    new = n.one_of(*wishes)
    return n.add(kind, x, n.constant(new, np.int64), shape=new)


def select(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    axis = int(n.random.integers(len(shape))) if shape else 0
    kind = n.one_of("Slice", "Gather", "Split")
    if not shape or shape[axis] < 2:
        return None
    before, after = shape[:axis], shape[axis + 1 :]
    if kind == "Slice":
        start, step = n.one_of((1, 1), (0, 2), (-1, -1))
        size = {1: shape[axis] - 1, 2: (shape[axis] + 1) // 2, -1: shape[axis]}[step]
        parts = [n.constant([v], np.int64) for v in (start, -(2**40) if step < 0 else 2**40, axis, step)]
        return n.add(kind, x, *parts, shape=(*before, size, *after))
    if kind == "Gather":
        places = np.asarray(n.random.integers(-shape[axis], shape[axis], n.one_of((), (2,), (1, 2))))
        return n.add(kind, x, n.constant(places, np.int64), shape=(*before, *places.shape, *after), axis=axis)
    sizes = n.constant([1, shape[axis] - 1], np.int64)
    return n.add(kind, x, sizes, shape=(*before, 1, *after), axis=axis, outputs=2)


def enlarge(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    axis = int(n.random.integers(len(shape))) if shape else 0
    kind = n.one_of("Pad", "Tile", "Concat")
    if not shape:
        return None
    if kind == "Pad":
        pads = [int(v) for v in n.random.integers(0, 2, 2 * len(shape))]
        new = tuple(s + pads[i] + pads[len(shape) + i] for i, s in enumerate(shape))
        mode = n.one_of("constant", "constant", "edge")
        value = [n.constant(n.one_of(0.0, 1.0, 0.3))] if mode == "constant" and n.one_of(True, False) else []
        return n.add(kind, x, n.constant(pads, np.int64), *value, shape=new, mode=mode)
    if kind == "Tile":
        repeats = [int(v) for v in n.random.integers(1, 3, len(shape))]
        new = tuple(s * r for s, r in zip(shape, repeats, strict=True))
        return n.add(kind, x, n.constant(repeats, np.int64), shape=new)
    other = n.one_of(*[v for v in n.pool if dims(v) == shape], n.constant(n.numbers(*shape)))
    return n.add(kind, x, other, shape=(*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]), axis=axis)


def resize(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if len(shape) != 4:
        return None
    scales = n.constant([1.0, 1.0, 2.0, 2.0])
    new = (*shape[:2], shape[2] * 2, shape[3] * 2)
    return n.add("Resize", x, None, scales, shape=new, mode=n.one_of("nearest", "linear"))


def casts(n: Network, x: ir.Value) -> ir.Value:
    kept = n.add("Clip", x, n.constant(-100.0), n.constant(100.0), shape=dims(x))
    target = n.one_of(ir.DataType.INT32, ir.DataType.INT8, ir.DataType.INT64)
    whole = n.add("Cast", kept, shape=dims(x), dtype=target, to=int(target))
    return n.add("Cast", whole, shape=dims(x), to=int(ir.DataType.FLOAT))


def best(n: Network, x: ir.Value) -> ir.Value | None:
    shape = dims(x)
    if not shape:
        return None
    return n.add("TopK", x, n.constant([1], np.int64), shape=(*shape[:-1], 1), outputs=2)


STEPS: tuple[Step, ...] = (
    quant, quant, quant, bipolar, trunc, float_quant, multi_threshold, linear_quantizers, arithmetic, arithmetic,
    arithmetic, combine, combine, choose, unary, unary, narrow_functions, limits, slopes, powers, batch_norm,
    normalize, matmul, matmul, gemm, conv, conv, conv, conv_transpose, pool, pool, reduce, reorder, reshape, reshape,
    select, enlarge, resize, casts, best,
)  # fmt: skip


Drawn = tuple[ir.Model, dict[str, Any], list[dict[str, np.ndarray]]]


def networks() -> st.SearchStrategy[Drawn]:
    """Draw networks."""
    return st.builds(
        network, st.integers(0, 2**32 - 1), st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=9)
    )


def network(seed: int, steps: list[int]) -> Drawn:
    """Return a model, what is known of its input, and samples of that, extreme ones among them."""
    n = Network(seed)
    shape = n.one_of((2, 4), (3, 3), (1, 6), (1, 2, 4, 4), (2, 3, 3, 4), (1, 1, 5, 5), (2, 3, 4))
    x = ir.Value(name="x", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
    n.pool.append(x)
    known: Any = n.one_of(*INTERVALS, "INT4", "UINT3", "BIPOLAR", "INT8", "FIXED<6,3>")
    for index in steps:
        source = n.pool[-1] if n.random.random() < 0.8 else n.one_of(*n.pool)
        before = len(n.nodes)
        result = STEPS[index](n, source)
        if result is None or np.prod(dims(result)) > 4000:
            del n.nodes[before:]
            continue
        n.pool.append(result)
    if len(n.pool) == 1:
        n.pool.append(n.add("Identity", x, shape=shape))
    model = n.model(x, [n.pool[-1]])
    return model, {"x": known}, [{"x": sample} for sample in _samples(n.random, known, shape)]


def _samples(random: np.random.Generator, known: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    steps = {"INT4": (-8, 7, 1.0), "UINT3": (0, 7, 1.0), "INT8": (-128, 127, 1.0), "FIXED<6,3>": (-32, 31, 0.125)}
    if known == "BIPOLAR":
        draws = [random.choice([-1.0, 1.0], shape) for _ in range(4)] + [np.full(shape, -1.0), np.full(shape, 1.0)]
    elif isinstance(known, str):
        low, high, step = steps[known]
        draws = [random.integers(low, high + 1, shape) * step, random.choice([low, high], shape) * step]
        draws += [random.choice([low, high], shape) * step, np.full(shape, low * step), np.full(shape, high * step)]
    else:
        low, high = np.clip(known, -300.0, 300.0) if np.isinf(known).any() else known
        draws = [random.uniform(low, high, shape), random.uniform(low, high, shape) * 0 + low, np.full(shape, high)]
        draws += [random.choice([low, high], shape) for _ in range(3)]
        if low <= 0 <= high:
            draws.append(np.zeros(shape))
    if isinstance(known, tuple):
        draws = [np.clip(draw.astype(np.float32), *(np.float32(end) for end in known)) for draw in draws]
    return [np.asarray(draw, np.float32) for draw in draws]
