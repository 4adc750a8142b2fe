"""Passes of onnx_ir inside our manager."""

import onnx_ir as ir
import onnx_ir.passes.common as stock
import pytest

from onnx_passes.core.foreign import ForeignPass
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.core.records import Status

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x) => (float[2] y) { a = Relu(x)  b = Identity(a)  unused = Neg(x)  y = Abs(b) }
"""


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(TEXT)


class Named(ir.passes.InPlacePass):
    def __init__(self, modified=True):
        self.modified = modified

    def call(self, model):
        return ir.passes.PassResult(model, self.modified)


class FunctionalPass(ir.passes.FunctionalPass):
    def call(self, model):
        return ir.passes.PassResult(model.clone(), True)


def test_classes_and_objects_run_beside_each_other(model):
    outcome = Manager().run(plan([stock.RemoveUnusedNodesPass, stock.IdentityEliminationPass()]), model)
    assert [node.op_type for node in model.graph] == ["Relu", "Abs"]
    assert [(step.name, step.nodes_before, step.nodes_after) for step in outcome.record.steps] == [
        ("remove-unused-nodes", 4, 3),
        ("identity-elimination", 3, 2),
    ]


@pytest.mark.parametrize("modified", [True, False])
def test_what_the_pass_reports_is_recorded(model, modified):
    (step,) = Manager().run(plan([Named(modified)]), model).record.steps
    assert (step.name, step.status, step.modified) == ("named", Status.DONE, modified)


def test_the_suffix_of_onnx_ir_is_dropped_from_the_name():
    assert ForeignPass.adapt(stock.TopologicalSortPass()).name == "topological-sort"
    assert str(ForeignPass.adapt(Named())) == "named"


@pytest.mark.parametrize(
    ("inner", "in_place", "changes_input"), [(Named(), True, True), (FunctionalPass(), False, False)]
)
def test_properties_are_those_of_the_pass(model, inner, in_place, changes_input):
    adapted = ForeignPass.adapt(inner)
    assert (adapted.in_place, adapted.changes_input) == (in_place, changes_input)
    assert (adapted(model).model is model) == in_place


def test_a_new_model_is_what_later_passes_see(model):
    class Blank(ir.passes.InPlacePass):
        def call(self, model):
            model.graph.name = "later"
            return ir.passes.PassResult(model, True)

    outcome = Manager().run(plan([FunctionalPass(), Blank()]), model)
    assert outcome.model is not model
    assert (model.graph.name, outcome.model.graph.name) == ("g", "later")


def test_conditions_of_the_pass_are_checked(model):
    class Demanding(Named):
        def requires(self, model):
            raise ValueError("not yet")

    with pytest.raises(ir.passes.PreconditionError, match="Demanding") as raised:
        Manager().run(plan([Demanding()]), model)
    assert isinstance(raised.value.__cause__, ValueError)


def test_sequences_of_onnx_ir_are_passes_too(model):
    sequence = ir.passes.Sequential(stock.RemoveUnusedNodesPass(), stock.IdentityEliminationPass())
    (step,) = Manager().run(plan(sequence), model).record.steps
    assert (step.name, step.modified, step.nodes_after) == ("sequential", True, 2)
