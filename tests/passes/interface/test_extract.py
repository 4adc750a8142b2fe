from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes import passes
from onnx_passes.core.errors import OnnxPassesError, UsageError
from onnx_passes.graph import annotations
from onnx_passes.passes.interface.extract import Extract
from onnx_passes.rewrite.editor import Editor
from onnx_passes.testing import assert_same_graph
from tests.passes.tools import check, model_of, run, value

NET = """g (float[N, 3] x, float[N, 3] s) => (float[N, 3] y, float[N, 3] z)
    <float[3] w = {1, 2, 3}, float[3] v = {4, 5, 6}> {
    a = Relu(x)
    b = Mul(a, w)
    c = Add(b, s)
    y = Neg(c)
    u = local.twice(v)
    z = Add(u, x)
}
<domain: "local", opset_import: ["": 18]> twice (p) => (q) { q = Add(p, p) }"""
DOMAINS = '"local" : 1'


def net() -> ir.Model:
    return model_of(NET, domains=DOMAINS)


def names(values) -> list[str]:
    return [value.name for value in values]


def test_cuts_from_values_to_values_and_keeps_what_the_part_needs():
    result = run_pipeline(net(), "extract{inputs=[a, s], outputs=[c]}")
    check(result.model)
    expected = (
        "g (float[N, 3] a, float[N, 3] s) => (float[N, 3] c) <float[3] w = {1, 2, 3}> { b = Mul(a, w) c = Add(b, s) }"
    )
    assert_same_graph(result.model, model_of(expected))
    assert not result.model.functions
    assert set(result.model.opset_imports) == {""}


def test_the_part_is_held_against_the_same_values_inside_the_original():
    result = run_pipeline(net(), "extract{inputs=[a, s], outputs=[c, b]}, cleanup")
    step = next(step for step in result.record.steps if step.name == "extract")
    assert step.evidence.level == "bits:sampled"
    assert step.evidence.samples >= 3
    assert names(result.model.graph.outputs) == ["c", "b"]
    assert result.record.level == "bits:sampled"


class CutsWrong(Extract):
    """Cut out a part, and read the wrong input in it."""

    def edit(self, model: ir.Model, editor: Editor) -> None:
        super().edit(model, editor)
        value(model, "c").producer().replace_input_with(0, model.graph.inputs[0])


def test_a_part_that_computes_something_else_is_found_out():
    with pytest.raises(OnnxPassesError, match="c not as expected"):
        run_pipeline(net(), [passes.verify.equality(CutsWrong)(inputs=("a", "s"), outputs=("c",))])


def test_without_inputs_those_that_are_needed_stay():
    result = run_pipeline(net(), "extract{outputs=[b]}")
    assert names(result.model.graph.inputs) == ["x"]
    assert names(result.model.graph.outputs) == ["b"]


def test_without_outputs_all_stay():
    result = run_pipeline(net(), "extract{inputs=[b, s, x]}")
    assert names(result.model.graph.inputs) == ["b", "s", "x"]
    assert names(result.model.graph.outputs) == ["y", "z"]


def test_annotations_stay_at_a_value_that_becomes_an_input():
    model = net()
    annotations.set(value(model, "b"), {"finn_datatype": "INT4"})
    value(model, "b").metadata_props["note"] = "kept"
    result = run_pipeline(model, "extract{inputs=[b, s], outputs=[c]}")
    taken = result.model.graph.inputs[0]
    assert (taken.name, annotations.get(taken)["finn_datatype"], taken.metadata_props["note"]) == ("b", "INT4", "kept")
    assert str(taken.shape) == "[N,3]"


def test_data_of_the_original_are_taken_as_such():
    x = np.array([[1, -2, 3]], np.float32)
    result = run_pipeline(net(), "extract{inputs=[b, s], outputs=[c]}", inputs=[{"x": x, "s": x}])
    np.testing.assert_array_equal(run(result.model, {"b": np.maximum(x, 0), "s": x})[0], np.maximum(x, 0) + x)
    assert result.record.steps[-1].evidence is not None
    assert result.record.level == "bits:sampled"


def test_values_that_subgraphs_read_can_be_cut():
    text = """g (float[2] x, bool c) => (float[2] y) {
        a = Relu(x)
        y = If (c) <then_branch = t () => (float[2] p) { p = Neg (a) },
                    else_branch = e () => (float[2] q) { q = Exp (a) }>
    }"""
    result = run_pipeline(model_of(text), "extract{inputs=[a, c], outputs=[y]}")
    check(result.model)
    assert names(result.model.graph.inputs) == ["a", "c"]
    assert [node.op_type for node in result.model.graph] == ["If"]
    assert result.record.level == "bits:sampled"


def test_a_node_with_another_result_that_is_needed_stays():
    text = "g (float[4] x) => (float[2] y) { a, b = Split<axis=0, num_outputs=2>(x) c = Neg(a) y = Add(b, c) }"
    result = run_pipeline(model_of(text), "extract{inputs=[x, a], outputs=[y]}")
    check(result.model)
    assert names(result.model.graph.inputs) == ["x", "a"]
    assert result.record.level == "bits:sampled"


def test_what_is_cut_already_is_left_alone():
    result = run_pipeline(net(), "extract{inputs=[a, s], outputs=[c]}, extract{inputs=[a, s], outputs=[c]}")
    assert [step.modified for step in result.record.steps if step.name == "extract"] == [True, False]


def test_inputs_with_a_default_of_old_models_go_with_what_reads_them():
    text = """g (float[2] x, float[2] w, float[2] v) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> {
        a = Mul(x, w)
        y = Add(a, v)
    }"""
    result = run_pipeline(model_of(text, ir_version=3, opset=8), "extract{inputs=[a], outputs=[y]}")
    assert names(result.model.graph.inputs) == ["a", "v"]
    assert list(result.model.graph.initializers) == ["v"]
    assert result.record.level == "bits:sampled"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("inputs=[a], outputs=[c]", r"'c' also depends on input 's'; add 's' to the inputs, or leave that output out"),
        ("inputs=[s], outputs=[c]", r"'c' also depends on input 'x'; .*or a value behind it, as 'a'"),
        ("outputs=[b1]", r"no value 'b1'; did you mean 'b'"),
        ("outputs=['z*']", r"'z\*' is a pattern, but a full value name is required; it matches 'z'"),
        ("inputs=[x, y], outputs=[b]", r"input 'y' is not needed: 'b' can be computed without it"),
        ("inputs=[w, x], outputs=[b]", r"input 'w' is constant; make-inputs"),
        ("outputs=[x]", r"output 'x' is an input"),
        ("outputs=[w]", r"output 'w' is constant"),
        ("inputs=[a], outputs=[a]", r"output 'a' is an input"),
        ("outputs=[a, a]", r"output 'a' is named twice"),
    ],
)
def test_refuses(options: str, reason: str):
    with pytest.raises(OnnxPassesError, match=reason):
        run_pipeline(net(), f"extract{{{options}}}")


def test_something_is_named():
    with pytest.raises(UsageError, match="no inputs or outputs are named"):
        run_pipeline(net(), "extract")
