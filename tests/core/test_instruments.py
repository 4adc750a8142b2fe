"""Instruments see everything and change nothing; Limit stops after a number of rewrites."""

import inspect

import onnx_ir as ir
import pytest

from onnx_passes import Analysis, Annotation, PassResult, RewriteRulePass, Transformation
from onnx_passes.core.compose import Fixpoint
from onnx_passes.core.instruments import Instrument, Limit
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.core.records import Application, Status

CHAIN = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x) => (float[2] y) { a = Relu(x)  b = Relu(a)  c = Neg(b)  d = Relu(c)  y = Neg(d) }
"""


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(CHAIN)


class ReluToAbs(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        return op.Abs(x)


class NegToTanh(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Neg(x)

    def rewrite(self, op, x):
        return op.Tanh(x)


class Look(Analysis):
    def analyze(self, model):
        return [node.op_type for node in model.graph]


class Stamp(Annotation):
    def call(self, model):
        model.metadata_props["stamp"] = "yes"
        return PassResult(model, modified=True)


class Applications(Instrument):
    """Write down every application."""

    def __init__(self):
        self.seen: list[Application] = []
        self.told: list[tuple] = []

    def after_rewrite(self, application):
        self.seen.append(application)
        self.told.append((application.number, application.rule, application.replaced[0][1].name))


def ops(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_an_instrument_that_overrides_nothing_changes_nothing(model):
    record = Manager([Instrument(), Instrument()]).run(plan([ReluToAbs, Look]), model).record
    assert ops(model) == ["Abs", "Abs", "Neg", "Abs", "Neg"]
    assert [step.status for step in record.steps] == [Status.DONE, Status.DONE]


def test_hooks_say_what_they_get():
    hooks = {
        name: list(inspect.signature(hook).parameters)[1:] for name, hook in vars(Instrument).items() if callable(hook)
    }
    assert hooks == {
        "before_pipeline": ["run", "model"],
        "after_pipeline": ["run", "model"],
        "pipeline_failed": ["run", "model", "error"],
        "before_pass": ["record", "step", "model"],
        "after_pass": ["record", "step", "model"],
        "pass_failed": ["record", "step", "model", "error"],
        "before_rewrite": ["application"],
        "after_rewrite": ["application"],
    }


def test_applications_are_numbered_over_the_whole_run_and_alike_each_time():
    runs = []
    for _ in range(3):
        watch = Applications()
        record = Manager([watch]).run(plan([ReluToAbs, Look, NegToTanh]), ir.from_onnx_text(CHAIN)).record
        assert record.applications == 5
        assert [step.applications for step in record.steps] == [3, 0, 2]
        assert [application.number for application in watch.seen] == [1, 2, 3, 4, 5]
        runs.append(watch.told)
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("limit", range(7))
def test_a_limit_makes_just_the_first_changes(limit):
    everything = Applications()
    Manager([everything]).run(plan([ReluToAbs, NegToTanh]), ir.from_onnx_text(CHAIN))
    model, watch = ir.from_onnx_text(CHAIN), Applications()
    record = Manager([Limit(limit), watch]).run(plan([ReluToAbs, NegToTanh]), model).record
    assert watch.told == everything.told[:limit]
    assert record.applications == min(limit, 5)
    assert sum(op in ("Abs", "Tanh") for op in ops(model)) == min(limit, 5)


def test_a_limit_says_that_it_was_reached(model):
    limit = Limit(2)
    record = Manager([limit]).run(plan([ReluToAbs, NegToTanh]), model).record
    assert limit.reached
    first, second = record.steps
    assert (first.status, first.modified, first.applications) == (Status.DONE, True, 2)
    assert (second.status, second.reason) == (Status.SKIPPED, "limit of 2 rule applications reached")
    assert not second.modified


def test_a_limit_that_is_not_exceeded_is_not_reached(model):
    limit = Limit(5)
    Manager([limit]).run(plan([ReluToAbs, NegToTanh, Stamp]), model)
    assert not limit.reached
    assert model.metadata_props["stamp"] == "yes"


def test_after_the_limit_analyses_still_run_and_annotations_do_not(model):
    record = Manager([Limit(3)]).run(plan([ReluToAbs, NegToTanh, Stamp, Look]), model).record
    assert [step.status for step in record.steps] == [Status.DONE, Status.DONE, Status.SKIPPED, Status.DONE]
    assert record.steps[-1].result == ["Abs", "Abs", "Neg", "Abs", "Neg"]
    assert "stamp" not in model.metadata_props


def test_a_limit_reaches_into_sequences_and_ends_fixpoints(model):
    sequence = Fixpoint(body=(ReluToAbs(), NegToTanh(), Look()))
    record = Manager([Limit(1)]).run(plan([sequence]), model).record
    assert record.applications == 1
    assert [(step.name, str(step.status)) for step in record.steps] == [
        ("fixpoint", "done"),
        ("relu-to-abs", "done"),
        ("neg-to-tanh", "skipped"),
        ("look", "done"),
        ("relu-to-abs", "skipped"),
        ("neg-to-tanh", "skipped"),
        ("look", "done"),
    ]
