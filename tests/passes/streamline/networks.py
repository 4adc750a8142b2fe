"""Small quantized networks at random."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from hypothesis import strategies as st

from tests.passes.streamline.tools import DOMAIN, network, quant

_IMAGE = (2, 4, 6, 6)
_VECTOR = (2, 6)
Shape = tuple[int, ...]


@dataclass
class Plan:
    """A network in the making: its text, its constants, and the values that a layer can use."""

    draw: st.DrawFn
    dyadic: bool
    random: np.random.Generator
    text: list[str] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    last: str = "x"

    def name(self, wish: str) -> str:
        """Return a name of its own."""
        return f"{wish}{len(self.text)}_{len(self.constants)}"

    def constant(self, wish: str, array: np.ndarray) -> str:
        """Add a constant."""
        name = self.name(wish)
        self.constants[name] = np.asarray(array, np.float32)
        return name

    def integers(self, wish: str, numbers: list[int]) -> str:
        """Add a constant of integers, for axes and sizes."""
        name = self.name(wish)
        self.constants[name] = np.array(numbers)
        return name

    def say(self, expression: str, shape: Shape | None = None) -> str:
        """Add a node behind the last one, or behind others that it names itself."""
        result = self.name("v")
        self.text.append(f"{result} = {expression}")
        self.shapes[result] = self.shapes[self.last] if shape is None else shape
        self.last = result
        return result

    @property
    def shape(self) -> Shape:
        """Return the shape of the last value."""
        return self.shapes[self.last]

    def number(self, *shape: int) -> np.ndarray:
        """Return numbers around 1: powers of two, or any."""
        if self.dyadic:
            return 2.0 ** self.random.integers(-2, 2, shape)
        return self.random.uniform(0.2, 2.0, shape)

    def offset(self, *shape: int) -> np.ndarray:
        """Return numbers around 0: multiples of a small power of two, or any."""
        return self.random.integers(-8, 9, shape) / 8 if self.dyadic else self.random.normal(0, 1, shape)

    def along_channels(self, array: np.ndarray) -> np.ndarray:
        """Give numbers for each channel the rank of the last value."""
        return array.reshape((1, -1) + (1,) * (len(self.shape) - 2))


def quantize(plan: Plan) -> None:
    """Quantize what was computed."""
    each = plan.draw(st.booleans()) and len(plan.shape) > 2
    scale = plan.along_channels(plan.number(plan.shape[1])) if each else plan.number()
    bits, signed = plan.draw(st.sampled_from([2, 3, 4])), plan.draw(st.integers(0, 1))
    zero = plan.constant("z", np.float32(0 if signed else plan.draw(st.sampled_from([0, 0, 2]))))
    if plan.draw(st.integers(0, 7)) == 0:
        plan.say(f"{DOMAIN}.BipolarQuant({plan.last}, {plan.constant('s', scale / 2)})")
    else:
        plan.say(quant(plan.last, plan.constant("s", scale / 2), bits, zero=zero, signed=signed))


def weights(plan: Plan, *shape: int, channel: int) -> str:
    """Make quantized weights, of one scale or of one for each output channel."""
    sizes = [1] * len(shape)
    if plan.draw(st.booleans()):
        sizes[channel] = shape[channel]
    scale = plan.constant("t", plan.number(*sizes) / 2)
    w = plan.constant("w", plan.random.normal(0, 1, shape))
    name = plan.name("q")
    plan.text.append(f"{name} = {quant(w, scale, plan.draw(st.sampled_from([2, 3])), narrow=1)}")
    return name


def product(plan: Plan) -> None:
    """Convolve images, multiply vectors."""
    if len(plan.shape) == 2:
        columns = plan.draw(st.sampled_from([3, 6]))
        w = weights(plan, plan.shape[1], columns, channel=1)
        plan.say(f"MatMul({plan.last}, {w})", (plan.shape[0], columns))
        return
    batch, channels, height, width = plan.shape
    size = plan.draw(st.sampled_from([1, 3])) if height >= 3 else 1
    pad = plan.draw(st.integers(0, size // 2))
    group = plan.draw(st.sampled_from([1, 1, channels]))
    w = weights(plan, channels, channels // group, size, size, channel=0)
    bias = f", {plan.constant('c', plan.offset(channels))}" if plan.draw(st.booleans()) else ""
    lost = size - 1 - 2 * pad
    attributes = f"kernel_shape=[{size},{size}], pads=[{pad},{pad},{pad},{pad}], group={group}"
    plan.say(f"Conv<{attributes}>({plan.last}, {w}{bias})", (batch, channels, height - lost, width - lost))


def normalize(plan: Plan) -> None:
    """Multiply and add by channel; some channels are turned around."""
    channels = plan.shape[1]
    gamma = plan.number(channels) * plan.random.choice([-1, 1, 1], channels)
    names = [plan.constant("n", array) for array in (gamma, plan.offset(channels), plan.offset(channels))]
    variance = plan.constant("n", np.ones(channels))
    plan.say(f"BatchNormalization<epsilon=0.0>({plan.last}, {', '.join(names)}, {variance})")


def activate(plan: Plan) -> None:
    """Let nothing be negative."""
    plan.say(f"Relu({plan.last})")


def shift(plan: Plan) -> None:
    """Add numbers by channel."""
    plan.say(f"Add({plan.last}, {plan.constant('b', plan.along_channels(plan.offset(plan.shape[1])))})")


def multiply(plan: Plan) -> None:
    """Multiply with a number."""
    plan.say(f"Mul({plan.last}, {plan.constant('f', plan.number() * plan.random.choice([-1, 1]))})")


def join(plan: Plan) -> None:
    """Add, multiply or join something of the same shape, quantized alike or not."""
    others = [name for name, shape in plan.shapes.items() if shape == plan.shape and name != plan.last and name != "x"]
    other = plan.draw(st.sampled_from(others or [plan.last]))
    if plan.draw(st.booleans()):
        scale = plan.constant("s", plan.number())
        first = plan.say(quant(plan.last, scale))
        plan.shapes[other] = plan.shape
        other = plan.say(quant(other, scale, 3))
        plan.last = first
    operator = plan.draw(st.sampled_from(["Add", "Add", "Concat<axis=1>", "Mul"]))
    shape = (plan.shape[0], 2 * plan.shape[1], *plan.shape[2:]) if "Concat" in operator else plan.shape
    plan.say(f"{operator}({plan.last}, {other})", shape)


def pool(plan: Plan) -> None:
    """Take maxima or averages of windows, or of all."""
    if len(plan.shape) == 2 or plan.shape[2] < 2:
        return
    batch, channels, height, width = plan.shape
    kind = plan.draw(st.sampled_from(["MaxPool", "AveragePool", "GlobalAveragePool"]))
    if kind.startswith("Global"):
        if plan.dyadic and height * width not in (1, 4, 16):
            return
        plan.say(f"{kind}({plan.last})", (batch, channels, 1, 1))
    else:
        shape = (batch, channels, height // 2, width // 2)
        plan.say(f"{kind}<kernel_shape=[2,2], strides=[2,2]>({plan.last})", shape)


def move(plan: Plan) -> None:
    """Take an image apart into a vector, pad it, enlarge it, or keep half of its channels."""
    if len(plan.shape) == 2:
        return
    batch, channels, height, width = plan.shape
    match plan.draw(st.sampled_from(["Flatten", "Pad", "Resize", "Split"])):
        case "Flatten":
            plan.say(f"Flatten({plan.last})", (batch, channels * height * width))
        case "Pad":
            pads = plan.integers("p", [0, 0, 1, 0, 0, 0, 0, 1])
            plan.say(f"Pad({plan.last}, {pads})", (batch, channels, height + 1, width + 1))
        case "Resize" if height * width < 40:
            factors = plan.constant("f", np.array([1, 1, 2, 2]))
            plan.say(f'Resize<mode="nearest">({plan.last}, , {factors})', (batch, channels, 2 * height, 2 * width))
        case "Split" if channels % 2 == 0:
            first, second = plan.name("a"), plan.name("b")
            plan.text.append(f"{first}, {second} = Split<axis=1, num_outputs=2>({plan.last})")
            plan.shapes |= dict.fromkeys((first, second), (batch, channels // 2, height, width))
            plan.last = first
        case _:
            pass


LAYERS = (product, quantize, quantize, normalize, activate, shift, multiply, join, pool, move)


@st.composite
def networks(draw: st.DrawFn, *, dyadic: bool) -> ir.Model:
    """Draw a network: of images or vectors, with scales that are powers of two, or any."""
    plan = Plan(draw, dyadic, np.random.default_rng(draw(st.integers(0, 1000))))
    plan.shapes["x"] = draw(st.sampled_from([_IMAGE, _VECTOR]))
    sizes = ",".join(map(str, plan.shapes["x"]))
    quantize(plan)
    for layer in draw(st.lists(st.sampled_from(LAYERS), min_size=2, max_size=9)):
        layer(plan)
    y = ",".join(map(str, plan.shape))
    plan.text.append(f"y = Identity({plan.last})")
    return network(" ".join(plan.text), f"float[{sizes}] x", f"float[{y}] y", **plan.constants)
