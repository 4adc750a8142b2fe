from __future__ import annotations

from onnx_passes.core.build import collect
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.passes.control.fixpoint import Fixpoint
from tests.passes.tools import model_of

TEXT = "g (float[2] x) => (float[2] y) { a = Abs (x) b = Neg (a) y = Relu (x) }"


def test_pipeline_text_makes_one_and_prints_it_back():
    (pass_,) = collect("fixpoint{max=5}(remove-unused-nodes, unique-names)")
    assert isinstance(pass_, Fixpoint)
    assert pass_.at_most == 5
    assert str(pass_) == "fixpoint{max=5}(remove-unused-nodes, unique-names)"


def test_runs_until_nothing_changes():
    model = model_of(TEXT)
    record = Manager().run(plan("fixpoint(remove-unused-nodes)"), model).record
    assert [(step.name, step.modified) for step in record.leaves()] == [
        ("remove-unused-nodes", True),
        ("remove-unused-nodes", False),
    ]
    assert len(model.graph) == 1
