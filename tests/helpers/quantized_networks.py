"""Small quantized networks as Brevitas, QKeras and the QONNX model zoo write them, with weights from a fixed seed.

Each is written in QONNX (Quant, BipolarQuant, Trunc), and where QuantizeLinear has words for it also as
QuantizeLinear, Clip and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

from tests.helpers.networks import Net

GENERAL = "qonnx.custom_op.general"
Build = Callable[["QuantizedNet"], None]


@dataclass
class QuantizedNet(Net):
    """Writes quantizers in one of two dialects, and layers between them."""

    dialect: str = "qonnx"
    version: int = 1
    """Of the domain of QONNX's operators."""

    def quantize(
        self, x: str, y: str, bits: int, scale: float | np.ndarray, *, signed: int = 1, narrow: int = 0, zero: int = 0
    ) -> str:
        """Quantize a value; levels of the other dialect lie in eight bits, within bounds."""
        s = self.constant(f"{y}_scale", scale, np.float32)
        if self.dialect == "qonnx":
            z, b = self.constant(f"{y}_zero", zero, np.float32), self.constant(f"{y}_bits", bits, np.float32)
            self.add(f"{y} = {GENERAL}.Quant<signed={signed}, narrow={narrow}>({x}, {s}, {z}, {b})")
            return y
        levels = np.int8 if signed else np.uint8
        z = self.constant(f"{y}_zero", np.full(np.shape(np.ravel(scale)) if np.ndim(scale) else (), zero), levels)
        if np.ndim(scale):
            self.weights[s] = np.ravel(self.weights[s])
        low = (-(2 ** (bits - 1)) + narrow) if signed else 0
        high = 2 ** (bits - signed) - 1 - (narrow if not signed else 0)
        axis = "<axis=0>" if np.ndim(scale) else ""
        self.add(f"{y}_levels = QuantizeLinear{axis}({x}, {s}, {z})")
        bounds = self.constant(f"{y}_low", low, levels), self.constant(f"{y}_high", high, levels)
        self.add(f"{y}_held = Clip({y}_levels, {', '.join(bounds)})")
        self.add(f"{y} = DequantizeLinear{axis}({y}_held, {s}, {z})")
        return y

    def bipolar(self, x: str, y: str, scale: float = 1.0) -> str:
        self.add(f"{y} = {GENERAL}.BipolarQuant({x}, {self.constant(f'{y}_scale', scale, np.float32)})")
        return y

    def weights_of(self, y: str, *shape: int, bits: int, each: bool = False) -> str:
        """Add quantized weights, with a scale for all of them or for each row."""
        w = self.weight(f"{y}_w", *shape)
        if bits == 1:
            return self.bipolar(w, f"{y}_wq", 0.25)
        largest = np.abs(self.weights[w]).max(axis=tuple(range(1, len(shape))), keepdims=True)
        scale = (largest if each else largest.max()) / max(2 ** (bits - 1) - 1, 1)
        return self.quantize(w, f"{y}_wq", bits, scale.astype(np.float32), narrow=1)

    def act(self, x: str, y: str, bits: int, *, signed: int = 0, scale: float | None = None) -> str:
        """Quantize what was computed, around one in size: of two levels, signed, or not negative."""
        if bits == 1:
            return self.bipolar(x, y)
        return self.quantize(x, y, bits, scale or self.rng.uniform(2.3, 2.5) / 2 ** (bits - signed), signed=signed)

    def norm(self, x: str, y: str, channels: int, fan_in: int = 8) -> str:
        """Normalize sums of so many products to a size around one."""
        g, b, m = self.positive(f"{y}_g", channels), self.weight(f"{y}_b", channels), self.weight(f"{y}_m", channels)
        self.weights[f"{y}_v"] = (0.05 * fan_in * self.rng.uniform(0.5, 1.5, channels)).astype(np.float32)
        self.add(f"{y} = BatchNormalization({x}, {g}, {b}, {m}, {y}_v)")
        return y

    def dense(self, x: str, y: str, a: int, b: int, *, bits: int) -> str:
        """Multiply by transposed weights, as PyTorch stores them."""
        w = self.weights_of(y, b, a, bits=bits)
        self.add(f"{y}_t = Transpose<perm=[1,0]>({w}) {y} = MatMul({x}, {y}_t)")
        return y

    def conv(
        self, x: str, y: str, sizes: tuple[int, int, int], *, bits: int, groups: int = 1, pad: int = 0, stride: int = 1
    ) -> str:
        """Convolve by weights with a scale for each channel, with all attributes that exporters write."""
        a, b, k = sizes
        w = self.weights_of(y, b, a // groups, k, k, bits=bits, each=True)
        self.add(f"{y} = Conv<{self.window(k, pad, stride)}, group={groups}>({x}, {w})")
        return y

    @staticmethod
    def window(kernel: int, pad: int = 0, stride: int = 1) -> str:
        pads = f"pads=[{pad},{pad},{pad},{pad}]"
        return f"kernel_shape=[{kernel},{kernel}], {pads}, strides=[{stride},{stride}], dilations=[1,1]"

    def block(
        self, x: str, y: str, sizes: tuple[int, int, int], bits: int, *, groups: int = 1, scale: float | None = None
    ) -> str:
        """Convolve, normalize, keep what is positive, quantize."""
        c = self.conv(x, f"{y}_c", sizes, bits=bits, groups=groups, pad=sizes[2] // 2)
        n = self.norm(c, f"{y}_n", sizes[1], sizes[0] // groups * sizes[2] ** 2)
        self.add(f"{y}_r = Relu({n})")
        return self.act(f"{y}_r", y, bits, scale=scale)

    def flat(self, x: str, y: str, size: int) -> str:
        self.add(f"{y} = Reshape({x}, {self.constant(f'{y}_to', [1, size])})")
        return y

    def proto(self) -> onnx.ModelProto:
        imports = f'"": {self.opset}' + (f', "{GENERAL}": {self.version}' if self.dialect == "qonnx" else "")
        body = "\n".join(self.lines)
        text = f"<ir_version: 8, opset_import: [{imports}]> net ({self.inputs}) => ({self.outputs}) {{ {body} }}"
        made = onnx.parser.parse_model(text)
        made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in self.weights.items())
        return made


def tfc(net: QuantizedNet, weights: int, acts: int) -> None:
    """Fully connected layers on an image, its pixels brought to −1 … 1."""
    net.add(f"f = Reshape(x, {net.constant('to', [1, 36])}) two = Mul(f, {net.constant('c2', 2.0, np.float32)})")
    net.add(f"z = Sub(two, {net.constant('c1', 1.0, np.float32)})")
    last = net.act("z", "q0", acts, signed=1)
    for layer, (a, b) in enumerate(((36, 12), (12, 12), (12, 12)), 1):
        n = net.norm(net.dense(last, f"d{layer}", a, b, bits=weights), f"n{layer}", b, a)
        last = net.act(n, f"q{layer}", acts, signed=1)
    net.add(f"y = Mul({net.dense(last, 'd4', 12, 5, bits=weights)}, {net.constant('out', 0.37, np.float32)})")


def keywords(net: QuantizedNet) -> None:
    """Fully connected layers with Relu, of three bits, on what a front end made of sound."""
    last = net.flat(net.act("x", "q0", 8, signed=1), "f", 24)
    for layer, (a, b) in enumerate(((24, 12), (12, 10)), 1):
        net.add(f"r{layer} = Relu({net.norm(net.dense(last, f'd{layer}', a, b, bits=3), f'n{layer}', b, a)})")
        last = net.act(f"r{layer}", f"q{layer}", 3)
    net.add(f"y = Identity({net.dense(last, 'd3', 10, 4, bits=3)})")


def fixed_point(net: QuantizedNet) -> None:
    """Fixed-point weights and biases as QKeras has them, steps that are powers of two, a first product of floats."""
    last = "x"
    for layer, (a, b) in enumerate(((16, 12), (12, 8), (8, 5)), 1):
        w = net.quantize(net.weight(f"w{layer}", a, b), f"wq{layer}", 6, 2.0**-4, narrow=0)
        bias = net.quantize(net.weight(f"b{layer}", b), f"bq{layer}", 6, 2.0**-4)
        net.add(f"m{layer} = MatMul({last}, {w}) a{layer} = Add(m{layer}, {bias})")
        if layer < 3:
            net.add(f"r{layer} = Relu(a{layer})")
            last = net.act(f"r{layer}", f"q{layer}", 6, scale=2.0**-4)
    net.add("y = Softmax<axis=-1>(a3)")


def pruned(net: QuantizedNet) -> None:
    """A hidden layer of twelve units, of which seven are read."""
    hidden = net.norm(net.dense(net.act("x", "q0", 4, signed=1), "d1", 16, 12, bits=4), "n1", 12, 16)
    net.add(f"r1 = Relu({hidden})")
    last = net.dense(net.act("r1", "q1", 4), "d2", 12, 5, bits=4)
    net.weights["d2_w"][:, ::2][:, :5] = 0
    net.add(f"y = Identity({last})")


def gemm(net: QuantizedNet) -> None:
    """Layers with a quantized bias and without normalization."""
    last = net.act("x", "q0", 4, signed=1)
    for layer, (a, b) in enumerate(((16, 12), (12, 6)), 1):
        w = net.weights_of(f"g{layer}", b, a, bits=2)
        bias = net.quantize(net.weight(f"b{layer}", b), f"bq{layer}", 8, 0.02)
        net.add(f"g{layer} = Gemm<transB=1>({last}, {w}, {bias})")
        if layer == 1:
            net.add("r1 = Relu(g1)")
            last = net.act("r1", "q1", 2)
    net.add("y = Identity(g2)")


def cnv(net: QuantizedNet) -> None:
    """Convolutions without padding, pooled twice, and fully connected layers."""
    last = net.act("x", "q0", 8, signed=1, scale=2.0**-5)
    for layer, (a, b) in enumerate(((3, 6), (6, 8)), 1):
        c = net.conv(last, f"c{layer}", (a, b, 3), bits=2)
        last = net.act(net.norm(c, f"n{layer}", b, 9 * a), f"q{layer}", 2, signed=1)
        net.add(f"p{layer} = MaxPool<kernel_shape=[2,2], strides=[2,2]>({last})")
        last = f"p{layer}"
    n = net.norm(net.dense(net.flat(last, "f", 32), "d1", 32, 10, bits=2), "n3", 10, 32)
    net.add(f"y = Identity({net.dense(net.act(n, 'q3', 2, signed=1), 'd2', 10, 4, bits=2)})")


def separable(net: QuantizedNet) -> None:
    """Depthwise and pointwise convolutions, and an average over all pixels."""
    last = net.block(net.act("x", "q0", 8), "b0", (1, 6, 3), 4)
    last = net.block(last, "b1", (6, 6, 3), 4, groups=6)
    last = net.block(last, "b2", (6, 8, 1), 4)
    net.add(f"g = GlobalAveragePool({last})")
    net.add(f"y = Identity({net.dense(net.flat(net.act('g', 'gq', 8), 'f', 8), 'd', 8, 4, bits=4)})")


def residual(net: QuantizedNet) -> None:
    """Blocks whose sums have one quantizer on both sides, and a shorter way through a convolution of its own."""
    last = net.block(net.act("x", "q0", 8), "b0", (1, 6, 3), 4)
    a = net.norm(net.conv(last, "c1", (6, 6, 3), bits=4, pad=1), "n1", 6, 54)
    net.add(f"s1 = Add({net.act(a, 'l1', 4, signed=1, scale=0.15)}, {net.act(last, 'h1', 4, signed=1, scale=0.15)})")
    net.add("r1 = Relu(s1)")
    last = net.act("r1", "q1", 4)
    a = net.norm(net.conv(last, "c2", (6, 8, 3), bits=4, pad=1, stride=2), "n2", 8, 54)
    h = net.norm(net.conv(last, "h2c", (6, 8, 1), bits=4, stride=2), "h2n", 8, 6)
    net.add(f"s2 = Add({net.act(a, 'l2', 4, signed=1, scale=0.2)}, {net.act(h, 'h2', 4, signed=1, scale=0.2)})")
    net.add("r2 = Relu(s2)")
    net.add(f"g = GlobalAveragePool({net.act('r2', 'q2', 4)})")
    net.add(f"y = Identity({net.dense(net.flat(net.act('g', 'gq', 8), 'f', 8), 'd', 8, 4, bits=4)})")


def inception(net: QuantizedNet) -> None:
    """Branches of several kernels, joined along the channels with one scale."""
    last = net.act("x", "q0", 8, signed=1, scale=2.0**-5)
    branches = [net.block(last, f"b{k}", (3, 4, k), 4, scale=0.15) for k in (1, 3)]
    net.add(f"p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[1,1]>({last})")
    branches.append(net.block("p", "bp", (3, 4, 1), 4, scale=0.15))
    net.weights["bp_n_b"] += 1  # what is positive survives Relu
    net.add(f"j = Concat<axis=1>({', '.join(branches)})")
    last = net.block("j", "b", (12, 4, 1), 4)
    net.add(f"y = Identity({net.conv(last, 'c', (4, 2, 1), bits=4)})")


def unet(net: QuantizedNet) -> None:
    """Down and up again: a transposed convolution beside a skip connection, a Sigmoid at the end."""
    a = net.block(net.act("x", "q0", 8, signed=1, scale=2.0**-5), "a", (3, 4, 3), 4, scale=0.15)
    net.add(f"p = MaxPool<kernel_shape=[2,2], strides=[2,2]>({a})")
    b = net.block("p", "b", (4, 6, 3), 4)
    w = net.weights_of("t", 6, 4, 2, 2, bits=4)
    net.add(f"t = ConvTranspose<kernel_shape=[2,2], strides=[2,2]>({b}, {w})")
    net.add(f"u0 = Relu({net.norm('t', 'tn', 4, 6)})")
    net.add(f"j = Concat<axis=1>({net.act('u0', 'u', 4, scale=0.15)}, {a})")
    net.add(f"y = Sigmoid({net.conv(net.block('j', 'k', (8, 4, 3), 4), 'last', (4, 1, 1), bits=4)})")


def upsampled(net: QuantizedNet) -> None:
    """Pixels repeated between quantizers."""
    last = net.block(net.act("x", "q0", 8, signed=1, scale=2.0**-5), "a", (3, 4, 3), 4)
    scales = net.constant("scales", [1, 1, 2, 2], np.float32)
    how = 'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"'
    net.add(f"u = Resize<{how}>({last}, , {scales})")
    net.add(f"y = Identity({net.conv(net.act('u', 'uq', 4), 'c', (4, 2, 3), bits=4, pad=1)})")


def zero_points(net: QuantizedNet) -> None:
    """Activations of eight bits whose zero is a level between others, in layers without padding."""
    last = net.quantize("x", "q0", 8, 0.016, signed=0, zero=117)
    n = net.norm(net.conv(last, "c1", (3, 6, 3), bits=8), "n1", 6, 27)
    last = net.quantize(n, "q1", 8, 0.02, signed=0, zero=91)
    net.add(f"y = Identity({net.dense(net.flat(last, 'f', 96), 'd', 96, 4, bits=8)})")


def biases(net: QuantizedNet) -> None:
    """Convolutions whose biases are integers in steps of the accumulator."""
    last = net.act("x", "q0", 8, signed=1, scale=2.0**-5)
    for layer, (a, b) in enumerate(((3, 6), (6, 8)), 1):
        w = net.weights_of(f"c{layer}", b, a, 3, 3, bits=4)
        step = float(net.weights[f"c{layer}_wq_scale"].ravel()[0]) * (2.0**-5 if layer == 1 else 0.15)
        bias = net.quantize(net.weight(f"b{layer}", b), f"bq{layer}", 16 if net.dialect == "qonnx" else 8, step)
        net.add(f"c{layer} = Conv<{net.window(3)}, group=1>({last}, {w}, {bias}) r{layer} = Relu(c{layer})")
        last = net.act(f"r{layer}", f"q{layer}", 4, scale=0.15)
    net.add(f"f = Flatten({last})")
    net.add(f"y = Identity({net.dense('f', 'd', 128, 4, bits=4)})")


def joined(net: QuantizedNet) -> None:
    """Sums and joins of branches that share a quantizer, and activations that are no Relu."""
    last = net.act("x", "q0", 8, signed=1)
    net.add(f"s = Sigmoid({net.norm(net.dense(last, 'd1', 12, 8, bits=4), 'n1', 8, 12)})")
    net.add(f"t = Tanh({net.norm(net.dense(last, 'd2', 12, 8, bits=4), 'n2', 8, 12)})")
    a, b = net.act("s", "sq", 4, signed=1, scale=0.14), net.act("t", "tq", 4, signed=1, scale=0.14)
    net.add(f"plus = Add({a}, {b})")
    net.add(f"j = Concat<axis=1>({net.act('plus', 'pq', 5, signed=1, scale=0.14)}, {a})")
    net.add(f"y = Identity({net.dense('j', 'd3', 16, 4, bits=4)})")


def normalized_input(net: QuantizedNet) -> None:
    """A normalization before a convolution gives each of its channels a scale of its own, some of them negative."""
    n = net.norm(net.act("x", "q0", 4, signed=1), "n0", 4)
    net.weights["n0_g"][::2] *= -1
    c = net.conv(n, "c1", (4, 6, 3), bits=4)
    net.add(f"y = Identity({net.conv(net.act(net.norm(c, 'n1', 6, 36), 'q1', 4, signed=1), 'c2', (6, 2, 1), bits=4)})")


def averaged(net: QuantizedNet) -> None:
    """An average of windows, cut off to fewer bits."""
    last = net.act(net.conv(net.act("x", "q0", 8), "c", (1, 6, 3), bits=4, pad=1), "b0", 4, scale=0.125)
    net.add(f"p = AveragePool<kernel_shape=[2,2], strides=[2,2]>({last})")
    numbers = {"ts": 2.0**-5, "tz": 0, "ti": 6, "os": 0.125, "ob": 4}
    given = [net.constant(name, value, np.float32) for name, value in numbers.items()]
    net.add(f't = {GENERAL}.Trunc<rounding_mode="FLOOR", signed=0, narrow=0>(p, {", ".join(given)})')
    net.add(f"y = MatMul({net.flat('t', 'f', 54)}, {net.quantize(net.weight('w', 54, 4), 'wq', 4, 0.125)})")


def transformer(net: QuantizedNet) -> None:
    """One block of attention of two heads and its feed-forward layers, on six tokens."""
    x = net.act("x", "x0", 8, signed=1)
    for part in "qkv":
        q = net.act(net.dense(x, f"{part}d", 8, 8, bits=4), f"{part}a", 4, signed=1)
        net.add(f"{part}r = Reshape({q}, {net.constant(f'{part}_to', [1, 6, 2, 4])})")
        net.add(f"{part}h = Transpose<perm=[{'0,2,3,1' if part == 'k' else '0,2,1,3'}]>({part}r)")
    net.add(f"qk = MatMul(qh, kh) sc = Mul(qk, {net.constant('root', 0.5, np.float32)}) p = Softmax<axis=-1>(sc)")
    net.add(f"o = MatMul({net.act('p', 'pq', 4, scale=0.06)}, vh) ot = Transpose<perm=[0,2,1,3]>(o)")
    net.add(f"oc = Reshape({net.act('ot', 'oq', 4, signed=1)}, {net.constant('join', [1, 6, 8])})")
    net.add(f"h = Add({net.act(net.dense('oc', 'od', 8, 8, bits=4), 'oa', 8, signed=1)}, {x})")
    net.add(f"r = Relu({net.dense(net.act('h', 'hq', 8, signed=1), 'f1', 8, 16, bits=4)})")
    net.add(f"y = Identity({net.dense(net.act('r', 'rq', 4), 'f2', 16, 8, bits=4)})")


_IMAGE = ("float[1,1,6,6] x", "float[1,4] y")
_PIXELS = "float[1,3,6,6] x"
NETWORKS: dict[str, tuple[str, str, Build]] = {
    "zoo/small_tfc_1w1a": ("float[1,1,6,6] x", "float[1,5] y", partial(tfc, weights=1, acts=1)),
    "zoo/small_tfc_1w2a": ("float[1,1,6,6] x", "float[1,5] y", partial(tfc, weights=1, acts=2)),
    "zoo/small_tfc_2w2a": ("float[1,1,6,6] x", "float[1,5] y", partial(tfc, weights=2, acts=2)),
    "zoo/small_keywords": ("float[1,1,4,6] x", "float[1,4] y", keywords),
    "zoo/small_fixed_point": ("float[1,16] x", "float[1,5] y", fixed_point),
    "zoo/small_pruned": ("float[1,16] x", "float[1,5] y", pruned),
    "brevitas/small_gemm": ("float[1,16] x", "float[1,6] y", gemm),
    "brevitas/small_gemm_dynamic": ("float[N,16] x", "float[N,6] y", gemm),
    "brevitas/small_cnv": ("float[1,3,14,14] x", "float[1,4] y", cnv),
    "brevitas/small_separable": (*_IMAGE, separable),
    "brevitas/small_residual": (*_IMAGE, residual),
    "brevitas/small_inception": (_PIXELS, "float[1,2,6,6] y", inception),
    "brevitas/small_unet": (_PIXELS, "float[1,1,6,6] y", unet),
    "brevitas/small_upsampled": (_PIXELS, "float[1,2,12,12] y", upsampled),
    "brevitas/small_zero_points": (_PIXELS, "float[1,4] y", zero_points),
    "brevitas/small_biases": ("float[1,3,8,8] x", "float[1,4] y", biases),
    "brevitas/small_joined": ("float[1,12] x", "float[1,4] y", joined),
    "brevitas/small_normalized_input": ("float[1,4,6,6] x", "float[1,2,4,4] y", normalized_input),
    "brevitas/small_averaged": (*_IMAGE, averaged),
    "brevitas/small_transformer": ("float[1,6,8] x", "float[1,6,8] y", transformer),
}
"""By folder and name: inputs, outputs, and the layers."""
ONLY_QONNX = {"zoo/small_tfc_1w1a", "zoo/small_tfc_1w2a", "brevitas/small_averaged"}
"""Networks of BipolarQuant or Trunc."""


def qonnx(name: str) -> onnx.ModelProto:
    inputs, outputs, layers = NETWORKS[name]
    net = QuantizedNet(inputs, outputs, opset=17, version=2 if name.startswith("brevitas/") else 1)
    layers(net)
    return net.proto()


def qcdq(name: str) -> onnx.ModelProto:
    inputs, outputs, layers = NETWORKS[name]
    net = QuantizedNet(inputs, outputs, opset=17, dialect="qcdq")
    layers(net)
    return net.proto()
