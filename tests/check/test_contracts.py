from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import Analysis, Annotation, PassResult, Transformation, apply
from onnx_passes.core.errors import ContractError
from onnx_passes.core.instruments import Instrument
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y) {
    [relu] h = Relu(x)
    y = Neg(h)
}
"""


def run(pass_: object, **kwargs: object):
    return apply(ir.from_onnx_text(MODEL), pass_, paranoid=True, verify=False, **kwargs)


class RenamingAnalysis(Analysis):
    def analyze(self, model: ir.Model) -> None:
        model.graph.node("relu").name = "other"


class RewiringAnnotation(Annotation):
    def call(self, model: ir.Model) -> PassResult:
        model.graph[1].replace_input_with(0, model.graph.inputs[0])
        return PassResult(model, modified=True)


class AnnotatingAnnotation(Annotation):
    def call(self, model: ir.Model) -> PassResult:
        model.graph[0].outputs[0].shape = ir.Shape([2])
        model.graph[0].metadata_props["seen"] = "yes"
        return PassResult(model, modified=True)


class SilentTransformation(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        model.graph.node("relu").name = "other"
        return PassResult(model, modified=False)


class LoudTransformation(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=True)


@pytest.mark.parametrize(
    ("pass_", "message"),
    [
        (RenamingAnalysis, "'renaming-analysis' is an analysis but changed the model"),
        (RewiringAnnotation, "'rewiring-annotation' is an annotation but changed structure or values"),
        (SilentTransformation, "'silent-transformation' reported no change but changed the model"),
    ],
)
def test_broken_contracts_are_caught(pass_, message):
    with pytest.raises(ContractError, match=message):
        run(pass_)


def test_kept_contract_is_fine():
    assert run(AnnotatingAnnotation).modified


def test_change_that_is_none_is_noted():
    assert run(LoudTransformation).steps[0].notes == ["reported a change but made none"]


def test_without_paranoia_nothing_is_checked():
    assert not apply(ir.from_onnx_text(MODEL), RenamingAnalysis).modified


def test_vetoed_passes_do_not_confuse_the_check():
    class Veto(Instrument):
        def before_pass(self, record, step, model):
            return "not today" if step.name == "loud-transformation" else None

    result = run([LoudTransformation, AnnotatingAnnotation], instruments=[Veto()])
    assert [str(step.status) for step in result.steps] == ["skipped", "done"]


class EditsBeside(EditorPass):
    """Announce one rewrite, and rewire something else before or after it."""

    before: bool = False
    after: bool = False

    def edit(self, model: ir.Model, editor: Editor) -> None:
        relu, neg = model.graph
        if self.before:
            neg.replace_input_with(0, relu.inputs[0])
        with editor.rewrite("relu as max", relu) as r:
            r.replace(relu.outputs[0], r.op.Max(relu.inputs[0], 0.0))
        if self.after:
            neg.replace_input_with(0, model.graph.inputs[0])


def test_announced_rewrites_are_no_breach():
    assert run(EditsBeside()).modified


def test_edits_before_a_rewrite_are_found():
    with pytest.raises(ContractError, match="'edits-beside' changed the model beside its rewrites, before rewrite 1"):
        run(EditsBeside(before=True))


def test_edits_after_the_last_rewrite_are_found():
    with pytest.raises(ContractError, match="'edits-beside' changed the model beside its rewrites, after its last"):
        run(EditsBeside(after=True))


def test_edits_of_initializers_and_functions_are_found():
    class AddsAnInitializer(EditorPass):
        def edit(self, model: ir.Model, editor: Editor) -> None:
            tensor = ir.tensor([1.0], name="w")
            model.graph.register_initializer(ir.Value(name="w", const_value=tensor))

    with pytest.raises(ContractError, match="'adds-an-initializer' changed the model beside its rewrites"):
        run(AddsAnInitializer())
