"""Models with tails, and their results for every integer, or for floats next to each threshold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.verify.run.execute import Executor
from tests.passes.tools import apply, model_of

DOMAINS = '"qonnx.custom_op.general": 1, "onnx_passes": 1'
QUANT = "qonnx.custom_op.general.Quant"
MT = "qonnx.custom_op.general.MultiThreshold"
WEIGHTED = "onnx_passes.MultiThreshold"
Constants = Mapping[str, object]


def constants_text(constants: Constants) -> str:
    """Write arrays as initializers in ONNX text."""
    parts: list[str] = []
    for name, number in constants.items():
        array = np.asarray(number, np.float32)
        dims = "" if array.ndim == 0 else f"[{','.join(map(str, array.shape))}]"
        parts.append(f"float{dims} {name} = {{{', '.join(repr(float(v)) for v in array.reshape(-1))}}}")
    return ", ".join(parts)


def make(
    body: str,
    constants: Constants | None = None,
    *,
    shape: str = "N,4",
    datatype: str | None = "INT6",
    opset: int = 20,
    result: str | None = None,
) -> ir.Model:
    """Make a model of q, of some shape and data type, and y; types and shapes are inferred."""
    held = constants_text(constants or {})
    model = model_of(
        f"g (float[{shape}] q) => (float[{result or shape}] y) <{held}> {{ {body} }}", opset=opset, domains=DOMAINS
    )
    if datatype:
        set_datatype(model.graph.inputs[0], datatype)
    ShapeInference()(model)
    return model


def quantized(
    tail: str,
    constants: Constants | None = None,
    *,
    bits: float = 3,
    signed: int = 1,
    narrow: int = 0,
    rounding: str = "ROUND",
    **options: object,
) -> ir.Model:
    """Make a model of a tail from q to t, and a quantizer of t."""
    quant = f'y = {QUANT} <signed: int = {signed}, narrow: int = {narrow}, rounding_mode: string = "{rounding}">'
    held = {"one": 1, "zero": 0, "bits": bits, **(constants or {})}
    return make(f"{tail} {quant} (t, one, zero, bits)", held, **options)  # pyright: ignore[reportArgumentType]


def results(model: ir.Model, q: np.ndarray) -> np.ndarray:
    """Run a model in ONNX Runtime."""
    return Executor().prepare(model, engine="onnxruntime").run({"q": q.astype(np.float32)})["y"]


def grid(low: int, high: int, *shape: int) -> np.ndarray:
    """Return all integers of a range, each for all elements of a shape, along the first axis."""
    numbers = np.arange(low, high + 1, dtype=np.float32).reshape(-1, *(1,) * len(shape))
    return np.broadcast_to(numbers, (len(numbers), *shape)).copy()


def thresholds(model: ir.Model) -> np.ndarray:
    """Return the thresholds of the only node that has some."""
    (node,) = [node for node in model.graph if node.op_type == "MultiThreshold"]
    array = constant(node.inputs[1])
    assert array is not None
    return array


def neighbours(numbers: np.ndarray, amount: int = 8) -> np.ndarray:
    """Return finite floats next to given ones, in order."""
    found = numbers.astype(np.float32).reshape(-1)
    found = found[np.abs(found) < 1e38]
    all_ = [found]
    up = down = found
    for _ in range(amount):
        up, down = np.nextafter(up, np.float32(np.inf)), np.nextafter(down, np.float32(-np.inf))
        all_ += [up, down]
    together = np.unique(np.concatenate(all_))
    return together[np.isfinite(together)]


def check_integers(pass_: object, model: ir.Model, low: int, high: int, *shape: int) -> ir.Model:
    """Apply a pass, which must change something and nothing for any integer of a range."""
    q = grid(low, high, *shape)
    expected = results(model, q)
    assert apply(pass_, model)  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(results(model, q), expected)
    return model
