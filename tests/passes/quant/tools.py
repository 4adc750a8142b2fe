"""Apply passes to quantized models in ONNX text, verified, and compare what they compute."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

import onnx_passes
from onnx_passes.api import Result
from onnx_passes.graph.constants import constant
from onnx_passes.verify.run.execute import Executor
from tests.passes.tools import check

DOMAINS = ("com.microsoft", "qonnx.custom_op.general", "onnx.brevitas")


class Quantizer(NamedTuple):
    """What a Quant is given, and what it was given to quantize."""

    bits: int
    signed: bool
    narrow: bool
    scale: Any
    zero: Any
    rounding: str


def model_of(graph: str, opset: int = 21) -> ir.Model:
    """Parse a graph in ONNX text, of a model with all domains of quantizers."""
    imports = ", ".join(f'"{domain}" : 1' for domain in DOMAINS)
    version = 13 if opset > 23 else 10 if opset > 20 else 8
    return ir.from_onnx_text(f'<ir_version: {version}, opset_import: ["" : {opset}, {imports}]> {graph}')


def quantized(
    parameters: str, body: str, x: str = "float[N,3] x", y: str = "float[N,3] y", opset: int = 21
) -> ir.Model:
    """Make a model of a value, constants and nodes."""
    return model_of(f"g ({x}) => ({y}) <{parameters}> {{ {body} }}", opset)


def with_constant(model: ir.Model, name: str, numbers: list[int], dtype: ir.DataType) -> ir.Model:
    """Give a constant narrow integers, which ONNX text cannot write."""
    value = model.graph.initializers[name]
    value.const_value = ir.Tensor(np.array(numbers).astype(dtype.numpy()), dtype=dtype)
    value.dtype = dtype
    return model


def applied(pipeline: str, model: ir.Model) -> ir.Model:
    """Apply passes; ONNX Runtime must confirm what the last one did."""
    result = onnx_passes.apply(model, pipeline)
    last = result.steps[-1]
    assert last.modified, [dict(rule.refused) for rule in last.rules]
    assert last.evidence is not None
    assert last.evidence.samples, last.evidence
    check(result.model)
    return result.model


def reasons(pipeline: str, model: ir.Model) -> str:
    """Return why the rules of the last pass refused; it may have changed nothing."""
    result = onnx_passes.apply(model, pipeline)
    assert not result.steps[-1].modified
    return reasons_in(result)


def reasons_in(result: Result) -> str:
    """Return why rules refused, all in one text."""
    return "; ".join(reason for step in result.steps for rule in step.rules for reason in rule.refused)


def quantizers(model: ir.Model) -> list[Quantizer]:
    """Return what the Quants of a model are given."""
    found: list[Quantizer] = []
    for node in model.graph:
        if node.op_type == "Quant":
            scale, zero, bits = (constant(value) for value in node.inputs[1:])
            assert scale is not None
            assert zero is not None
            assert bits is not None
            signed, narrow = node.attributes.get_int("signed", 1), node.attributes.get_int("narrow", 0)
            rounding = node.attributes.get_string("rounding_mode", "ROUND")
            found.append(Quantizer(int(bits), bool(signed), bool(narrow), scale.tolist(), zero.tolist(), rounding))
    return found


def computed(model: ir.Model, **feeds: np.ndarray) -> list[np.ndarray]:
    """Run a model, custom operators and all, in the profile of the verification."""
    results = Executor().prepare(model, engine="onnxruntime").run(feeds)
    return [results[str(value.name)] for value in model.graph.outputs]


def ties(scale: float, reach: int = 300) -> np.ndarray:
    """Return numbers on a grid, on its ties, next to these, and beyond all integers, three in a row."""
    numbers = np.arange(-4 * reach, 4 * reach + 1).astype(np.float32) * np.float32(scale / 4)
    near = [np.nextafter(numbers, np.float32(side)) for side in (-np.inf, np.inf)]
    far = np.array([np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, 1e-45, -1e-45], np.float32)
    everything = np.concatenate([numbers, *near, far])
    return np.resize(everything, (len(everything) // 3 + 1, 3))


def assert_same_bits(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    """Compare results bit by bit."""
    for a, b in zip(left, right, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        wrong = a.view(np.uint8) != b.view(np.uint8) if a.ndim else a.tobytes() != b.tobytes()
        assert not np.any(wrong), np.argwhere(a != b)[:5]
