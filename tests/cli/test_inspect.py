from __future__ import annotations

import io
import json

import numpy as np
import onnx_ir as ir
import pytest
from rich.console import Console

from onnx_passes import examples
from onnx_passes.passes.analyse.inspection import inspect
from onnx_passes.report.inspection import SizeNames, layer_lines, show_inspection

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
net (float[batch, 3, 8, 8] image) => (scores)
<float[1] half = {0.5}>
{
    shape = Constant <value_ints = [4, 3, 3, 3]> ()
    [weights] w = ConstantOfShape <value = float[1] {0.5}> (shape)
    [layer] features = Conv <pads = [1, 1, 1, 1]> (image, w)
    [act] active = Relu(features)
    [scale] scores = Mul(active, half)
}
"""


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.onnxtxt"
    path.write_text(MODEL)
    return path


def test_shows_computation_memory_and_operators(run, net):
    answer = run("inspect", net)
    assert answer.code == 0
    for words in ("6912*batch MACs", "batch in image", "Conv", "activations at most", "4 nodes, 4 deep"):
        assert words in answer.out


def test_numbers_for_dimensions(run, net):
    shown = run("inspect", "--dim", "batch=2", net).out
    assert "13,824 MACs" in shown
    assert "batch = 2 in image" in shown


def test_layers(run, net):
    shown = run("inspect", "--layers", "--dim", "batch=1", net).out
    row = next(line for line in shown.splitlines() if " layer " in line)
    assert row.split()[1:] == ["layer", "Conv", "1×3×8×8,", "4×3×3×3", "1×4×8×8", "6,912", "100.0", "2.2", "KiB"]


def test_json_has_layers_when_asked_for(run, net):
    plain = json.loads(run("inspect", "--json", net).out)
    assert plain["cost"]["macs"] == "6912*batch"
    assert plain["dynamic_inputs"] == {"batch": ["image"]}
    assert plain["weights"]["float"] == {"tensors": 1, "elements": 1, "bytes": 4, "in_nodes": 0}
    assert plain["run"] is None
    assert "layers" not in plain["cost"]
    layers = json.loads(run("inspect", "--json", "--layers", net).out)["cost"]["layers"]
    assert [layer["operator"] for layer in layers] == ["ConstantOfShape", "Conv", "Relu", "Mul"]


def test_run_tries_the_model(run, net):
    assert json.loads(run("inspect", "--run", "--json", net).out)["run"]["runs"] is True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dim", "batch"), "'batch' is not a dimension with a size"),
        (("--dim", "batch=two"), "'batch=two' is not a dimension with a size"),
        (("--dim", "bach=2"), "did you mean 'batch'?"),
    ],
)
def test_wrong_dimensions_are_one_sentence(run, net, arguments, words):
    answer = run("inspect", *arguments, net)
    assert answer.code == 2
    assert words in answer.err
    assert answer.out == ""
    assert len(answer.err.strip().splitlines()) == 1


def test_wrong_files_are_one_sentence(run, tmp_path):
    for path in (tmp_path / "absent.onnx", tmp_path):
        answer = run("inspect", path)
        assert (answer.code, answer.out) == (2, "")
        assert len(answer.err.strip().splitlines()) == 1
        assert "Traceback" not in answer.err


def test_numbers_are_never_cut_however_narrow_the_terminal():
    found = inspect(ir.from_onnx_text(MODEL), dimensions={"batch": 1000})
    lines = list(layer_lines(found.cost, 80))
    assert lines[2].split()[-3:] == ["6.91", "M", "100.0"]
    assert all(len(line) <= 80 for line in lines)
    assert "6.91 M" in list(layer_lines(found.cost, 40))[2]


DYNAMIC = """
<ir_version: 9, opset_import: ["": 17]>
segment (float[N, 1, H, W] x, float[2, 1, 3, 3] a, float[2, 2, 3, 3] b, float[2, 2, 3, 3] c) => (float[A, B, C, D] y)
{
    d = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, a)
    e = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(d, b)
    f = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(e, c)
    y = Relu(f)
}
"""


@pytest.mark.parametrize("width", [50, 80, 110, 160])
def test_derived_sizes_have_short_names_and_the_operators_are_shown(width):
    out = io.StringIO()
    found = inspect(ir.from_onnx_text(DYNAMIC))
    show_inspection(found, layers=True, console=Console(file=out, highlight=False, width=width))
    text = out.getvalue()
    shown, sizes = text.partition("sizes ")[::2]
    assert "floor(" not in shown
    assert "d1 = " in sizes
    assert all(len(line) <= width for line in text.split("\n\n")[1].splitlines())
    rows = [line.split()[:2] for line in text.split("\n\n")[1].splitlines()]
    assert rows == [["nodes", "operator"], ["3", "Conv"], ["1", "Relu"], ["4", "total"]]
    nodes = [line.split() for line in text.split("\n\n")[2].splitlines()]
    assert [cells[0] for cells in nodes] == ["#", "1", "2", "3", "4"]


def test_names_of_sizes_stand_for_their_formulas():
    """Put in, they give the numbers that the formulas give, and no dimension has the name of one."""
    found = inspect(ir.from_onnx_text(DYNAMIC.replace("N,", "d1,")))
    names = SizeNames({"d1", "H", "W"})
    formula = names.formula(found.cost.macs)
    given = {"d1": 3, "H": 37, "W": 23}
    lines = dict(line.split(" = ") for line in names.lines() if " = " in line)
    assert not lines.keys() & given.keys()
    for name, text in lines.items():
        given[name] = eval(text, {"floor": lambda x: int(x // 1)}, given)
    expected = inspect(ir.from_onnx_text(DYNAMIC.replace("N,", "d1,")), dimensions={"d1": 3, "H": 37, "W": 23})
    assert eval(formula, {}, given) == expected.cost.macs


def test_many_inputs_with_a_default_are_one_line(run, tmp_path):
    names = [f"w{number}" for number in range(9)]
    declared = ", ".join(f"float {name}" for name in ("x", *names))
    values = ", ".join(f"float {name} = {{1.0}}" for name in names)
    path = tmp_path / "many.onnxtxt"
    path.write_text(
        f'<ir_version: 8, opset_import: ["": 17]> g ({declared}) => (float y) <{values}> '
        f"{{ y = Sum(x, {', '.join(names)}) }}"
    )
    shown = run("inspect", path).out
    assert "and 9 inputs with a default" in shown
    assert "w3" not in shown


def test_ranges_and_statistics_over_data(run, tmp_path):
    np.savez(tmp_path / "images.npz", image=examples.digits().image[:20])
    model = examples.path("digits-mlp")
    shown = run("inspect", model, "--ranges", "--data", tmp_path / "images.npz")
    assert shown.code == 0
    assert "stuck" in shown.out
    assert "saturated %" in shown.out
    data = json.loads(run("inspect", model, "--json", "--range", "image=0:1").out)
    assert (data["ranges"][0]["low"], data["ranges"][0]["high"]) == (0, 1)
    assert data["tensors"] is None


def test_open_ends_and_infinities_are_plain_json(run, tmp_path):
    (tmp_path / "net.onnxtxt").write_text(
        '<ir_version: 10, opset_import: ["": 20]> net (float[N,2] x) => (float[N,2] y) { y = Relu(x) }'
    )
    np.savez(tmp_path / "data.npz", x=np.array([[1, np.inf]], np.float32))
    text = run("inspect", tmp_path / "net.onnxtxt", "--ranges", "--data", tmp_path / "data.npz", "--json").out
    data = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (data["ranges"][0]["low"], data["ranges"][0]["high"]) == (0, None)
    assert data["tensors"][0]["max"] == [1, None]


def test_data_that_is_not_there(run, tmp_path):
    answer = run("inspect", examples.path("digits-mlp"), "--data", tmp_path / "no.npz")
    assert answer.code == 2
    assert "no.npz" in answer.err


def test_time(run, net):
    shown = run("inspect", "--time", "--dim", "batch=2", net).out
    assert "in ONNX Runtime (the least of" in shown
    assert "on image[2,3,8,8]" in shown
    assert "as ONNX Runtime executes it: " in shown
    found = json.loads(run("inspect", "--time", "--json", net).out)["time"]
    assert 0 < found["least"] <= found["median"]
    assert sum(found["operators"].values()) == pytest.approx(1)


def test_time_of_what_does_not_run(run, tmp_path):
    path = tmp_path / "unknown.onnxtxt"
    path.write_text(
        '<ir_version: 10, opset_import: ["": 20, "my": 1]> g (float[2] x) => (float[2] y) { y = my.Op (x) }'
    )
    answer = run("inspect", "--time", path)
    assert answer.code == 0
    assert "not timed: Op 'y': nothing defines the operator my::Op" in answer.out
