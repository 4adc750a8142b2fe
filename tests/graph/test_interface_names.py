"""A run leaves the dimension names of the interface as they were; what it finds out stays."""

from __future__ import annotations

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.graph.interface_names import InterfaceNames

HEAD = '<ir_version: 10, opset_import: ["": 20]>'


def text_of(value: ir.Value) -> str:
    return str(value.shape).replace("None", "?")


def interface(model: ir.Model) -> dict[str | None, str]:
    return {value.name: text_of(value) for value in (*model.graph.inputs, *model.graph.outputs)}


def shape_of(model: ir.Model, name: str) -> str:
    return next(text_of(value) for node in model.graph for value in node.outputs if value.name == name)


@pytest.mark.parametrize("pipeline", ["shape-inference", "simplify", "shape-inference, cleanup, shape-inference"])
def test_anonymous_dimensions_stay_anonymous(pipeline):
    text = f"""{HEAD} g (float[?, 3, ?] x, float[N] z) => (float[?, 3, ?] y, float[N] w) {{
        a = Abs (x)
        y = Relu (a)
        w = Neg (z)
    }}"""
    result = onnx_passes.apply(text.encode(), pipeline)
    assert interface(result.model) == {"x": "[?,3,?]", "z": "[N]", "y": "[?,3,?]", "w": "[N]"}
    assert shape_of(result.model, "a") == "[?,3,?]"


def test_a_name_that_inference_knows_nothing_about_is_kept_through_rewrites():
    text = f"""{HEAD} g (float[N] x) => (int64[Cast472_dim_0] y, float[N] z) {{
        found = NonZero (x)
        one = Constant <value_ints = [-1]> ()
        flat = Reshape (found, one)
        y = Identity (flat)
        z = Relu (x)
    }}"""
    result = onnx_passes.apply(text.encode(), "simplify")
    assert interface(result.model) == {"x": "[N]", "y": "[Cast472_dim_0]", "z": "[N]"}


def test_numbers_and_names_of_the_model_that_are_found_out_stay():
    text = f"{HEAD} g (float[N, 4] x) => (float[M, ?] y, float[?, K] z) {{ y = Concat <axis = 1> (x, x) z = Relu (x) }}"
    result = onnx_passes.apply(text.encode(), "shape-inference")
    assert interface(result.model) == {"x": "[N,4]", "y": "[M,8]", "z": "[N,4]"}


def test_negative_sizes_stay_as_they_were():
    model = ir.from_onnx_text(f"{HEAD} g (float[?, 3] x) => (float[?, 3] y) {{ a = Abs (x) y = Relu (a) }}")
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape = ir.Shape([-1, 3])
    assert interface(onnx_passes.apply(model, "simplify").model) == {"x": "[-1,3]", "y": "[-1,3]"}


def test_a_pass_may_name_dimensions_and_move_axes():
    class Transposes(onnx_passes.Annotation):
        def call(self, model: ir.Model) -> onnx_passes.PassResult:
            model.graph.inputs[0].shape = ir.Shape(["_d7", "batch", 3], denotations=["a", "b", "c"])
            return onnx_passes.PassResult(model, True)

    model = ir.from_onnx_text(f"{HEAD} g (float[3, ?, N] x) => (float[?, ?, ?] y) {{ y = Relu (x) }}")
    Manager([InterfaceNames()]).run(plan(Transposes()), model)
    shape = model.graph.inputs[0].shape
    assert shape is not None
    assert list(shape) == [None, "batch", 3]
    assert [shape.get_denotation(axis) for axis in range(3)] == ["a", "b", "c"]


def test_names_as_inference_makes_them_stay_if_the_model_brought_them():
    text = f"{HEAD} g (float[_d0, ?] x) => (float[_d0, ?] y) {{ y = Relu (x) }}"
    assert interface(onnx_passes.apply(text.encode(), "shape-inference").model) == {"x": "[_d0,?]", "y": "[_d0,?]"}


def test_a_second_run_finds_the_same():
    text = f"{HEAD} g (float[?, 3] x) => (float[?, 6] y) {{ a = Abs (x) b = Concat <axis = 1> (a, a) y = Relu (b) }}"
    once = onnx_passes.apply(text.encode(), "simplify").model
    twice = onnx_passes.apply(once, "simplify").model
    assert [node.op_type for node in twice.graph] == [node.op_type for node in once.graph]
    assert interface(twice) == interface(once)


def test_the_command_line_keeps_them_too(tmp_path):
    from onnx_passes.cli.main import main

    source, target = tmp_path / "in.onnxtxt", tmp_path / "out.onnx"
    source.write_text(f"{HEAD} g (float[?, 3] x) => (float[?, 3] y) {{ a = Abs (x) y = Relu (a) }}")
    assert main(["-q", "-o", str(target), str(source), "shape-inference"]) == 0
    assert interface(onnx_passes.load(target)) == {"x": "[?,3]", "y": "[?,3]"}
