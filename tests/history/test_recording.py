from __future__ import annotations

import gc
import weakref
from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import Editor, EditorPass, PassResult, RewriteRulePass, Transformation, apply, examples, passes
from onnx_passes.core.errors import OnnxPassesError, PassFailedError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.wording import attribute_text
from onnx_passes.history.live import Live
from onnx_passes.history.recording import RecordedState, Recording

BRANCHES = """
<ir_version: 10, opset_import: ["": 20]>
g (bool c, float[2] x) => (float[2] y)
{
  n = Neg(x)
  m = Neg(n)
  y = If (c) <
    then_branch = then () => (float[2] t) { a = Neg(m) b = Neg(a) t = Exp(b) },
    else_branch = other () => (float[2] e) { s = Identity(m) e = Add(s, s) }
  >
}
"""

FUNCTIONS = """
<ir_version: 10, opset_import: ["": 20, "my": 1]>
g (float[2] x) => (float[2] y) { a = my.Twice(x) b = Identity(a) y = my.Twice(b) }
<domain: "my", opset_import: ["": 20]>
Twice (x) => (y) { n = Neg(x) m = Neg(n) y = Add(m, m) }
"""


def real(model: ir.Model) -> tuple[Counter, Counter]:
    """Describe a model without any code of the recording."""
    nodes, values = Counter(), Counter()
    functions = (function.graph for function in model.functions.values())
    roots = [model.graph, *functions]
    for graph in [*roots, *(graph for root in roots for graph in root.subgraphs())]:
        defined = [*graph.inputs, *(v for v in graph.initializers.values() if not v.is_graph_input())]
        for node in graph:
            plain = [
                a for a in node.attributes.values() if a.is_ref() or a.type.name not in ("GRAPH", "GRAPHS", "TENSOR")
            ]
            nodes[
                node.domain,
                node.op_type,
                node.name or "",
                tuple("" if value is None else value.name for value in node.inputs),
                tuple(value.name for value in node.outputs),
                tuple((a.name, attribute_text(a)) for a in plain),
            ] += 1
            defined += [value for value in node.outputs if value.name]
        for value in defined:
            shape = None if value.shape is None else tuple(value.shape)
            is_constant = value.is_initializer() or (
                value.producer() is not None and value.producer().op_type == "Constant"
            )
            values[value.name, value.dtype, shape, value.is_graph_input(), is_constant] += 1
    return nodes, values


def told(state: RecordedState) -> tuple[Counter, Counter]:
    nodes, values = Counter(), Counter()
    for node in state.nodes:
        domain, _, op = node.op.rpartition("::")
        texts = [
            (name, text)
            for (name, text), a in zip(node.texts.items(), node.attributes, strict=True)
            if isinstance(a, ir.Attr)
        ]
        nodes[domain, op, node.name, node.inputs, node.outputs, tuple(texts)] += 1
    for value in state.values:
        said = value.description
        values[said.name, said.type, said.shape, said.kind == "input", said.constant is not None] += 1
    return nodes, values


