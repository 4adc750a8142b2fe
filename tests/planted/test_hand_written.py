"""Passes written by hand: a fault in one is blamed on its rewrite and nodes, and a limit stops inside each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pkgutil import resolve_name
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply, examples
from onnx_passes.core.instruments import Limit
from onnx_passes.debug.why_not import why_not
from onnx_passes.graph.copy import copy_model
from onnx_passes.history.recording import Recording
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor

AGGREGATED = "extract-quant-scale-zeropoint, aggregate-scales, fold-quantized-weights"


@dataclass(frozen=True)
class Planted:
    """A pass on the example CNN as others leave it, or on a text, and what in it is wrong the second time it is called.

    ``number`` is that of the wrong rewrite among those of the pass. What is wrong ``always`` chooses a node itself: no
    local check finds it, so that the pass is repeated.
    """

    text: str
    before: str
    target: str
    wrong: Callable[..., Any]
    rule: str
    matched: str
    number: int = 2
    always: bool = False


def late_thresholds(right: Callable[..., Any], op: Any, x: ir.Value, tail: Any, found: Any, levels: Any) -> ir.Value:
    return right(op, x, tail, replace(found, thresholds=found.thresholds + np.float32(2)), levels)


def larger_scale(right: Callable[..., Any], sweep: Any, value: ir.Value, form: Any) -> ir.Value:
    return right(sweep, value, form.times(1.25))


def one_more(right: Callable[..., Any], twins: Any, integer: ir.Value, old: ir.Value) -> ir.Value:
    assert integer.dtype is not None
    return right(twins, twins.op.Add(integer, np.ones((), integer.dtype.numpy())), old)


def larger_filters(right: Callable[..., Any], weights: np.ndarray, groups: int) -> np.ndarray:
    return right(weights, groups) + np.float32(len(weights) == 2)


def unsigned(right: Callable[..., Any], definition: Any, node: ir.Node) -> dict[str, ir.Attr | None]:
    return {**right(definition, node), **({"signed": ir.AttrInt64("signed", 0)} if node.name == "second" else {})}


def late_rows(right: Callable[..., Any], found: Any, op: Any, node: ir.Node) -> ir.Value:
    return right(replace(found, rows=found.rows + np.float32(node.name == "second")), op, node)


def larger_tensors(right: Callable[..., Any], editor: Any, rule: str, node: ir.Node, tensors: Any, **how: Any) -> bool:
    wrong = {value: ir.Tensor(tensor.numpy() + (node.name == "second")) for value, tensor in tensors.items()}
    return right(editor, rule, node, wrong, **how)


SHAPES = """<ir_version: 10, opset_import: ["": 20]> g (float[2,3] x, float[4,5] z) => (int64[2] y, int64[2] w) {
    a = Shape (x) [first] y = Neg (a) b = Shape (z) [second] w = Neg (b)
}"""
THRESHOLDS = """<ir_version: 10, opset_import: ["": 20, "onnx_passes": 1]> g (float[2,3] x) => (float[2,3] y)
    <float[1,3,2] t = {0, 1, 2, 1, 3, 2}, float s = {0.5}> {
    [first] a = onnx_passes.MultiThreshold (x, t) b = Mul (a, s) [second] y = onnx_passes.MultiThreshold (b, t)
}"""
QUANTIZERS = """<ir_version: 10, opset_import: ["": 20, "onnx.brevitas": 1]> g (float[2,3] x) => (float[2,3] y)
    <float s = {0.5}, float z = {0}, float b = {4}> {
    [first] a = onnx.brevitas.Quant (x, s, z, b) c = Neg (a) [second] y = onnx.brevitas.Quant (c, s, z, b)
}"""
IMAGES = """<ir_version: 8, opset_import: ["": 13, "qonnx.custom_op.general": 1]>
    g (float[1,2,3,3] x) => (float[1,2,1,1] y) <float[1,3] t = {-1, 0, 1}, float[3,2,2,2] v = {
    1, 2, -1, 0, 1, 1, 0, -1, 2, 1, 0, 1, 1, 2, -1, 0, 1, 1, 0, -1, 2, 1, 0, 1}, float[2,3,2,2] w = {
    1, 2, -1, 0, 1, 1, 0, -1, 2, 1, 0, 1, 1, 2, -1, 0, 1, 1, 0, -1, 2, 1, 0, 1}> {
    a = qonnx.custom_op.general.MultiThreshold <out_dtype = "UINT2", data_layout = "NCHW"> (x, t)
    [first] b = Conv (a, v) [second] y = Conv (b, w)
}"""
PLANTED = [
    Planted(
        "export-finn{lower-convs=true}",
        IMAGES,
        "onnx_passes.passes.export.channels_last._matrix",
        larger_filters,
        "channels last of Conv",
        "y = Conv(b, w)",
        number=4,  # two rewrites spell out windows before
        always=True,
    ),
    Planted(
        "import-qonnx",
        QUANTIZERS,
        "onnx_passes.passes.qonnx.import_qonnx._respelled",
        unsigned,
        "QONNX form of Quant",
        "y = Quant(c, s, z, b)",
        number=3,
        always=True,
    ),
    Planted(
        "export-qonnx",
        THRESHOLDS,
        "onnx_passes.passes.qonnx.export_qonnx.QonnxThresholds.build",
        late_rows,
        "QONNX form of MultiThreshold",
        "y = MultiThreshold(b, t)",
        number=3,
        always=True,
    ),
    Planted(
        "fold-shapes",
        SHAPES,
        "onnx_passes.rewrite.editor.Editor.store",
        larger_tensors,
        "shape",
        "w = Neg(b)",
        always=True,
    ),
    Planted(
        "export-integer",
        "streamline",
        "onnx_passes.passes.export.integer_twins.IntegerTwins.restored",
        one_more,
        "integers of Conv",
        "Conv",
    ),
    Planted(
        "aggregate-scales",
        "import-qonnx, streamline-floats, extract-quant-scale-zeropoint",
        "onnx_passes.passes.streamline.aggregate_scales._Sweep._as_float",
        larger_scale,
        "integer form of ",
        "Conv",
    ),
    Planted(
        "infer-thresholds",
        f"import-qonnx, streamline-floats, {AGGREGATED}",
        "onnx_passes.passes.thresholds.conversion.write",
        late_thresholds,
        "thresholds of a tail",
        "Quant",
    ),
]
ids = [planted.text for planted in PLANTED]


@cache
def _example(before: str) -> ir.Model:
    if before.startswith("<"):
        return ir.from_onnx_text(before)
    return apply(examples.path("digits-cnn"), before, verify=False).model


def example(before: str) -> ir.Model:
    """Return the example CNN, as some passes leave it."""
    return copy_model(_example(before))


def plant(monkeypatch: pytest.MonkeyPatch, planted: Planted) -> None:
    owner, name = planted.target.rsplit(".", 1)
    right, calls = getattr(resolve_name(owner), name), [0]

    def either(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return planted.wrong(right, *args, **kwargs) if calls[0] == 2 or planted.always else right(*args, **kwargs)

    monkeypatch.setattr(planted.target, either)


@pytest.mark.parametrize("planted", PLANTED, ids=ids)
def test_a_fault_is_blamed_on_its_rewrite_and_nodes(planted: Planted, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, planted)
    with pytest.raises(PostconditionError) as raised:
        apply(example(planted.before), planted.text)
    failure = raised.value.failure
    assert planted.rule in failure.application
    assert failure.application.startswith(f"number {planted.number} of "), failure.application
    assert planted.matched in failure.matched
    assert failure.replacement


@pytest.mark.parametrize("planted", PLANTED, ids=ids)
def test_a_limit_stops_inside(planted: Planted):
    before = example(planted.before)
    inputs = before.graph.inputs
    random = np.random.default_rng(0)
    sizes = {str(value.name): [size if isinstance(size, int) else 1 for size in value.shape or ()] for value in inputs}
    image = {name: random.normal(size=shape).astype(np.float32) for name, shape in sizes.items()}
    expected = Executor().prepare(copy_model(before)).run(image)
    limit = Limit(1)
    result = apply(before, planted.text, instruments=[limit], paranoid=True)
    assert limit.reached
    assert result.record.applications == 1
    found = Executor().prepare(result.model).run(image)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


def test_why_follows_a_node_to_its_integers():
    lineage = Recording()
    apply(examples.path("digits-cnn"), "streamline, export-integer", verify=False, instruments=[lineage])
    story = lineage.of("conv1/Conv")
    text = str(story)
    assert not story.present
    assert "integer form of" in text
    assert "integers of Conv" in text
    assert any("ConvInteger" in str(item) for item in story.successors), text
    assert "nothing → nothing" not in text
    assert "(initializer), which are unused" in text


def test_why_follows_a_node_to_finn():
    lineage = Recording()
    apply(examples.path("digits-cnn"), "streamline, export-finn", verify=False, instruments=[lineage])
    story = lineage.of("relu1/Quant")
    assert not story.present
    assert "thresholds of a tail" in str(story)
    assert any("MultiThreshold" in str(item) for item in story.successors), str(story)
    assert "nothing → nothing" not in str(story)


def test_why_follows_a_node_that_became_another_in_place():
    lineage = Recording()
    apply(ir.from_onnx_text(QUANTIZERS), "import-qonnx", verify=False, instruments=[lineage])
    (event,) = lineage.of("second").events
    assert event.rule == "QONNX form of Quant"
    assert [item.op for item in event.matched] == ["onnx.brevitas::Quant"]


def test_why_not_shows_rules_with_a_candidate_first_and_counts_the_others():
    lines = str(why_not(examples.path("digits-cnn"), "import-quantized")).splitlines()
    assert lines[-1].endswith("more rules have no candidate: no node of the model has their root operator")
    assert not any("with which the pattern ends" in line for line in lines)
