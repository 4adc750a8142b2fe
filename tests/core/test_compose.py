"""Sequences: in order, or until nothing changes any more."""

import onnx_ir as ir
import onnx_ir.passes.common as stock
import pytest

from onnx_passes.core.base import Annotation, PassResult, Transformation
from onnx_passes.core.compose import ComposePass, Fixpoint, Group
from onnx_passes.core.errors import OptionError, PassFailedError, PlanError
from onnx_passes.core.manager import Manager, Outcome
from onnx_passes.core.options import option
from onnx_passes.core.plan import plan
from onnx_passes.core.registry import REGISTRY, Registry


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    for name, value in vars(Registry()).items():
        monkeypatch.setattr(REGISTRY, name, value)


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]> g (float[1] x) => (float[1] y) { y = Relu(x) }')


class Cycle(Transformation):
    """Replace each operator by the next of a list; the last stays."""

    ops: tuple[str, ...] = option(())

    def call(self, model):
        modified = False
        for node in model.graph:
            if node.op_type in self.ops[:-1]:
                node.op_type = self.ops[self.ops.index(node.op_type) + 1]
                modified = True
        return PassResult(model, modified)


class Grow(Transformation):
    """Put one more Relu in front, without end."""

    def call(self, model):
        node = ir.Node("", "Relu", [model.graph.inputs[0]])
        model.graph[0].replace_input_with(0, node.outputs[0])
        model.graph.insert_before(model.graph[0], node)
        return PassResult(model, modified=True)


class Note(Annotation):
    """Claim a change each time, and change nothing of the structure."""

    def call(self, model):
        model.metadata_props["seen"] = model.metadata_props.get("seen", "") + "."
        return PassResult(model, modified=True)


class Claim(Transformation):
    """Claim a change without any."""

    def call(self, model):
        return PassResult(model, modified=True)


def run(model: ir.Model, *passes) -> Outcome:
    return Manager().run(plan(passes), model)


def outcome(model: ir.Model, sequence: ComposePass) -> tuple[str, int, list[str]]:
    """Return the last operator, the number of rounds, and the notes."""
    record = run(model, sequence).record
    rounds = sum(step.depth == 1 for step in record.steps) // len(sequence.body)
    return model.graph[-1].op_type, rounds, record.steps[0].notes


def test_members_run_in_order_once(model):
    class Both(ComposePass):
        passes = (Cycle(ops=("Relu", "Abs")), Cycle(ops=("Abs", "Neg")))

    assert outcome(model, Both()) == ("Neg", 1, [])


def test_members_may_be_names_text_classes_and_objects(model):
    REGISTRY.register(Cycle)

    class Mixed(ComposePass):
        passes = ("cycle{ops=[Relu, Abs]}, cycle{ops=[Abs, Neg]}", Note, Cycle(ops=("Neg", "Tanh")))

    record = run(model, Mixed).record
    assert model.graph[0].op_type == "Tanh"
    assert [step.text for step in record.steps] == [
        "mixed",
        "cycle{ops=[Relu, Abs]}",
        "cycle{ops=[Abs, Neg]}",
        "note",
        "cycle{ops=[Neg, Tanh]}",
    ]
    assert [step.depth for step in record.steps] == [0, 1, 1, 1, 1]
    assert [step.why for step in record.steps] == ["requested", *["member of mixed"] * 4]


def test_an_exhaustive_sequence_runs_until_nothing_changes(model):
    class Chain(ComposePass):
        passes = (Cycle(ops=("Relu", "Abs", "Neg", "Tanh")),)
        exhaustive = True

    assert outcome(model, Chain()) == ("Tanh", 4, [])


def test_an_exhaustive_sequence_has_an_end_and_says_so(model):
    class Endless(ComposePass):
        passes = (Grow(),)
        exhaustive = True
        rounds = 5

    assert outcome(model, Endless()) == ("Relu", 5, ["stopped after 5 rounds, still changing"])
    assert len(model.graph) == 6


def test_a_fixpoint_ends_when_nothing_changes(model):
    assert outcome(model, Fixpoint(body=(Cycle(ops=("Relu", "Abs", "Neg")),))) == ("Neg", 3, [])


def test_a_fixpoint_of_nothing_does_nothing(model):
    record = run(model, Fixpoint()).record
    assert (len(record.steps), record.modified, record.steps[0].notes) == (1, False, [])


def test_a_fixpoint_ends_when_a_state_comes_back(model):
    circle = Cycle(ops=("Relu", "Abs", "Neg", "Relu"))
    note = "stopped: round 5 returned to an earlier state"
    assert outcome(model, Fixpoint(body=(circle,))) == ("Neg", 5, [note]), "states are compared from round 2 on"


def test_a_fixpoint_ends_when_members_undo_each_other_in_one_round(model):
    body = (Cycle(ops=("Relu", "Abs")), Cycle(ops=("Abs", "Relu")))
    assert outcome(model, Fixpoint(body=body)) == ("Relu", 4, []), "states are compared from round 2 on"


@pytest.mark.parametrize("idle", [Note, Claim])
def test_changes_that_are_none_of_the_structure_end_a_fixpoint_silently(model, idle):
    body = (Cycle(ops=("Relu", "Abs", "Neg")), idle())
    assert outcome(model, Fixpoint(body=body)) == ("Neg", 4, [])


