"""Networks as exporters write them: with shape arithmetic, decomposed layers, constants and leftovers of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir

NETWORKS: dict[str, Callable[[], ir.Model]] = {}


def network(build: Callable[[], ir.Model]) -> Callable[[], ir.Model]:
    NETWORKS[build.__name__] = build
    return build


@dataclass
class Net:
    """Collects lines of ONNX text, and weights drawn from a fixed seed."""

    inputs: str
    outputs: str
    opset: int = 18
    lines: list[str] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def add(self, text: str) -> None:
        self.lines.append(text)

    def weight(self, name: str, *shape: int, scale: float = 0.3) -> str:
        self.weights[name] = (scale * self.rng.normal(size=shape)).astype(np.float32)
        return name

    def positive(self, name: str, *shape: int) -> str:
        self.weights[name] = self.rng.uniform(0.5, 1.5, size=shape).astype(np.float32)
        return name

    def constant(self, name: str, value: object, dtype: type = np.int64) -> str:
        self.weights[name] = np.array(value, dtype)
        return name

    def conv_bn_relu(self, x: str, y: str, channels: tuple[int, int], attributes: str = "pads=[1,1,1,1]") -> None:
        a, b = channels
        self.add(f"{y}_c = Conv<kernel_shape=[3,3], {attributes}>({x}, {self.weight(y + '_w', b, a, 3, 3)})")
        parameters = ", ".join(
            (
                self.positive(f"{y}_gamma", b),
                self.weight(f"{y}_beta", b),
                self.weight(f"{y}_mean", b),
                self.positive(f"{y}_var", b),
            )
        )
        self.add(f"{y}_b = BatchNormalization({y}_c, {parameters})")
        self.add(f"{y} = Relu({y}_b)")

    def layer_norm(self, x: str, y: str, size: int) -> None:
        axis, two, eps = self.constant(f"{y}_ax", [-1]), self.constant(f"{y}_two", 2.0, np.float32), f"{y}_eps"
        self.constant(eps, 1e-5, np.float32)
        self.add(f"{y}_m = ReduceMean({x}, {axis}) {y}_d = Sub({x}, {y}_m) {y}_p = Pow({y}_d, {two})")
        self.add(f"{y}_v = ReduceMean({y}_p, {axis}) {y}_e = Add({y}_v, {eps}) {y}_s = Sqrt({y}_e)")
        self.add(f"{y}_n = Div({y}_d, {y}_s) {y}_g = Mul({y}_n, {self.positive(y + '_scale', size)})")
        self.add(f"{y} = Add({y}_g, {self.weight(y + '_bias', size)})")

    def gelu(self, x: str, y: str) -> None:
        root, one, half = (self.constant(f"{y}_{i}", v, np.float32) for i, v in enumerate((1.41421354, 1.0, 0.5)))
        self.add(f"{y}_d = Div({x}, {root}) {y}_e = Erf({y}_d) {y}_a = Add({y}_e, {one}) {y}_m = Mul({x}, {y}_a)")
        self.add(f"{y} = Mul({y}_m, {half})")

    def linear(self, x: str, y: str, a: int, b: int) -> None:
        self.add(f"{y}_p = MatMul({x}, {self.weight(y + '_w', a, b)}) {y} = Add({self.weight(y + '_b', b)}, {y}_p)")

    def heads(self, x: str, y: str, heads: int, width: int) -> None:
        """Split the last dimension into heads by the shape arithmetic of an exporter."""
        zero, one = self.constant(f"{y}_i0", 0), self.constant(f"{y}_i1", 1)
        ax = self.constant(f"{y}_ax", [0])
        h, w = self.constant(f"{y}_h", [heads]), self.constant(f"{y}_wd", [width])
        self.add(f"{y}_sh = Shape({x}) {y}_n = Gather<axis=0>({y}_sh, {zero}) {y}_t = Gather<axis=0>({y}_sh, {one})")
        self.add(f"{y}_n1 = Unsqueeze({y}_n, {ax}) {y}_t1 = Unsqueeze({y}_t, {ax})")
        self.add(f"{y}_to = Concat<axis=0>({y}_n1, {y}_t1, {h}, {w}) {y}_r = Reshape({x}, {y}_to)")
        self.add(f"{y} = Transpose<perm=[0,2,1,3]>({y}_r)")

    def attention(self, x: str, y: str, heads: int, width: int, mask: str = "") -> None:
        size = heads * width
        for part in "qkv":
            self.linear(x, f"{y}_{part}0", size, size)
            self.heads(f"{y}_{part}0", f"{y}_{part}", heads, width)
        scale = self.constant(f"{y}_scale", float(np.sqrt(width)), np.float32)
        self.add(f"{y}_kt = Transpose<perm=[0,1,3,2]>({y}_k) {y}_qk = MatMul({y}_q, {y}_kt)")
        self.add(f"{y}_sc = Div({y}_qk, {scale})")
        scores = f"{y}_sc"
        if mask:
            self.add(f"{y}_ms = Add({scores}, {mask})")
            scores = f"{y}_ms"
        minus, zero = self.constant(f"{y}_m1", [-1]), self.constant(f"{y}_0", 0)
        one, ax = self.constant(f"{y}_1", 1), self.constant(f"{y}_ax", [0])
        self.add(f"{y}_p = Softmax<axis=-1>({scores}) {y}_dr = Dropout({y}_p) {y}_o = MatMul({y}_dr, {y}_v)")
        self.add(f"{y}_ot = Transpose<perm=[0,2,1,3]>({y}_o) {y}_osh = Shape({x})")
        self.add(f"{y}_on = Gather<axis=0>({y}_osh, {zero}) {y}_os = Gather<axis=0>({y}_osh, {one})")
        self.add(f"{y}_on1 = Unsqueeze({y}_on, {ax}) {y}_os1 = Unsqueeze({y}_os, {ax})")
        self.add(f"{y}_oto = Concat<axis=0>({y}_on1, {y}_os1, {minus}) {y}_or = Reshape({y}_ot, {y}_oto)")
        self.linear(f"{y}_or", f"{y}_out", size, size)
        self.add(f"{y} = Add({x}, {y}_out)")

    def model(self) -> ir.Model:
        body = "\n".join(self.lines)
        text = f'<ir_version: 9, opset_import: ["": {self.opset}]> net ({self.inputs}) => ({self.outputs}) {{ {body} }}'
        # The names of weights are free in the text, and get their values here.
        return ir.from_proto(_parsed(text, self.weights))


def _parsed(text: str, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto


@network
def cnn() -> ir.Model:
    """Convolutions with BatchNormalization, flattened by shape arithmetic."""
    net = Net("float[N,3,16,16] x", "float[N,10] y")
    net.conv_bn_relu("x", "a", (3, 8))
    net.add("p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)")
    net.conv_bn_relu("p", "b", (8, 16))
    zero, ax, rest = net.constant("zero", 0), net.constant("ax", [0]), net.constant("rest", [-1])
    net.add("i = Identity(b) g = GlobalAveragePool(i) s = Shape(g)")
    net.add(f"n = Gather<axis=0>(s, {zero}) n1 = Unsqueeze(n, {ax}) to = Concat<axis=0>(n1, {rest}) f = Reshape(g, to)")
    net.add("d = Dropout(f)")
    net.linear("d", "y", 16, 10)
    return net.model()


@network
def residual() -> ir.Model:
    """Residual blocks with explicit padding."""
    net = Net("float[1,4,12,12] x", "float[1,8,6,6] y")
    pads = net.constant("pads", [0, 0, 1, 1, 0, 0, 1, 1])
    net.add(f"px = Pad(x, {pads})")
    net.conv_bn_relu("px", "a", (4, 8), "strides=[2,2]")
    net.conv_bn_relu("a", "b", (8, 8))
    net.add(f"s0 = Conv<kernel_shape=[1,1], strides=[2,2]>(x, {net.weight('sw', 8, 4, 1, 1)})")
    net.add(f"s = Add(s0, {net.weight('sb', 1, 8, 1, 1)}) t = Add(b, s) u = Relu(t) v = Relu(u)")
    net.add("w = Cast<to=1>(v) y = Identity(w)")
    return net.model()


@network
def mobile() -> ir.Model:
    """Depthwise convolutions with hard swish written out, and squeeze-and-excite."""
    net = Net("float[N,8,8,8] x", "float[N,8,8,8] y")
    net.add(f"d = Conv<kernel_shape=[3,3], group=8, pads=[1,1,1,1]>(x, {net.weight('dw', 8, 1, 3, 3)})")
    three, lo, hi = (net.constant(name, value, np.float32) for name, value in (("three", 3), ("lo", 0), ("hi", 6)))
    net.add(f"h0 = Add(d, {three}) h1 = Clip(h0, {lo}, {hi}) h2 = Mul(d, h1) h = Div(h2, {hi})")
    net.add(f"g = GlobalAveragePool(h) e = Conv<kernel_shape=[1,1]>(g, {net.weight('ew', 8, 8, 1, 1)})")
    net.add("q = Sigmoid(e) m = Mul(h, q)")
    net.add(f"c = Conv<kernel_shape=[1,1]>(m, {net.weight('pw', 8, 8, 1, 1)}) b0 = Add(c, {net.weight('pb', 8, 1, 1)})")
    net.add("y = Add(b0, x)")
    return net.model()


@network
def detector() -> ir.Model:
    """Two scales of a detection head: reshaped, transposed, joined and scored."""
    net = Net("float[1,8,8,8] big, float[1,8,4,4] small", "float[1,80,4] boxes, float[1,80,3] scores")
    for name, size in (("big", 8), ("small", 4)):
        net.add(f"{name}_c = Conv<kernel_shape=[1,1]>({name}, {net.weight(name + '_w', 7, 8, 1, 1)}, {name}_bias)")
        net.weight(f"{name}_bias", 7)
        to = net.constant(f"{name}_to", [1, 7, size * size])
        net.add(f"{name}_r = Reshape({name}_c, {to}) {name}_t = Transpose<perm=[0,2,1]>({name}_r)")
    net.add("all0 = Concat<axis=1>(big_t, small_t) all1 = Transpose<perm=[0,2,1]>(all0)")
    net.add("all = Transpose<perm=[0,2,1]>(all1)")
    parts = net.constant("parts", [4, 3])
    net.add(f"b0, s0 = Split<axis=2>(all, {parts}) scores = Sigmoid(s0)")
    one, grid = net.constant("one", 1.0, np.float32), net.weight("grid", 1, 80, 4)
    net.add(f"b1 = Mul(b0, {one}) b2 = Add(b1, {grid})")
    start, end, axes = (net.constant(n, [v]) for n, v in (("start", 0), ("end", 2**62), ("axes", 1)))
    net.add(f"boxes = Slice(b2, {start}, {end}, {axes})")
    return net.model()


@network
def encoder() -> ir.Model:
    """A transformer block with dynamic batch and length, layer norms and GELU written out."""
    net = Net("float[N,T,16] x", "float[N,T,16] y", opset=20)
    net.layer_norm("x", "ln1", 16)
    net.attention("ln1", "at", 2, 8)
    net.layer_norm("at", "ln2", 16)
    net.linear("ln2", "f1", 16, 32)
    net.gelu("f1", "ge")
    net.linear("ge", "f2", 32, 16)
    net.add("y = Add(at, f2)")
    return net.model()


@network
def decoder() -> ir.Model:
    """Token and position embeddings, a causal mask from constants, attention and a tied projection."""
    net = Net("int64[1,6] tokens", "float[1,6,20] y", opset=20)
    table = net.weight("table", 20, 16)
    start, limit, step = (net.constant(n, v) for n, v in (("start", 0), ("limit", 6), ("step", 1)))
    net.add(f"e0 = Gather({table}, tokens) pos = Range({start}, {limit}, {step})")
    net.add(f"p = Gather({net.weight('positions', 32, 16)}, pos) e = Add(e0, p)")
    shape, ax = net.constant("mshape", [6, 6]), net.constant("max", [1])
    low, none = net.constant("low", -1e9, np.float32), net.constant("none", 0.0, np.float32)
    net.add(f"rows = Unsqueeze(pos, {ax}) later = Greater(pos, rows) lw = Expand(later, {shape})")
    net.add(f"mask = Where(lw, {low}, {none})")
    net.attention("e", "at", 2, 8, mask="mask")
    net.layer_norm("at", "ln", 16)
    net.add(f"tt = Transpose<perm=[1,0]>({table}) y = MatMul(ln, tt)")
    return net.model()


def decoder_with_past() -> ir.Model:
    """Attention to what came before: positions and a window of a triangular mask, found by arithmetic of sizes."""
    net = Net("int64[1,T] tokens, float[1,2,P,8] past", "float[1,T,16] y", opset=17)
    scalars = {"zero": 0, "one": 1, "two": 2, "step": 1}
    zero, one, two, step = (net.constant(name, number) for name, number in scalars.items())
    ax, last, row = net.constant("ax", [0]), net.constant("last", [-1]), net.constant("row", [2])
    column = net.constant("column", [3])
    net.add(f"ps = Shape(past) p = Gather<axis=0>(ps, {two}) ts = Shape(tokens) t = Gather<axis=0>(ts, {one})")
    net.add(f"all = Add(p, t) places = Range(p, all, {step}) pp = Unsqueeze(places, {ax})")
    net.add(f"e = Gather({net.weight('table', 9, 16)}, tokens) w = Gather({net.weight('positions', 32, 16)}, pp)")
    net.add("x = Add(e, w)")
    for part in "qkv":
        net.linear("x", f"{part}0", 16, 16)
        net.heads(f"{part}0", part, 2, 8)
    net.add("ks = Concat<axis=2>(past, k) kt = Transpose<perm=[0,1,3,2]>(ks) qk = MatMul(q, kt)")
    net.weights["triangle"] = np.tril(np.ones((1, 1, 32, 32), np.bool_))
    net.add(f"a1 = Unsqueeze(all, {ax}) f0 = Sub(all, t) f1 = Unsqueeze(f0, {ax})")
    net.add(f"rows = Slice(triangle, f1, a1, {row}, {net.constant('s1', [1])})")
    net.add(f"window = Slice(rows, {ax}, a1, {column}, {net.constant('s2', [1])})")
    net.add(f"m = Where(window, qk, {net.constant('low', -1e4, np.float32)}) s = Softmax<axis=-1>(m)")
    net.add("vs = Concat<axis=2>(past, v) o = MatMul(s, vs) ot = Transpose<perm=[0,2,1,3]>(o) os = Shape(ot)")
    net.add(f"b = Gather<axis=0>(os, {zero}) l = Gather<axis=0>(os, {one})")
    net.add(f"b1 = Unsqueeze(b, {ax}) l1 = Unsqueeze(l, {ax}) to = Concat<axis=0>(b1, l1, {last}) y = Reshape(ot, to)")
    return net.model()


def encoder_stack() -> ir.Model:
    """Four blocks of a transformer, one like the other."""
    net = Net("float[1,6,16] x", "float[1,6,16] y", opset=20)
    last = "x"
    for block in range(4):
        net.layer_norm(last, f"ln{block}", 16)
        net.attention(f"ln{block}", f"at{block}", 2, 8)
        net.linear(f"at{block}", f"f{block}", 16, 16)
        net.gelu(f"f{block}", f"ge{block}")
        last = f"ge{block}"
    net.add(f"y = Identity({last})")
    return net.model()


@network
def lstm() -> ir.Model:
    """A recurrent layer between transposes, with states made from shapes."""
    net = Net("float[N,7,6] x", "float[N,5] y")
    one, ax, hidden = net.constant("one", [1]), net.constant("ax", [0]), net.constant("hidden", [5])
    at = net.constant("at", 1)
    net.add(f"t = Transpose<perm=[1,0,2]>(x) s = Shape(t) n = Gather<axis=0>(s, {at}) n1 = Unsqueeze(n, {ax})")
    net.add(f"sh = Concat<axis=0>({one}, n1, {hidden}) zeros = ConstantOfShape(sh) again = ConstantOfShape(sh)")
    w, r, b = net.weight("w", 1, 20, 6), net.weight("r", 1, 20, 5), net.weight("b", 1, 40)
    net.add(f"o, h, c = LSTM<hidden_size=5>(t, {w}, {r}, {b}, , zeros, again)")
    net.add(f"q = Squeeze(o, {one}) back = Transpose<perm=[1,0,2]>(q) forth = Transpose<perm=[1,0,2]>(back)")
    net.add(f"last = Gather<axis=0>(forth, {net.constant('lastat', -1)}) y = Tanh(last)")
    return net.model()


@network
def flattened() -> ir.Model:
    """A feed-forward block that flattens rows for Gemm and stacks them again, all sizes but the last one open."""
    net = Net("float[N,S,8] x", "float[N,S,8] y", opset=13)
    first, second, ax = net.constant("first", 0), net.constant("second", 1), net.constant("ax", [0])
    for source, target, a, b in (("x", "h", 8, 16), ("r", "o", 16, 8)):
        net.add(f"{target}_s = Shape({source}) {target}_0 = Gather({target}_s, {first})")
        net.add(f"{target}_1 = Gather({target}_s, {second}) {target}_n = Unsqueeze({target}_0, {ax})")
        net.add(f"{target}_m = Unsqueeze({target}_1, {ax})")
        net.add(f"{target}_f = Reshape({source}, {net.constant(target + '_flat', [-1, a])})")
        weight, bias = net.weight(f"{target}_w", a, b), net.weight(f"{target}_c", b)
        net.add(f"{target}_g = Gemm({target}_f, {weight}, {bias})")
        net.add(f"{target}_t = Concat<axis=0>({target}_n, {target}_m, {net.constant(target + '_b', [b])})")
        net.add(f"{target} = Reshape({target}_g, {target}_t)")
        if target == "h":
            net.add("r = Relu(h)")
    net.add("y = Add(x, o)")
    return net.model()


@network
def voice() -> ir.Model:
    """Convolutions, a squeeze only where the size is one, and a recurrent layer that asks for the rank."""
    net = Net("float[N,4,T] x", "float[N,3] y", opset=16)
    one, two, ax, last = (net.constant(n, v) for n, v in (("one", 1), ("two", 2), ("ax", [0]), ("last", [-1])))
    weight = net.weight("w", 6, 4, 3)
    net.add(f"c = Conv<kernel_shape=[3], strides=[2], pads=[1,1]>(x, {weight}) r = Relu(c) s = Shape(r)")
    net.add(f"t = Gather(s, {last}) i = Equal(t, {net.constant('one_', [1])})")
    net.add(
        f"v = If(i)<then_branch=a () => (float[N,6] p) {{ p = Squeeze(r, {last}) }},"
        " else_branch=b () => (float[N,6,U] q) { q = Identity(r) }>"
    )
    net.add(f"rs = Shape(v) k = Size(rs) is = Equal(k, {two}) not = Not(is)")
    net.add(
        f"u = If(not)<then_branch=d () => (e) {{ e = Unsqueeze(v, {ax}) }},"
        " else_branch=f () => (g) { g = Identity(v) }>"
    )
    net.add(f"z = Unsqueeze(u, {ax})")
    net.add(f"o, h = GRU<hidden_size=3>(z, {net.weight('wg', 1, 9, 6)}, {net.weight('rg', 1, 9, 3)})")
    net.add(f"y = Squeeze(h, {ax}) unused = Add({one}, {two})")
    return net.model()


@network
def branches() -> ir.Model:
    """Conditions: one constant, one not; with work inside that can be simplified."""
    net = Net("float[2,3] x, bool c", "float[2,3] y")
    yes = net.constant("yes", True, np.bool_)
    net.add(
        f"k = If({yes})<then_branch=a () => (float[2,3] u) {{ u0 = Neg(x) u = Neg(u0) }},"
        " else_branch=b () => (float[2,3] v) { v = Abs(x) }>"
    )
    net.add(
        "y = If(c)<then_branch=d () => (float[2,3] r) { r0 = Identity(k) r1 = Transpose<perm=[0,1]>(r0) r = Relu(r1) },"
        " else_branch=e () => (float[2,3] s) { s0 = Relu(k) s1 = Relu(s0) s = Neg(s1) }>"
    )
    return net.model()


@network
def loop() -> ir.Model:
    """A loop with constants and identities in its body."""
    net = Net("float[3] x, int64 trips", "float[3] y, float[S,3] all")
    cond = net.constant("cond", True, np.bool_)
    net.add(
        f"y, all = Loop(trips, {cond}, x)<body=b (int64 i, bool go, float[3] s) => (bool again, float[3] t, float[3] o)"
        " { again = Identity(go) two = Constant<value_float=2.0>() three = Constant<value_float=3.0>()"
        " six = Mul(two, three) d = Div(s, six) n = Neg(d) m = Neg(n) t = Add(m, x) o = Identity(t) }>"
    )
    return net.model()


@network
def upsampler() -> ir.Model:
    """An encoder and decoder with skip connection: transposed convolution, resize, concatenation."""
    net = Net("float[1,4,8,8] x", "float[1,4,8,8] y")
    net.conv_bn_relu("x", "a", (4, 8), "pads=[1,1,1,1], strides=[2,2]")
    scales = net.constant("scales", [1, 1, 2, 2], np.float32)
    net.add(f'r = Resize<mode="nearest">(a, , {scales})')
    net.add(f"t = ConvTranspose<kernel_shape=[2,2], strides=[2,2]>(a, {net.weight('tw', 8, 4, 2, 2)})")
    parameters = ", ".join((net.positive("tg", 4), net.weight("tb", 4), net.weight("tm", 4), net.positive("tv", 4)))
    net.add(f"tbn = BatchNormalization(t, {parameters}) one = Concat<axis=1>(tbn) cat = Concat<axis=1>(one, r)")
    net.add(f"z = Conv<kernel_shape=[1,1]>(cat, {net.weight('zw', 4, 12, 1, 1)}) q = Add(z, x)")
    zero = net.constant("zero", 0.0, np.float32)
    net.add(f"y = Max(q, {zero})")
    return net.model()


@network
def perceptron() -> ir.Model:
    """Gemm, dropout with its mask unused, flatten, doubled casts and reshapes."""
    net = Net("float[4,2,3,2] x", "float[4,5] y")
    to = net.constant("to", [4, 12])
    net.add(f"f = Flatten(x) r = Reshape(f, {to}) r2 = Reshape(r, {to}) d = Cast<to=11>(r2) s = Cast<to=1>(d)")
    net.add(f"g = Gemm<transB=1>(s, {net.weight('w', 8, 12)}, {net.weight('b', 8)})")
    net.add("a = Relu(g) o, mask = Dropout(a)")
    net.linear("o", "z", 8, 5)
    net.add("z1 = Sub(z, zero) y = Identity(z1)")
    net.constant("zero", 0.0, np.float32)
    return net.model()
