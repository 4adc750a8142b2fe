"""Apply a pass of this room to ONNX text, and compare with ONNX Runtime bit by bit on values that are hard."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context, Pass
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.text import to_text
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.passes.tools import Arrays, apply, assert_equal_results, check, model_of, operators, run

SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -3.25, 1e-42, 3e38, 7.0)


def feeds_of(model: ir.Model, size: int = 2) -> dict[str, np.ndarray]:
    """Make data for the inputs, special values first; dimensions that are not known get ``size``."""
    feeds: dict[str, np.ndarray] = {}
    for number, value in enumerate(model.graph.inputs):
        assert value.shape is not None
        assert value.dtype is not None
        shape = [dim if isinstance(dim, int) else size for dim in value.shape]
        count = int(np.prod(shape))
        numbers = np.roll(np.resize(SPECIAL, max(count, 1)), number)[:count]
        with np.errstate(all="ignore"):
            if not value.dtype.is_floating_point():
                low = -100 if value.dtype.is_signed() else 0
                numbers = np.clip(np.nan_to_num(numbers), low, 100)
            feeds[value.name or ""] = numbers.astype(value.dtype.numpy()).reshape(shape)
    return feeds


def rewritten(pass_: Pass, text: str, *, opset: int = 18, infer: bool = True, feeds: Arrays | None = None) -> ir.Model:
    """Apply a pass, which must change something, and hold the results against those of the model before."""
    model = model_of(text, opset=opset)
    if infer:
        ShapeInference().run(model, Context())
    given = feeds_of(model) if feeds is None else dict(feeds)
    expected = run(model, given)
    assert apply(pass_, model), "nothing changed"
    check(model)
    assert_equal_results(model, expected, given)
    return model


def refusals(pass_: Pass, text: str, *, opset: int = 18, infer: bool = True) -> Counter[str]:
    """Apply a pass, which must change nothing, and return the reasons that its rules gave."""
    model = model_of(text, opset=opset)
    if infer:
        ShapeInference().run(model, Context())
    before = to_text(ir.to_proto(copy_model(model)))[0]
    context = Context()
    assert not pass_.run(model, context).modified
    assert to_text(ir.to_proto(model))[0] == before
    return sum((rule.refused for rule in context.record.rules), Counter[str]())


def body(model: ir.Model) -> str:
    """Print the nodes of a model in one line, without names of nodes and types of attributes."""
    lines = [node_text(node) for node in model.graph]
    return "; ".join(lines)


def node_text(node: ir.Node) -> str:
    inputs = ", ".join("" if value is None else str(value.name) for value in node.inputs)
    attributes = ", ".join(f"{name}={_plain(attr.value)}" for name, attr in sorted(node.attributes.items()))
    outputs = ", ".join(str(value.name) for value in node.outputs)
    return f"{outputs} = {node.op_type}{f'<{attributes}>' if attributes else ''}({inputs})"


def _plain(value: object) -> str:
    return re.sub(r"\s", "", str(list(value) if isinstance(value, tuple) else value))


__all__ = ["body", "feeds_of", "operators", "refusals", "rewritten"]
