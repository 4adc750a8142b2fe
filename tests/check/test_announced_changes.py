"""Evidence comes from recomputation: what a pass says of itself, or does beside its rewrites, proves nothing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import Transformation, apply
from onnx_passes.check.verification import Limits, Verification
from onnx_passes.core.evidence import findings_in
from onnx_passes.core.records import RunRecord
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.verify.failure import VerificationError

TEXT = """<ir_version: 10, opset_import: ["": 18]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] again = {1, 2}, float[2] unused = {0, 0}> {
    two = Constant <value_float = 2.0> ()
    three = Add (two, two)
    a = Mul (x, w)
    b = Add (a, again)
    idle = Neg (b)
    y = Mul (b, three)
}"""
WIDE = Limits(1e-2, 1e-2)


def run(pipeline: object, text: str = TEXT) -> RunRecord:
    return apply(ir.from_onnx_text(text), pipeline, verify=Verification(limits=WIDE)).record


def is_proved(record: RunRecord) -> bool:
    return any(finding.is_proof for finding in findings_in(record.level))


def _scale(model: ir.Model) -> None:
    weight = model.graph.initializers["w"]
    assert weight.const_value is not None
    weight.const_value = ir.tensor(weight.const_value.numpy() * np.float32(1.00005), name="w")


def _merge_again(model: ir.Model) -> tuple[ir.Value, ir.Value]:
    return model.graph.initializers["again"], model.graph.initializers["w"]


class ScalesInAChange(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        editor.change("tidy", list(model.graph), lambda: _scale(model))


class ScalesBesideAChange(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        _scale(model)
        editor.remove("unused node", [node for node in model.graph if node.op_type == "Neg"])


class ScalesBesideARewrite(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        old, new = _merge_again(model)

        def merge() -> None:
            old.replace_all_uses_with(new)
            _scale(model)

        editor.change("merge", [], merge, replaced=[(old, new)])


class SwapsAnOperator(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        def swap() -> None:
            node = next(node for node in model.graph if node.op_type == "Add" and node.outputs[0].name == "b")
            node.op_type = "Max"

        editor.change("names", [], swap)


class ReordersInputs(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        def swap() -> None:
            node = model.graph[-1]
            first, second = node.inputs
            node.replace_input_with(0, second)
            node.replace_input_with(1, first)

        editor.change("order", [], swap)


class StoresAnotherConstant(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        node = next(node for node in model.graph if node.outputs[0].name == "three")
        editor.store("fold", node, {node.outputs[0]: ir.tensor(np.float32(4.0001))}, settled=True)


class MergesOtherBits(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        old, new = model.graph.initializers["again"], model.graph.initializers["w"]
        new.const_value = ir.tensor(np.array([1, 2.0001], np.float32), name="w")
        editor.change("merge", [], lambda: old.replace_all_uses_with(new), replaced=[(old, new)], settled=True)


class ScalesAndReportsNothing(Transformation):
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        _scale(model)
        return ir.passes.PassResult(model, modified=True)


@pytest.mark.parametrize(
    "wrong",
    [
        ScalesInAChange,
        ScalesBesideAChange,
        ScalesBesideARewrite,
        SwapsAnOperator,
        ReordersInputs,
        StoresAnotherConstant,
        MergesOtherBits,
        ScalesAndReportsNothing,
    ],
)
def test_a_change_that_is_not_what_was_announced_is_not_proved(wrong: type[Transformation]):
    verification = Verification(limits=Limits(1e3, 1e3), require="reals:proved-here")
    with pytest.raises(VerificationError, match="is required"):
        apply(ir.from_onnx_text(TEXT), wrong(), verify=verification)


@pytest.mark.parametrize(
    "text",
    [
        "remove-unused",
        "deduplicate-initializers",
        "lift-constants",
        "fold-constants",
        "unique-names",
        "topological-sort",
        "remove-unused-opsets",
        "convert-opset17",
    ],
)
def test_a_change_of_nothing_computed_is_proved(text: str):
    record = run(text, TEXT.replace('"": 18', '"": 18, "other": 1'))
    assert not record.modified or record.level == "bits:proved-here"
    assert record.modified or text in ("topological-sort", "unique-names")


def test_nodes_in_another_order_compute_the_same():
    model = ir.from_onnx_text(TEXT)
    nodes = list(model.graph)
    model.graph.remove(nodes[-1])
    model.graph.insert_before(nodes[0], nodes[-1])
    record = apply(model, "topological-sort").record
    assert (record.modified, record.level) == (True, "bits:proved-here")


def test_weights_of_another_bit_are_not_merged_by_word():
    record = run(MergesOtherBits())
    assert not is_proved(record)


def test_other_definitions_of_operators_are_no_new_names():
    pooled = """<ir_version: 10, opset_import: ["": 18]>
    g (float[1, 1, 7] x) => (float[1, 1, 4] y) {
        y = AveragePool <kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1> (x)
    }"""
    record = run("convert-opset19", pooled)
    assert record.modified
    assert not is_proved(record)
    assert is_proved(
        run("convert-opset19", pooled.replace("AveragePool", "MaxPool").replace(", count_include_pad = 1", ""))
    )


def test_a_function_that_is_swapped_is_not_the_same():
    text = """<ir_version: 10, opset_import: ["": 18, "f": 1]>
    g (float[2] x) => (float[2] y) { y = f.Twice (x) }
    <domain: "f", opset_import: ["": 18]> Twice (a) => (b) { b = Add (a, a) }
    <domain: "f", opset_import: ["": 18]> Other (a) => (b) { c = Add (a, a) b = Abs (c) }"""

    class Swaps(EditorPass):
        def edit(self, model: ir.Model, editor: Editor) -> None:
            def swap() -> None:
                twice, other = (model.functions["f", name, ""] for name in ("Twice", "Other"))
                model.functions["f", "Twice", ""] = ir.Function("f", "Twice", "", graph=other.graph, attributes=[])
                assert twice is not model.functions["f", "Twice", ""]

            editor.change("functions", [], swap)

    with pytest.raises(VerificationError):
        apply(ir.from_onnx_text(text), Swaps(), verify=Verification(limits=Limits(1e3, 1e3), require="proved-here"))


def test_the_reason_names_what_was_changed():
    record = run(ScalesBesideARewrite())
    reasons = [proof.reason for step in record.leaves() for proof in step.proofs if not proof.preserves]
    assert reasons == ["beside its rewrites, weight 'w' was changed"]
