"""Random quantized networks, and inputs for which many values are at or next to decision boundaries.

Scales are powers of two or any floats, for tensors or for channels; there are zero points, biases and batch
normalizations whose results are multiples of half a step, residual sums, pooling, and all rounding modes. Streamlining
can keep all of it exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import held

_HEAD = '<ir_version: 10, opset_import: ["": 17, "qonnx.custom_op.general": 2]>'
_DOMAIN = "qonnx.custom_op.general"
_MODES = ("ROUND", "ROUND", "ROUND", "FLOOR", "CEIL", "HALF_UP", "HALF_DOWN", "UP", "DOWN")
_SCALES = (0.1, 0.3, 1 / 3, 0.07, 0.15, 1.7)
_SIZE = 3


def tied_network(seed: int) -> ir.Model:
    """Return the network of a seed; its batch size is dynamic."""
    return _Network(np.random.default_rng((seed, 1))).model(image=seed % 2 == 1)


def tied_inputs(model: ir.Model, seed: int, amount: int) -> np.ndarray:
    """Return a batch of inputs: at decision boundaries of the first quantizer, next to them, or anywhere."""
    rng = np.random.default_rng((seed, 2))
    value = model.graph.inputs[0]
    shape = (amount, *(size for size in list(value.shape or ())[1:] if isinstance(size, int)))
    scale = float(held(model.graph.initializers["c1"]))
    halves = (rng.integers(-24, 25, shape) / 2 * scale).astype(np.float32)
    beside = np.nextafter(halves, np.where(rng.integers(2, size=shape), np.inf, -np.inf).astype(np.float32))
    anything = (rng.normal(size=shape) * 4 * scale).astype(np.float32)
    kind = rng.integers(4, size=shape)
    return np.where(kind < 2, halves, np.where(kind == 2, beside, anything)).astype(np.float32)


class _Network:
    """Writes the text of a network layer by layer; ``step`` is the approximate spacing of the last results."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.weights: list[str] = []
        self.count = 0
        self.is_dyadic = bool(rng.integers(2))
        self.step = 1.0

    def model(self, *, image: bool) -> ir.Model:
        rng = self.rng
        channels = int(rng.integers(2, 5))
        shape = [channels, _SIZE, _SIZE] if image else [channels + 3]
        scale = self._scale()
        value = self._quantized("x", scale, first=True)
        self.step, width = scale, shape[0]
        for _ in range(int(rng.integers(1, 3))):
            skipped = value if rng.integers(3) == 0 else None
            wanted = width if skipped else int(rng.integers(2, 6))
            value = self._convolved(value, width, wanted) if image else self._multiplied(value, width, wanted)
            width = wanted
            pools = image and rng.integers(3) == 0
            if rng.integers(2):
                value = self._normalized(value, width, falls=not pools)
            if pools:
                value = self._node(f"MaxPool <kernel_shape = [2, 2], strides = [1, 1], pads = [0, 0, 1, 1]> ({value})")
            positive = bool(rng.integers(2))
            if positive:
                value = self._node(f"Relu ({value})")
            elif rng.integers(3) == 0:
                low, high = self._constant(np.array(-2.5)), self._constant(np.array(3.25))
                value = self._node(f"Clip ({value}, {low}, {high})")
            scale = float(np.float32(self.step * float(rng.choice([1, 2, 2, 3, 4, 6]))))
            value = self._quantized(value, scale, positive=positive)
            if skipped is not None:
                other = self._quantized(skipped, scale)
                value = self._quantized(self._node(f"Add ({value}, {other})"), float(np.float32(2 * scale)))
                scale = float(np.float32(2 * scale))
            self.step = scale
            if image and rng.integers(4) == 0:
                value = self._node(
                    f"AveragePool <kernel_shape = [2, 2], strides = [1, 1], pads = [0, 0, 1, 1]> ({value})"
                )
                value = self._quantized(value, scale)
        if image:
            value = self._node(f"GlobalAveragePool ({value})") if rng.integers(2) else value
            value = self._node(f"Flatten ({self._quantized(value, self.step)})")
        inner = "N, " + ", ".join(map(str, shape))
        text = f"{_HEAD} g (float[{inner}] x) => (float[N, M] y)"
        self.lines.append(f"y = Identity ({value})")
        return ir.from_onnx_text(f"{text} <{', '.join(self.weights)}> {{ {' '.join(self.lines)} }}")

    def _scale(self) -> float:
        if self.is_dyadic:
            return float(2.0 ** self.rng.integers(-4, 1))
        return float(np.float32(self.rng.choice(_SCALES)))

    def _constant(self, array: np.ndarray) -> str:
        self.count += 1
        shape = f"[{','.join(map(str, array.shape))}]" if array.ndim else ""
        floats: list[float] = array.astype(np.float32).reshape(-1).tolist()
        numbers = ", ".join(map(repr, floats))
        self.weights.append(f"float{shape} c{self.count} = {{{numbers}}}")
        return f"c{self.count}"

    def _node(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"v{self.count} = {text}")
        return f"v{self.count}"

    def _quantized(self, value: str, scale: float, *, first: bool = False, positive: bool = False) -> str:
        rng = self.rng
        mode, signed, narrow = str(rng.choice(_MODES)), int(rng.integers(3) > 0), int(rng.integers(4) == 0)
        bits = int(rng.integers(2, 6))
        zero = 0.0 if signed or (positive and rng.integers(2)) else float(rng.integers(1, (1 << (bits - 1)) + 1))
        number = self._constant(np.array(scale))
        if not first and not positive and rng.integers(8) == 0:
            return self._node(f"{_DOMAIN}.BipolarQuant ({value}, {number})")
        parameters = f"{number}, {self._constant(np.array(zero))}, {self._constant(np.array(float(bits)))}"
        attributes = f'<signed: int = {signed}, narrow: int = {narrow}, rounding_mode: string = "{mode}">'
        return self._node(f"{_DOMAIN}.Quant {attributes} ({value}, {parameters})")

    def _parameters(self, shape: Sequence[int], *, channel: int) -> tuple[str, np.ndarray]:
        """Make quantized weights, some at decision boundaries; return them with one scale, or one per channel."""
        rng = self.rng
        scales = (
            np.array([self._scale() for _ in range(shape[channel])]) if rng.integers(2) else np.array(self._scale())
        )
        spread = [-1 if axis == channel and scales.ndim else 1 for axis in range(len(shape))]
        laid = scales.reshape(spread) if scales.ndim else scales
        drawn = np.where(rng.integers(3, size=shape) == 0, rng.integers(-7, 8, shape) / 2, rng.normal(size=shape) * 2)
        weights = self._constant(drawn * laid)
        given = f"{self._constant(laid)}, {self._constant(np.array(0.0))}, {self._constant(np.array(4.0))}"
        attributes = '<signed: int = 1, narrow: int = 1, rounding_mode: string = "ROUND">'
        return self._node(f"{_DOMAIN}.Quant {attributes} ({weights}, {given})"), scales

    def _bias(self, width: int, scales: np.ndarray) -> np.ndarray:
        """Draw multiples of half a step, for all or for each channel."""
        return self.rng.integers(-8, 9, width) / 2 * self.step * scales

    def _multiplied(self, value: str, width: int, wanted: int) -> str:
        weights, scales = self._parameters([width, wanted], channel=1)
        if self.rng.integers(2):
            bias = self._constant(self._bias(wanted, scales))
            value = self._node(f"Gemm ({value}, {weights}, {bias})")
        else:
            value = self._node(f"MatMul ({value}, {weights})")
        self.step *= float(scales.reshape(-1)[0])
        return value

    def _convolved(self, value: str, width: int, wanted: int) -> str:
        weights, scales = self._parameters([wanted, width, 3, 3], channel=0)
        bias = f", {self._constant(self._bias(wanted, scales))}" if self.rng.integers(2) else ""
        value = self._node(f"Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({value}, {weights}{bias})")
        self.step *= float(scales.reshape(-1)[0])
        return value

    def _normalized(self, value: str, width: int, *, falls: bool) -> str:
        """Normalize, with rational roots half of the time, and with means that sums can equal exactly."""
        rng = self.rng
        epsilon = float(np.float32(2.0**-10))
        roots = rng.choice([0.5, 1.0, 2.0], width) if rng.integers(2) else rng.uniform(0.3, 3, width)
        variance = roots**2 - epsilon
        gamma = rng.choice([1.0, 0.5, -1.0 if falls else 2.0, 0.75], width)
        mean, beta = rng.integers(-6, 7, width) * self.step, rng.integers(-6, 7, width) / 2 * self.step
        given = ", ".join(self._constant(array) for array in (gamma, beta, mean, variance))
        return self._node(f"BatchNormalization <epsilon = {epsilon!r}> ({value}, {given})")