@pytest.mark.parametrize(("most", "op", "notes"), [(1, "Abs", 0), (2, "Neg", 1), (3, "Tanh", 1), (4, "Tanh", 0)])
def test_a_fixpoint_ends_after_its_rounds(model, most, op, notes):
    body = (Cycle(ops=("Relu", "Abs", "Neg", "Tanh")),)
    last, rounds, said = outcome(model, Fixpoint(max=most, body=body))
    assert (last, rounds) == (op, most)
    assert said == [f"stopped after {most} rounds, still changing"] * notes


@pytest.mark.parametrize("most", [0, -1])
def test_less_than_one_round_is_refused(most):
    with pytest.raises(OptionError, match=f"does not take {most}; it takes 1 or more"):
        Fixpoint(max=most)


def test_a_fixpoint_inside_a_fixpoint(model):
    inner = Fixpoint(body=(Cycle(ops=("Abs", "Neg", "Tanh")),))
    outer = Fixpoint(body=(Cycle(ops=("Relu", "Abs")), inner))
    record = run(model, outer).record
    assert model.graph[0].op_type == "Tanh"
    assert [(step.depth, step.modified) for step in record.steps] == [
        (0, True),
        (1, True),
        (1, True),
        (2, True),
        (2, True),
        (2, False),
        (1, False),
        (1, False),
        (2, False),
    ]


def test_as_many_levels_run_as_can_be_written(model):
    REGISTRY.register(Fixpoint)
    REGISTRY.register(Cycle)
    text = "fixpoint(" * 49 + "cycle{ops=[Relu, Abs]}" + ")" * 49
    record = run(model, text).record
    assert model.graph[0].op_type == "Abs"
    assert record.pipeline == text
    assert max(step.depth for step in record.steps) == 49


def test_text_of_a_fixpoint_names_its_members():
    REGISTRY.register(Note, "NOTE")
    body = ("a, b{x=1}", Note, Claim, Cycle(ops=("Relu", "Abs")), Fixpoint(max=2, body=("c",)), Group(label="g"))
    assert str(Fixpoint(max=7, body=body)) == (
        "fixpoint{max=7}(a, b{x=1}, NOTE, claim, cycle{ops=[Relu, Abs]}, fixpoint{max=2}(c), g)"
    )


def test_a_sequence_alone_runs_in_a_manager_of_its_own(model):
    class Both(ComposePass):
        passes = (Cycle(ops=("Relu", "Abs")), Note)

    result = Both()(model)
    assert result.modified
    assert result.model is model
    assert model.graph[0].op_type == "Abs"
    assert not Fixpoint(body=(Cycle(ops=("Relu", "Abs")),))(model).modified


def test_a_sequence_alone_reports_which_member_failed(model):
    class Fails(Transformation):
        def call(self, model):
            raise ValueError("boom")

    class Both(ComposePass):
        passes = (Note, Fails)

    with pytest.raises(PassFailedError, match="pass 'fails': ValueError: boom"):
        Both()(model)


def test_a_sequence_inside_of_onnx_ir(model):
    class Both(ComposePass):
        passes = (Cycle(ops=("Relu", "Abs")), Cycle(ops=("Abs", "Neg")))

    result = ir.passes.PassManager([Both(), stock.NameFixPass()], steps=3)(model)
    assert (result.modified, model.graph[0].op_type) == (True, "Neg")


def test_a_sequence_alone_may_hold_passes_that_return_a_new_model(model):
    class Copying(ComposePass):
        passes = (Cycle(ops=("Relu", "Abs")), ir.passes.functionalize(Cycle(ops=("Abs", "Neg"))))

    assert not Copying().in_place
    result = Copying()(model)
    assert result.model is not model
    assert result.model.graph[0].op_type == "Neg"
    assert ir.passes.Sequential(Copying(), Note())(model).model is not model


def test_a_sequence_that_contains_itself_is_refused(model):
    class Snake(ComposePass):
        passes = ("snake",)

    REGISTRY.register(Snake)
    with pytest.raises(PlanError, match="snake → snake"):
        Snake()(model)


def test_a_sequence_class_may_take_members_from_python(model):
    class Frame(ComposePass):
        """Members come from outside."""

    assert outcome(model, Frame(body=(Cycle(ops=("Relu", "Abs")),))) == ("Abs", 1, [])


def test_round_that_only_annotated_gets_one_more():
    class Learn(Annotation):
        def call(self, model: ir.Model) -> PassResult:
            fresh = "learnt" not in model.graph.metadata_props
            model.graph.metadata_props["learnt"] = "yes"
            return PassResult(model, fresh)

    class Use(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            changes = "learnt" in model.graph.metadata_props and model.graph.num_nodes() > 1
            if changes:
                last = model.graph[-1]
                last.outputs[0].replace_all_uses_with(last.inputs[0], replace_graph_outputs=True)
                model.graph.remove(last, safe=True)
            return PassResult(model, changes)

    model = ir.from_onnx_text("""
        <ir_version: 10, opset_import: ["": 20]>
        g (float[2] x) => (float[2] y) { h = Relu(x) y = Relu(h) }
    """)
    Fixpoint(body=(Use(), Learn()))(model)
    assert model.graph.num_nodes() == 1
