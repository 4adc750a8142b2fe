from __future__ import annotations

import json

import onnx_ir as ir
import pytest

NET = """<ir_version: 9, opset_import: ["" : 18]>
g (float[batch, 3] x) => (float[batch, 3] y) {
    [first] a = Identity(x)
    [second] y = Relu(a)
}"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnxtxt"
    path.write_text(NET)
    return path


def test_what_is_set_comes_first_and_plan_shows_it(run, model):
    options = ["--shape", "batch=2", "--set-input", "type=UINT8,scale=0.5", "--keep", "first"]
    answer = run("plan", str(model), "eliminate-identity", *options, "--json")
    steps = [step["pass"] for step in json.loads(answer.out)["steps"] if step["why"] == "requested"]
    assert steps == [
        "fix-shapes{batch=2}",
        "set-input{type=UINT8, scale=[0.5]}",
        "keep-nodes{nodes=[first]}",
        "eliminate-identity",
        "keep-nodes",
    ]


def test_what_is_set_holds_for_the_run(run, model, tmp_path):
    target = tmp_path / "out.onnx"
    answer = run("run", str(model), "eliminate-identity", "--shape", "x=2,3", "--keep", "Identity", "-o", str(target))
    assert answer.code == 0, answer.err
    result = ir.load(target)
    assert str(result.graph.inputs[0].shape) == "[2,3]"
    assert [node.op_type for node in result.graph] == ["Identity", "Relu"]


def test_a_configuration_sets_the_same(run, model, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("shapes: {batch: 1}\ninputs: {x: {type: INT4}}\nkeep: [first]\npasses: [eliminate-identity]\n")
    answer = run("plan", str(model), "-c", str(config), "--json")
    pipeline = json.loads(answer.out)["pipeline"]
    assert pipeline.startswith("fix-shapes{batch=1}, set-input{name=x, type=INT4}, keep-nodes{nodes=[first]}")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--shape", "3"], "--shape: '3' is no shape"),
        (["--shape", "batch=x"], "'x' is no size of 'batch'"),
        (["--keep", "frist"], "no node fits 'frist'; did you mean 'first'"),
        (["--set-input", "type=INT99999"], "cannot have 99999 bits"),
        (["--set-input", "kind=INT4"], "pass 'set-input' has no option 'kind'"),
    ],
)
def test_a_mistake_is_one_sentence(run, model, options, reason):
    answer = run("run", str(model), "cleanup", *options)
    assert answer.code in (2, 3)
    assert reason in answer.err
    assert "Traceback" not in answer.err


def test_bisection_asks_for_the_inputs_to_be_set_first(run, model):
    answer = run("bisect", str(model), "fix-shapes{batch=1}, cleanup")
    assert answer.code == 2
    assert "fix-shapes{batch=1} changes what the model is given; apply it first" in answer.err
