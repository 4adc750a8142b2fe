from __future__ import annotations

import json
from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, examples
from onnx_passes.history.recording import Recording
from onnx_passes.report.data import report_data
from onnx_passes.report.run import run_data


@pytest.fixture(scope="module")
def streamlined():
    result = apply(examples.path("digits-cnn"), "streamline", report=True)
    data = run_data(result.recording, result.model, original=result.original)
    return result, json.loads(json.dumps(data, allow_nan=False))


def state(data: dict, step: int | None = None) -> tuple[list[int], list[int]]:
    """Fold the events as the page does."""
    nodes, values = set(data["original"]["nodes"]), set(data["original"]["values"])
    for event in data["events"]:
        if step is not None and event["step"] > step:
            break
        for old in (*event["removed"], *(pair[0] for pair in event.get("rewired", ()))):
            nodes.remove(old)
        nodes |= {*event["added"], *(pair[1] for pair in event.get("rewired", ()))}
        for old in event.get("values", {}).get("removed", ()):
            values.remove(old)
        values |= set(event.get("values", {}).get("added", ()))
    return sorted(nodes), sorted(values)


def test_folded_data_are_the_model(streamlined):
    result, data = streamlined
    nodes, values = state(data)
    assert Counter((data["nodes"][n]["op"], tuple(data["nodes"][n]["outputs"])) for n in nodes) == Counter(
        (node.op_type, tuple(value.name for value in node.outputs)) for node in result.model.graph
    )
    shapes = {data["values"][v]["name"]: data["values"][v].get("shape") for v in values}
    for node in result.model.graph:
        for value in (*node.inputs, *node.outputs):
            assert shapes[value.name] == list(value.shape)


def test_data_do_not_tell_where_the_package_is(streamlined):
    _, data = streamlined
    sources = [rule["source"] for step in data["run"]["steps"] for rule in step["rules"]]
    assert sources
    assert all(source.startswith("onnx_passes/passes/") for source in sources)


def test_every_reference_exists(streamlined):
    _, data = streamlined
    steps = {step["number"] for step in data["run"]["steps"]}
    for event in data["events"]:
        assert event["step"] in steps
        assert not event.get("rule") or event["rule"] in data["rules"]
        for key in ("removed", "added", "matched"):
            assert all(0 <= number < len(data["nodes"]) for number in event.get(key, ()))
        for new, old in event.get("links", ()):
            assert new in event["added"]
            assert old < new
    assert {step["pass"] for step in data["run"]["steps"]} >= set(data["passes"])
    assert data["passes"]["infer-thresholds"]["source"].startswith("onnx_passes/passes/")
    assert data["passes"]["infer-thresholds"]["summary"] in data["passes"]["infer-thresholds"]["doc"]


def test_constants_thresholds_and_sums_are_there(streamlined):
    result, data = streamlined
    weights = [value for value in data["values"] if value.get("kind") == "initializer"]
    assert all("constant" in value for value in weights)
    facts = data["facts"]["final"]
    thresholds = [fact["thresholds"] for fact in facts.values() if "thresholds" in fact]
    assert len(thresholds) == sum(node.op_type == "MultiThreshold" for node in result.model.graph)
    conv = next(node for node in result.model.graph if node.op_type == "Conv")
    fact = facts[conv.outputs[0].name]
    assert fact["integer"] is True
    assert fact["channels"] == conv.outputs[0].shape[1] == len(fact["low"])
    assert 2 ** (fact["accumulator"] - 1) > max(map(abs, (*fact["low"], *fact["high"])))
    assert data["charts"]["bits"][0] == {
        "layer": "norm1/BatchNormalization/Conv",
        "weights": 8,
        "inputs": 8,
        "accumulator": 18,
    }
    assert data["charts"]["integer"][-1]["share"] == 1.0
    assert data["facts"]["original"]


def test_operators_add_up_to_the_nodes(streamlined):
    result, data = streamlined
    counts = data["charts"]["operators"]
    assert counts[0]["step"] == 0
    assert sum(counts[0]["counts"].values()) == result.record.before.nodes
    assert sum(counts[-1]["counts"].values()) == result.record.after.nodes


def test_operators_tell_their_family_and_inputs(streamlined):
    _, data = streamlined
    assert set(data["operators"]) == {
        "::".join(filter(None, (node.get("domain"), node["op"]))) for node in data["nodes"]
    }
    thresholds = next(found for name, found in data["operators"].items() if name.endswith("MultiThreshold"))
    assert thresholds["family"] == "quantizer"
    assert thresholds["inputs"][1] == "thresholds"


def test_errors_and_metrics_over_steps():
    digits = examples.digits()
    result = apply(
        examples.path("digits-cnn"),
        "streamline",
        inputs=[{"image": digits.image[:4]}],
        metrics={"max_abs_error": None},
        report=True,
    )
    charts = report_data(result.recording)["charts"]
    assert [point["step"] for point in charts["error"]] == sorted(point["step"] for point in charts["error"])
    assert charts["metrics"]["max_abs_error"]


def test_same_run_same_data():
    def data() -> dict:
        found = apply(examples.path("digits-mlp"), "simplify", verify=False, report=True)
        return {key: item for key, item in report_data(found.recording).items() if key != "run"}

    assert data() == data()


def test_rewrite_in_place_is_linked_to_what_it_was():
    class ToAbs(Transformation):
        def call(self, model):
            model.graph.node(0).op_type = "Abs"
            return ir.passes.PassResult(model, modified=True)

    class Split(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Exp(x)

        def rewrite(self, op, x):
            return op.Pow(np.float32(np.e), x)

    text = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { a = Neg(x) y = Exp(a) }'
    recording = Recording()
    apply(ir.from_onnx_text(text), [ToAbs, Split], verify=False, instruments=[recording])
    in_place, rewrite = report_data(recording)["events"]
    assert in_place["links"] == [[in_place["added"][0], in_place["removed"][0]]]
    assert "links" not in rewrite


def test_blockers_say_why():
    text = """
    <ir_version: 10, opset_import: ["": 17, "qonnx.custom_op.general": 1]>
    g (float[1,4] x) => (float[1,4] y)
    <float scale = {0.5}, float zero = {0.0}, float bits = {4.0}, float[4,4] w = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}>
    {
      q = qonnx.custom_op.general.Quant <signed: int = 1, rounding_mode: string = "ROUND"> (x, scale, zero, bits)
      e = Exp(q)
      y = MatMul(e, w)
    }
    """
    result = apply(ir.from_onnx_text(text), "shape-inference", verify=False, report=True)
    data = run_data(result.recording, result.model)
    assert {blocker["op"] for blocker in data["blockers"]} == {"Exp", "MatMul"}
    assert all(blocker["reason"] and blocker["node"] in ("e", "y") for blocker in data["blockers"])
