"""What others do not understand goes through them untouched, with its shapes known, and runs as before."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.base import Context
from onnx_passes.core.build import collect
from onnx_passes.core.walk import all_nodes
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.generate import generate
from tests.helpers.thorough import some
from tests.passes.onnxruntime.models import CALLS, TYPES, build

GROUPS = ("cleanup", "simplify", "streamline")
FEEDS = {"GroupQueryAttention": {"l": np.array([2], np.int32), "t": np.array(3, np.int32)}}
MODELS = {**CALLS, **TYPES}


def sample_of(name: str, model: ir.Model) -> dict[str, np.ndarray]:
    sizes = {"B": 2} if "float[B" in MODELS[name] or "[B" in MODELS[name] else None
    return {**generate(model, samples=1, dimensions=sizes)[0], **FEEDS.get(name, {})}


@pytest.mark.parametrize("name", MODELS)
def test_shapes_are_those_of_the_results(name: str):
    model = build(MODELS[name])
    sample = sample_of(name, model)
    collect("shape-inference")[0].run(model, Context())
    results = Executor().prepare(model, engine="onnxruntime").run(sample)
    for output in model.graph.outputs:
        found = results[str(output.name)]
        assert output.shape is not None, output
        dims = [2 if getattr(dim, "value", dim) == "B" else dim for dim in output.shape]
        assert dims == list(found.shape), output
        assert output.dtype == ir.DataType.from_numpy(found.dtype), output


@pytest.mark.parametrize(("name", "group"), some([(n, g) for n in MODELS for g in GROUPS], every=5))
def test_groups_leave_what_they_do_not_understand(name: str, group: str):
    model = build(MODELS[name])
    before = {(node.domain, node.op_type) for node in all_nodes(model.graph) if node.domain}
    result = onnx_passes.apply(model, group, inputs=[sample_of(name, model)])
    assert result.record.level != "unverified", [step.evidence for step in result.steps]
    after = {(node.domain, node.op_type) for node in all_nodes(result.model.graph)}
    if group != "streamline":
        assert before <= after
    assert onnx_passes.inspect(result.model, ranges=True).to_json()
