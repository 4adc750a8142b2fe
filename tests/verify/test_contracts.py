from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import Analysis, Annotation, PassResult, Transformation, apply
from onnx_passes.core.errors import ContractError
from onnx_passes.core.instruments import Instrument

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
