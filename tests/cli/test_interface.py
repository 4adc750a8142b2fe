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
        (["--shape", "3"], "--shape: '3' is not a shape"),
        (["--shape", "batch=x"], "'x' is not a size of 'batch'"),
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
    assert "fix-shapes{batch=1} changes the inputs of the model; apply it first" in answer.err


PARTS = """<ir_version: 9, opset_import: ["" : 18]>
g (float[batch, 3] x, float[3] s) => (float[batch, 3] y, float[batch, 3] z) <float[3] w = {1, 2, 3}> {
    [first] a = Mul(x, w)
    [second] b = Add(a, s)
    [third] y = Relu(b)
    [last] z = Identity(b)
}"""


@pytest.fixture
def parts(tmp_path):
    path = tmp_path / "parts.onnxtxt"
    path.write_text(PARTS)
    return path


@pytest.mark.parametrize(
    ("options", "inputs", "outputs"),
    [
        (["--from", "a", "--from", "s", "--to", "b"], ["a", "s"], ["b"]),
        (["--to", "a"], ["x"], ["a"]),
        (["--add-output", "a", "--drop-output", "z"], ["x", "s"], ["y", "a"]),
        (["--rename", "x=image", "--rename", "y=scores", "--rename-dim", "batch=N"], ["image", "s"], ["scores", "z"]),
        (["--make-input", "w"], ["x", "s", "w"], ["y", "z"]),
        (["--make-initializer", "s=1,2,3"], ["x"], ["y", "z"]),
        (["--make-initializer", "s=4", "--make-input", "w", "--to", "b", "--rename", "w=k"], ["x", "k"], ["b"]),
    ],
)
def test_what_goes_in_and_comes_out_is_changed_and_verified(run, parts, tmp_path, options, inputs, outputs):
    target = tmp_path / "out.onnx"
    answer = run(parts, "cleanup", *options, "-o", target, "--json")
    assert answer.code == 0, answer.err
    result = ir.load(target)
    assert [value.name for value in result.graph.inputs] == inputs
    assert [value.name for value in result.graph.outputs] == outputs
    assert json.loads(answer.out)["level"] == "bits:sampled"


def test_a_configuration_changes_the_interface_too(run, parts, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "make_initializers: {s: [1, 2, 3]}\nextract: {outputs: [b]}\nrename: {b: out}\nskip: [eliminate-identity]\n"
        "passes: [eliminate]\n"
    )
    answer = run("plan", "-c", config, "--json")
    assert json.loads(answer.out)["pipeline"] == (
        "make-initializers{s=[1, 2, 3]}, extract{outputs=[b]}, rename-interface{b=out}, "
        "skip{names=[eliminate-identity]}(eliminate)"
    )


def test_passes_are_skipped_and_the_run_says_so(run, parts, tmp_path):
    answer = run(parts, "eliminate", "--skip", "eliminate-identity", "--keep", "first", "-o", tmp_path / "out.onnx")
    assert answer.code == 0, answer.err
    assert "note: skip: left out: eliminate-identity" in answer.err
    assert "note: keep-nodes: protected: 1 node (first)" in answer.err
    assert "Identity" in [node.op_type for node in ir.load(tmp_path / "out.onnx").graph]


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (["--skip", "eliminate-idenity"], 2, "did you mean 'eliminate-identity'"),
        (["--rename", "x"], 2, "--rename: 'x' is not a pair of names; write old=new"),
        (["--make-initializer", "s="], 2, "--make-initializer: 's=' is not a value of an input"),
        (["--to", "bb"], 3, "the model has no value 'bb'; did you mean 'b'?"),
        (["--from", "s", "--to", "b"], 3, "'b' also depends on input 'x'; add 'x' to the inputs"),
    ],
)
def test_what_cannot_be_done_is_said(run, parts, options, code, reason):
    answer = run(parts, "eliminate", *options)
    assert answer.code == code
    assert reason in answer.err


@pytest.mark.parametrize(("name", "code"), [("batch size", 0), ("?", 2), ("batch", 3)])
def test_dimensions_with_spaces_get_a_size_and_what_is_no_name_is_refused(run, tmp_path, name: str, code: int):
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,3] x) => (float[N,3] y) { y = Relu (x) }'
    )
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape = ir.Shape(["batch size", 3])
    ir.save(model, tmp_path / "m.onnx")
    answer = run("-o", tmp_path / "out.onnx", tmp_path / "m.onnx", "cleanup", "--shape", f"{name}=2")
    assert answer.code == code, answer.err
    assert code or str(ir.load(tmp_path / "out.onnx").graph.inputs[0].shape) == "[2,3]"