class Watch(Instrument):
    """Sees the model where the recording does."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[Counter, Counter]] = {}

    def before_pipeline(self, run, model) -> None:
        self.seen[0] = real(model)

    def after_pass(self, record, step, model) -> None:
        self.seen[record.number] = real(model)

    def pass_failed(self, record, step, model, error) -> None:
        self.seen.setdefault(record.number, real(model))


def record(model, pipeline, **options) -> tuple[Recording, Watch]:
    recording, watch = Recording(), Watch()
    try:
        apply(model, pipeline, instruments=[watch, recording], **({"verify": False} | options))
    except OnnxPassesError:
        if not options.get("may_fail"):
            raise
    return recording, watch


def assert_same(recording: Recording, watch: Watch) -> None:
    assert watch.seen
    for step, seen in watch.seen.items():
        nodes, values = told(recording.state(step))
        assert nodes == seen[0], f"nodes after step {step}"
        assert values == seen[1], f"values after step {step}"


class CancelNeg(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return x


class ExpToPow(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Exp(x)

    def rewrite(self, op, x):
        return op.Pow(np.float32(np.e), x)


class Rebuild(Transformation):
    """Builds the model anew, and changes it on the way."""

    @property
    def in_place(self):
        return False

    def call(self, model):
        new = copy_model(model)
        for node in new.graph:
            if node.op_type == "Neg":
                node.op_type = "Abs"
        return PassResult(new, modified=True)


class RenameAll(Transformation):
    """Gives everything another name, without saying so."""

    def call(self, model):
        for graph in (model.graph, *model.graph.subgraphs()):
            for node in graph:
                node.name = f"{node.name}_new"
                for value in node.outputs:
                    value.name = f"{value.name}_new"
        return PassResult(model, modified=True)


@pytest.mark.parametrize(
    "pipeline",
    [
        "simplify",
        [CancelNeg, RenameAll],
        [CancelNeg, ExpToPow, Rebuild, "simplify"],
        [RenameAll, "simplify"],
        [Rebuild, RenameAll],
    ],
)
@pytest.mark.parametrize("text", [BRANCHES, FUNCTIONS])
def test_states_are_the_model_after_every_step(text, pipeline):
    recording, watch = record(ir.from_onnx_text(text), pipeline)
    assert recording.events
    assert_same(recording, watch)


@pytest.mark.parametrize(
    "pipeline", ["simplify", "streamline", "streamline, export-finn", "convert-channels-last, simplify"]
)
@pytest.mark.parametrize("name", ["digits-cnn", "digits-mlp"])
def test_states_of_trained_networks(name, pipeline):
    recording, watch = record(examples.path(name), pipeline)
    assert recording.events
    assert_same(recording, watch)


def test_failed_pass_is_recorded_as_far_as_it_came():
    class Break(Transformation):
        def call(self, model):
            model.graph.node(0).op_type = "Abs"
            raise ValueError("out of luck")

    recording, watch = Recording(), Watch()
    with pytest.raises(PassFailedError):
        apply(ir.from_onnx_text(BRANCHES), [ExpToPow, Break], verify=False, instruments=[watch, recording])
    assert_same(recording, watch)
    assert recording.failure == {
        "type": "PassFailedError",
        "message": "ValueError: out of luck",
        "where": "pass 'break'",
        "hint": "run with --debug for the traceback",
    }
    assert [event.step for event in recording.events] == [1, 2]


def test_rewrite_that_verification_refuses_is_recorded():
    @passes.verify.equality
    class ExpToAbs(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Exp(x)

        def rewrite(self, op, x):
            return op.Abs(x)

    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Exp(x) }')
    recording = Recording()
    with pytest.raises(OnnxPassesError):
        apply(model, ExpToAbs, instruments=[recording])
    assert [(event.rule, [node.op for node in event.changes.added]) for event in recording.events] == [
        ("ExpToAbs", ["Abs"])
    ]
    assert recording.failure is not None
    assert recording.failure["details"]["source"].startswith(__file__)


def test_rewrite_takes_what_only_it_used_with_it():
    text = """
    <ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y)
    <float[2] w = {1.0, 2.0}>
    { c = Constant <value = float[2] {3.0, 4.0}> () s = Add(c, w) n = Mul(x, s) y = Exp(x) z = Neg(n) }
    """

    class Drop(EditorPass):
        def edit(self, model: ir.Model, editor: Editor) -> None:
            editor.remove("unused", [node for node in editor.graph if node.op_type == "Neg"])

    recording, watch = record(ir.from_onnx_text(text), Drop)
    (event,) = recording.events
    assert sorted(node.op for node in event.changes.removed) == ["Add", "Constant", "Mul", "Neg"]
    assert "w" in [old.name for old, new in event.changes.values if old is not None and new is None]
    assert_same(recording, watch)


def test_users_of_what_is_replaced_are_rewired_and_not_changed():
    text = (
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Exp(b) }'
    )
    recording, _ = record(ir.from_onnx_text(text), CancelNeg)
    (event,) = recording.events
    assert [(str(old), str(new)) for old, new in event.changes.rewired] == [("y = Exp(b)", "y = Exp(x)")]
    assert [node.op for node in event.changes.removed] == ["Neg", "Neg"]
    assert not event.changes.added
    assert event.root is not None
    assert event.root.outputs == ("b",)


def test_what_a_pass_changes_beside_its_rewrites_is_an_event_of_the_step():
    class Both(EditorPass):
        def edit(self, model: ir.Model, editor: Editor) -> None:
            for node in list(editor.graph):
                if node.op_type == "Exp":
                    with editor.rewrite("Exp", node) as r:
                        r.replace(node.outputs[0], r.op.Abs(node.inputs[0]))
            editor.graph.node(0).name = "renamed"

    text = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { [n] a = Neg(x) [e] y = Exp(a) }'
    recording, watch = record(ir.from_onnx_text(text), Both)
    assert [(event.application, event.rule) for event in recording.events] == [(1, "Exp"), (0, "")]
    assert [node.name for node in recording.events[1].changes.added] == ["renamed"]
    assert_same(recording, watch)


def test_model_built_anew_but_alike_is_no_change():
    class Copy(Transformation):
        @property
        def in_place(self):
            return False

        def call(self, model):
            return PassResult(copy_model(model), modified=True)

    recording, watch = record(ir.from_onnx_text(BRANCHES), [Copy, CancelNeg])
    assert {event.step for event in recording.events} == {2}
    assert_same(recording, watch)


def test_state_of_a_sequence_is_that_after_its_last_step():
    recording, _ = record(examples.path("digits-cnn"), "streamline")
    assert recording.run is not None
    assert recording.run.steps[0].has_children
    assert told(recording.state(1)) == told(recording.final)
    assert told(recording.state(0)) != told(recording.final)


def test_interfaces_follow_the_model():
    class Rename(Transformation):
        def call(self, model):
            model.graph.outputs[0].name = "result"
            return PassResult(model, modified=True)

    recording, _ = record(ir.from_onnx_text(BRANCHES), [Rename])
    before, after = ({i.graph: i for i in state.interfaces} for state in (recording.state(0), recording.final))
    assert (before[0].inputs, before[0].outputs) == (("c", "x"), ("y",))
    assert (after[0].inputs, after[0].outputs) == (("c", "x"), ("result",))
    assert [graph.attribute for graph in recording.graphs] == ["", "then_branch", "else_branch"]


def test_nothing_is_recorded_without_a_report(monkeypatch):
    def refuse(self, *_):
        raise AssertionError("recorded")

    monkeypatch.setattr(Live, "look", refuse)
    monkeypatch.setattr(Live, "touch", refuse)
    result = apply(ir.from_onnx_text(BRANCHES), "simplify")
    assert result.recording is None
    with pytest.raises(UsageError, match="report=True"):
        result.report("never.html")


class OtherWeights(EditorPass):
    def edit(self, model: ir.Model, editor: Editor) -> None:
        (node,) = editor.graph
        with editor.rewrite("other weights", node) as r:
            r.replace(node.outputs[0], r.op.Add(node.inputs[0], np.ones(5000, np.float32)))


class Alive(Instrument):
    """Notes when a tensor is gone."""

    def __init__(self, tensor: weakref.ref) -> None:
        self.tensor = tensor
        self.seen: list[bool] = []

    def _look(self) -> None:
        gc.collect()
        self.seen.append(self.tensor() is not None)

    def after_rewrite(self, application) -> None:
        self._look()

    def before_pass(self, record, step, model) -> None:
        self._look()

    def after_pipeline(self, run, model) -> None:
        self._look()


def lifetime(recording: Recording | None) -> list[bool]:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[5000] x) => (float[5000] y) { y = Add(x, x) }'
    model = ir.from_onnx_text(text)
    weights = ir.Value(name="w", const_value=ir.tensor(np.arange(5000, dtype=np.float32), name="w"))
    model.graph.register_initializer(weights)
    model.graph.node(0).replace_input_with(1, weights)
    alive = Alive(weakref.ref(weights.const_value))
    del weights
    watchers = [alive] if recording is None else [alive, recording]
    apply(model, [OtherWeights, CancelNeg], verify=False, instruments=watchers, in_place=True)
    return alive.seen


def test_no_tensor_lives_longer_than_the_run_keeps_it():
    recording = Recording()
    assert lifetime(recording) == lifetime(None)
    assert not lifetime(None)[-1]
    constants = {value.name: value.description.constant for value in recording.original.values}
    assert constants["w"] is not None
    assert constants["w"].max == 4999


def test_memory_grows_with_what_changed_and_not_with_the_model():
    def kept(nodes: int) -> int:
        body = "\n".join(f"v{i + 1} = Tanh(v{i})" for i in range(nodes))
        head = '<ir_version: 10, opset_import: ["": 20]> g (float[2] v0) => (float[2] y)'
        text = f"{head} {{ {body} a = Neg(v{nodes}) b = Neg(a) y = Exp(b) }}"
        recording, _ = record(ir.from_onnx_text(text), CancelNeg)
        changes = [event.changes for event in recording.events]
        return sum(len(c.removed) + len(c.added) + len(c.rewired) + len(c.values) for c in changes)

    assert kept(300) == kept(10)
