"""Run a pass and hold it to what it says; run models in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from onnx_passes.core.base import Context, Pass
from onnx_passes.graph.hashing.fingerprint import full_hash

Arrays = Mapping[str, np.ndarray]


def model_of(text: str, *, ir_version: int = 9, opset: int = 18, domains: str = "") -> ir.Model:
    """Parse graph and functions in ONNX text, with the usual header."""
    imports = f'"" : {opset}' + (f", {domains}" if domains else "")
    return ir.from_onnx_text(f"<ir_version: {ir_version}, opset_import: [{imports}]>\n{text}")


def apply(pass_: Pass, model: ir.Model) -> bool:
    """Run a pass; it must say truly whether it changed the model, and change nothing the second time."""
    before = full_hash(model)
    result = pass_(model)
    after = full_hash(model)
    assert result.model is model
    assert result.modified == (before != after), "said changed" if result.modified else "said unchanged"
    again = pass_(model)
    assert not again.modified, "said changed again"
    assert full_hash(model) == after, "changed again"
    return result.modified


def notes_of(pass_: Pass, model: ir.Model) -> list[str]:
    """Run a pass and return its remarks."""
    context = Context()
    pass_.run(model, context)
    return context.record.notes


def operators(graph: ir.Graph | ir.Function) -> list[str]:
    return [node.op_type for node in graph]


def value(model: ir.Model, name: str) -> ir.Value:
    """Find a value by its name, in the graph or a subgraph."""
    return next(v for v in values(model) if v.name == name)


def values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
        yield from graph.initializers.values()
        for node in graph:
            yield from node.outputs


def check(model: ir.Model) -> None:
    """Let onnx judge the model."""
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def run(model: ir.Model, feeds: Arrays) -> list[np.ndarray]:
    """Execute a model in ONNX Runtime, without optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    proto = ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def assert_equal_results(model: ir.Model, expected: list[np.ndarray], feeds: Arrays) -> None:
    """Compare results bit by bit; all NaN are one, since which of two an operator passes on is left open."""
    results = run(model, feeds)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        assert result.shape == wanted.shape
        assert _with_one_nan(result).tobytes() == _with_one_nan(wanted).tobytes()


def _with_one_nan(array: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(array), np.nan, array).astype(array.dtype) if array.dtype.kind == "f" else array
