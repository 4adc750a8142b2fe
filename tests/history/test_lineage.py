from __future__ import annotations

import gc
import weakref

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply
from onnx_passes.core.compose import Fixpoint
from onnx_passes.core.errors import PassFailedError, UsageError
from onnx_passes.graph.copy import copy_model
from onnx_passes.history.recording import Recording

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x, float[2] z) => (float[2] y, float[2] last)
{
  [first] a = Neg(x)
  [second] b = Neg(a)
  [sum] c = Add(b, z)
  [act] y = Relu(c)
  [lonely] last = Exp(z)
}
"""


def model() -> ir.Model:
    return ir.from_onnx_text(MODEL)


def trace(pipeline, given: ir.Model | None = None) -> Recording:
    lineage = Recording()
    apply(given or model(), pipeline, instruments=[lineage], verify=False)
    return lineage


class AddToSub(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Add(x, y)

    def rewrite(self, op, x, y):
        return op.Sub(x, op.Neg(y))


class SubToSum(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Sub(x, op.Neg(y))

    def rewrite(self, op, x, y):
        return op.Sum(x, y)


class CancelNeg(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return x


class SinkRelu(Transformation, RewriteRulePass):
    """Puts another node in the place of a graph output."""

    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        return op.Max(x, np.float32(0))


class Unused(Transformation):
    """Removes a node without a rule."""

    def call(self, model):
        graph = model.graph
        node = graph.node("lonely")
        graph.outputs.pop()
        graph.remove(node, safe=True)
        return PassResult(model, modified=True)


def texts(items) -> list[str]:
    return [str(item) for item in items]


def test_node_that_nothing_touched_is_as_in_the_original():
    story = trace(AddToSub).of("lonely")
    assert story.present
    assert (story.events, texts(story.origins)) == ((), ["last = Exp(z)"])
    assert "as in the original model" in str(story)


def test_chain_of_rule_applications_back_to_the_original():
    story = trace([AddToSub, SubToSum]).of("c")
    assert story.present
    assert str(story.item) == "c = Sum(b, z)"
    assert [(event.application, event.step, event.rule) for event in story.events] == [
        (2, 2, "SubToSum"),
        (1, 1, "AddToSub"),
    ]
    assert "test_lineage.py:" in story.events[0].source
    assert texts(story.events[1].matched) == ["c = Add(b, z)"]
    assert texts(story.origins) == ["c = Add(b, z)"]
    assert "from application 2 of SubToSum" in str(story)
    assert "originally: c = Add(b, z)" in str(story)


def test_only_ancestors_are_told():
    story = trace([CancelNeg, SinkRelu, AddToSub]).of("y")
    assert [event.rule for event in story.events] == ["SinkRelu"]
    assert texts(story.origins) == ["y = Relu(c)"]


def test_node_that_two_became_has_both_as_origins():
    class Join(Transformation, RewriteRulePass):
        def pattern(self, op, x, y):
            return op.Relu(op.Add(x, y))

        def rewrite(self, op, x, y):
            return op.Fused(x, y, _domain="my.domain")

    story = trace(Join).of("y")
    assert str(story.item) == "y = my.domain::Fused(b, z)"
    assert sorted(texts(story.origins)) == ["c = Add(b, z)", "y = Relu(c)"]


def test_lost_node_names_who_removed_it_and_what_replaced_it():
    lineage = trace([AddToSub, SubToSum])
    added = next(item for item in lineage.events[0].added if item.op == "Neg")
    story = lineage.of(added.outputs[0])
    assert not story.present
    assert [event.rule for event in story.fate] == ["SubToSum"]
    assert texts(story.successors) == ["c = Sum(b, z)"]
    assert [event.rule for event in story.events] == ["AddToSub"]
    assert "is gone" in str(story)
    assert "removed by application 2 of SubToSum" in str(story)


def test_lost_node_whose_place_is_taken_by_what_was_there():
    story = trace(CancelNeg).of("second")
    assert not story.present
    assert [event.rule for event in story.fate] == ["CancelNeg"]
    assert texts(story.successors) == ["x (graph input)"]


def test_what_replaced_a_lost_node_is_followed_to_the_result():
    class DropNeg(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Abs(op.Neg(x))

        def rewrite(self, op, x):
            return op.Sqrt(op.Mul(x, x))

    class Square(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Sqrt(op.Mul(x, x))

        def rewrite(self, op, x):
            return op.Max(x, op.Neg(x))

    given = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Exp(b) }'
    )
    story = trace([DropNeg, Square], given).of("a")
    assert [event.rule for event in story.fate] == ["DropNeg", "Square"]
    assert sorted(item.op for item in story.successors) == ["Max", "Neg"]


def test_output_that_takes_over_a_name_is_followed():
    given = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y){ h = Exp(x) n = Neg(h) y = Neg(n) }'
    )
    lineage = trace(CancelNeg, given)
    story = lineage.of("y")
    assert str(story.item) == "y = Exp(x)"
    assert [event.rule for event in story.events] == ["CancelNeg"]
    assert texts(story.origins) == ["h = Exp(x)"]
    gone = lineage.of("h")
    assert not gone.present
    assert texts(gone.successors) == ["y = Exp(x)"]


def test_pass_without_rules_that_removes():
    lineage = trace([AddToSub, Unused])
    story = lineage.of("lonely")
    assert not story.present
    [event] = story.fate
    assert (event.step, event.text, event.application) == (2, "unused", 0)
    assert texts(story.successors) == []
    assert "removed by step 2, unused" in str(story)
    assert "in the result: nothing" in str(story)


def test_pass_without_rules_that_replaces():
    class Fold(Transformation):
        def call(self, model):
            graph = model.graph
            node = graph.node("second")
            value = ir.Value(name="folded", const_value=ir.Tensor(np.ones(2, np.float32)))
            graph.register_initializer(value)
            node.outputs[0].replace_all_uses_with(value)
            graph.remove([graph.node("second"), graph.node("first")], safe=True)
            return PassResult(model, modified=True)

    lineage = trace(Fold)
    story = lineage.of("folded")
    assert str(story.item) == "folded (initializer)"
    assert [event.text for event in story.events] == ["fold"]
    assert texts(story.origins) == ["b = Neg(a)"]
    gone = lineage.of("second")
    assert texts(gone.successors) == ["folded (initializer)"]


def test_pass_without_rules_that_lets_an_old_node_take_the_place():
    class Merge(Transformation):
        def call(self, model):
            graph = model.graph
            graph.node("act").replace_input_with(0, graph.node("first").outputs[0])
            graph.remove([graph.node("sum"), graph.node("second")], safe=True)
            return PassResult(model, modified=True)

    lineage = trace(Merge)
    assert texts(lineage.of("sum").successors) == ["a = Neg(x)"]
    assert texts(lineage.of("second").successors) == []
    assert lineage.of("first").events == ()


def test_renamed_node_keeps_its_story():
    class Rename(Transformation):
        def call(self, model):
            for node in model.graph:
                if node.op_type == "Sub":
                    node.name, node.outputs[0].name = "new_name", "new_value"
            return PassResult(model, modified=True)

    lineage = trace([AddToSub, Rename])
    story = lineage.of("new_value")
    assert [event.text for event in story.events] == ["rename", "add-to-sub"]
    assert texts(story.origins) == ["c = Add(b, z)"]
    gone = lineage.of("c")
    assert not gone.present
    assert [item.outputs for item in gone.successors] == [("new_value",)]


def test_changed_attribute_is_part_of_the_story():
    class Retype(Transformation):
        def call(self, model):
            node = model.graph.node("act")
            node.op_type, node.attributes["alpha"] = "LeakyRelu", ir.AttrFloat32("alpha", 0.0)
            return PassResult(model, modified=True)

    class Twist(Transformation):
        def call(self, model):
            model.graph.node("act").attributes["alpha"] = ir.AttrFloat32("alpha", 1.0)
            return PassResult(model, modified=True)

    story = trace([Retype, Twist]).of("act")
    assert [event.text for event in story.events] == ["twist", "retype"]
    assert texts(story.origins) == ["y = Relu(c)"]


def test_model_built_anew_is_followed_by_name():
    class Rebuild(Transformation):
        @property
        def in_place(self):
            return False

        def call(self, model):
            return PassResult(copy_model(model), modified=True)

    lineage = trace([AddToSub, Rebuild, SubToSum])
    assert [event.rule for event in lineage.of("c").events] == ["SubToSum", "AddToSub"]
    assert lineage.of("lonely").events == ()


def test_rounds_of_a_fixpoint_are_told():
    story = trace(Fixpoint(body=(AddToSub, SubToSum))).of("c")
    assert [event.step for event in story.events] == [3, 2]


def test_constant_that_a_rule_made():
    lineage = trace(SinkRelu)
    [name] = [name for item in lineage.events[0].added for name in item.names if item.op == "initializer"]
    story = lineage.of(name)
    assert [event.rule for event in story.events] == ["SinkRelu"]


def test_input_of_the_model():
    assert str(trace(AddToSub).of("x")).startswith("x (graph input)")


def test_failed_run_can_be_asked_too():
    class Fail(Transformation):
        def call(self, model):
            raise ValueError("out of luck")

    lineage = Recording()
    with pytest.raises(PassFailedError):
        apply(model(), [AddToSub, Fail], instruments=[lineage], verify=False)
    assert [event.rule for event in lineage.of("c").events] == ["AddToSub"]


def test_nothing_of_the_model_is_kept_alive():
    lineage = Recording()
    given = model()
    result = apply(given, [AddToSub, SubToSum, Unused], instruments=[lineage], verify=False)
    watched = weakref.ref(result.model.graph)
    del result
    gc.collect()
    assert watched() is None
    assert lineage.of("c").present


def test_instrument_can_be_used_again():
    lineage = Recording()
    for _ in range(2):
        apply(model(), AddToSub, instruments=[lineage], verify=False)
    assert len(lineage.events) == 1


def test_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UsageError) as caught:
        trace(AddToSub).of("lonly")
    assert "did you mean 'lonely'?" in str(caught.value)


def test_plain_data():
    data = trace([AddToSub, SubToSum]).of("c").to_json()
    assert data["present"] is True
    assert data["node"]["op_type"] == "Sum"
    assert [event["application"] for event in data["from"]] == [2, 1]
    assert data["origins"][0]["op_type"] == "Add"
