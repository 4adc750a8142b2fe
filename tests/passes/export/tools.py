"""Models of integers that floats hold, and their results before and after."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import onnxruntime

import onnx_passes
from onnx_passes.verify.run.execute import Executor
from tests.passes.tools import check, model_of, run

GENERAL = "qonnx.custom_op.general"
OURS = "onnx_passes"


def held(name: str, array: np.ndarray | list[float], kind: str = "float") -> str:
    """Write a constant as text."""
    values = np.asarray(array)
    dims = "" if values.ndim == 0 else f"[{', '.join(map(str, values.shape))}]"
    number = repr if kind == "float" else int
    return f"{kind}{dims} {name} = {{{', '.join(str(number(v)) for v in values.reshape(-1).tolist())}}}"


def integers(low: int, high: int) -> np.ndarray:
    """Return thresholds that round a float to integers between two ends."""
    return np.arange(low + 1, high + 1, dtype=np.float32)[None, :] - np.float32(0.5)


def network(
    x: str, y: str, body: str, constants: Mapping[str, np.ndarray | list[float]], *, opset: int = 18, also: str = ""
) -> ir.Model:
    """Make a model; in its body ``q(low, high)`` stands for the rounding of an input, as in ``a = q(-3, 4) x``."""
    lines, given = [], [held(name, array) for name, array in constants.items()]
    for line in body.strip().splitlines():
        text = line.strip()
        if " = q(" in text:
            name, rest = text.split(" = q(")
            ends, source = rest.split(")")
            low, high = map(int, ends.split(","))
            given.append(held(f"{name}_steps", integers(low, high)))
            text = (
                f'{name} = {GENERAL}.MultiThreshold <out_dtype = "INT32", out_bias = {low}.0> '
                f"({source.strip()}, {name}_steps)"
            )
        lines.append(text)
    inner = "\n".join(lines)
    text = f"g ({x}) => ({y}) <{', '.join([*given, *([also] if also else [])])}> {{ {inner} }}"
    return model_of(text, opset=opset, domains=f'"{GENERAL}" : 1, "{OURS}" : 1')


def samples(model: ir.Model, amount: int = 8, *, size: float = 300.0) -> list[dict[str, np.ndarray]]:
    """Make inputs: all small, all large on either side, and anything between."""
    rng = np.random.default_rng(0)
    found: list[dict[str, np.ndarray]] = []
    for index in range(amount):
        sample: dict[str, np.ndarray] = {}
        for value in model.graph.inputs:
            shape = [dim if isinstance(dim, int) else 3 for dim in value.shape or ()]
            spread = (size, 4.0, 1.0)[index % 3]
            array = np.full(shape, (size, -size)[index]) if index < 2 else rng.normal(size=shape) * spread
            assert value.dtype is not None
            sample[str(value.name)] = np.asarray(array, value.dtype.numpy())
        found.append(sample)
    return found


def results(model: ir.Model, inputs: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """Execute a model with custom operators."""
    model = onnx_passes.apply(model, "shape-inference", verify=False).model
    executable = Executor().prepare(model)
    names = [str(value.name) for value in model.graph.outputs]
    return [[np.asarray(executable.run(sample)[name]) for name in names] for sample in inputs]


def export(model: ir.Model, pipeline: str = "export-integer", *, verify: bool = False) -> tuple[ir.Model, list[str]]:
    """Return the exported model and the remarks."""
    result = onnx_passes.apply(model, pipeline, verify=verify)
    return result.model, [note for step in result.record.steps for note in step.notes]


def assert_same_bits(
    model: ir.Model, expected: list[list[np.ndarray]], inputs: list[dict[str, np.ndarray]], *, optimized: bool = True
) -> None:
    """Let stock ONNX Runtime run a model, as it is and optimized; onnx judges its form."""
    check(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    proto = ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    for sample, wanted in zip(inputs, expected, strict=True):
        found = [run(model, sample), *([session.run(None, sample)] if optimized else [])]
        for arrays in found:
            assert [(a.dtype, a.shape, a.tobytes()) for a in arrays] == [
                (w.dtype, w.shape, w.tobytes()) for w in wanted
            ]


def exported_alike(model: ir.Model, *, size: float = 300.0) -> tuple[ir.Model, list[str]]:
    """Export to integers and hold the result to that of the model before, bit by bit."""
    inputs = samples(model, size=size)
    expected = results(model, inputs)
    exported, notes = export(model)
    assert all(node.domain == "" for node in exported.graph)
    assert_same_bits(exported, expected, inputs)
    return exported, notes


def types(model: ir.Model, operator: str) -> list[tuple[str, ...]]:
    """Return the element types that the nodes of an operator take."""
    return [
        tuple(value.dtype.name if value.dtype else "?" for value in node.inputs if value is not None)
        for node in model.graph
        if node.op_type == operator
    ]
