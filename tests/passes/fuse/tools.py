"""Apply passes to models in ONNX text, verified, and look at what became of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

import onnx_passes
from onnx_passes.api import Result
from tests.passes.tools import check, model_of, operators


def applied(pipeline: str, text: str, *, opset: int = 18, sizes: Mapping[str, int] | None = None) -> ir.Model:
    """Apply passes; ONNX Runtime must confirm each step that changed something, and onnx the result.

    Given ``sizes`` of dimensions, it does so on data of ordinary size.
    """
    result = _run(pipeline, text, opset, sizes)
    last = result.steps[-1]
    assert last.modified
    assert last.evidence is not None
    assert last.evidence.samples, last.evidence
    assert last.evidence.engine == "onnxruntime"
    check(result.model)
    return result.model


def outcome(pipeline: str, text: str, *, opset: int = 18) -> list[str]:
    """Return the operators that are left after rewriting, in order."""
    return operators(applied(pipeline, text, opset=opset).graph)


def reasons(pipeline: str, text: str | ir.Model, *, opset: int = 18) -> str:
    """Return why the rules refused, all in one text; nothing may have been rewritten."""
    rules = [rule for step in _run(pipeline, text, opset).steps for rule in step.rules]
    assert rules
    assert not any(rule.applied for rule in rules)
    return "; ".join(reason for rule in rules for reason in rule.refused)


def _run(pipeline: str, text: str | ir.Model, opset: int, sizes: Mapping[str, int] | None = None) -> Result:
    model = model_of(text, opset=opset, ir_version=11 if opset > 21 else 9) if isinstance(text, str) else text
    return onnx_passes.apply(model, pipeline, inputs=[] if sizes is None else [_ordinary(model, sizes)])


def _ordinary(model: ir.Model, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Draw standard normal numbers, or truths."""
    generator = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        assert value.name is not None
        assert value.dtype is not None
        shape = [dim if isinstance(dim, int) else sizes[str(dim)] for dim in value.shape or ()]
        numbers = generator.standard_normal(shape)
        feeds[value.name] = (numbers > -1 if value.dtype is ir.DataType.BOOL else numbers).astype(value.dtype.numpy())
    return feeds
