"""The editor: what is announced is put in place as one, what is refused or vetoed leaves no trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply, no
from onnx_passes.core.base import Context
from onnx_passes.core.errors import PassFailedError, RewriteError
from onnx_passes.core.instruments import Instrument, Limit
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.core.records import Application
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.verify.failure import PostconditionError

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
CHAIN = f"{HEAD} g (float[2,3] x) => (float[2,3] y) {{ a = Neg (x) b = Neg (a) c = Relu (b) y = Relu (c) }}"


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def node_of(model: ir.Model, output: str) -> ir.Node:
    return next(node for node in model.graph if node.outputs[0].name == output)


def tensor(*numbers: float) -> ir.Tensor:
    return ir.tensor(np.array(numbers, np.float32))


def uses(model: ir.Model) -> dict[str, int]:
    values = (*model.graph.inputs, *(value for node in model.graph for value in node.outputs))
    return {str(value.name): len(value.uses()) for value in values}


class NegNeg(EditorPass):
    """Take back two Negs, by a factor that should be 1."""

    factor: float = 1.0

    def edit(self, model: ir.Model, editor: Editor) -> None:
        for node in list(model.graph):
            inner = node.inputs[0].producer() if node.op_type == "Neg" and node.inputs[0] else None
            if inner is None or inner.op_type != "Neg":
                continue
            with editor.rewrite("neg of neg", node, matched=[inner, node]) as r:
                x = inner.inputs[0]
                r.replace(node.outputs[0], x if self.factor == 1 else r.op.Mul(x, self.factor))


def test_a_value_is_replaced_and_what_nobody_uses_goes():
    model = ir.from_onnx_text(CHAIN)
    assert NegNeg().run(model, Context()).modified
    assert operators(model) == ["Relu", "Relu"]
    assert [value.name for value in model.graph.outputs] == ["y"]


def test_the_last_node_keeps_the_name_of_an_output_and_its_annotations():
    model = ir.from_onnx_text(CHAIN)
    model.graph.outputs[0].metadata_props["about"] = "kept"
    with Editor(model) as editor, editor.rewrite("relu", node_of(model, "y")) as r:
        r.replace(model.graph.outputs[0], r.op.Abs(node_of(model, "c").outputs[0]))
    assert operators(model) == ["Neg", "Neg", "Relu", "Abs"]
    assert model.graph.outputs[0].name == "y"
    assert model.graph.outputs[0].metadata_props["about"] == "kept"


def test_what_is_refused_is_counted_and_leaves_no_trace():
    model, context = ir.from_onnx_text(CHAIN), Context()
    before = uses(model), str(model)
    with Editor(model, context) as editor:
        with editor.rewrite("relu", node_of(model, "y")) as r:
            r.replace(model.graph.outputs[0], r.op.Abs(node_of(model, "c").outputs[0]))
            assert not r.refuse("too dear", at=node_of(model, "c"))
        assert not r.applied
    assert (uses(model), str(model)) == before
    [record] = context.record.rules
    assert (record.name, record.tried, record.applied, dict(record.refused)) == ("relu", 1, 0, {"too dear": 1})
    assert "test_editor.py" in record.source


def test_an_error_leaves_no_trace_and_says_where():
    model = ir.from_onnx_text(CHAIN)
    before = uses(model), str(model)
    with (
        pytest.raises(RewriteError, match="Relo") as raised,
        Editor(model) as editor,
        editor.rewrite("relu", node_of(model, "y")) as r,
    ):
        r.replace(model.graph.outputs[0], r.op.Relo(node_of(model, "c").outputs[0]))
    assert raised.value.where is not None
    assert "rewrite 'relu' at Relu 'y'" in raised.value.where
    assert (uses(model), str(model)) == before


def test_a_limit_stops_inside():
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Neg (x) b = Neg (a) c = Relu (b) d = Neg (c) y = Neg (d) }}"
    model = ir.from_onnx_text(text)
    limit = Limit(1)
    record = Manager([limit]).run(plan(NegNeg()), model).record
    assert limit.reached
    assert operators(model) == ["Relu", "Neg", "Neg"]
    assert record.steps[0].applications == 1
    assert record.steps[0].rules[0].refused == {"limit of 1 rule applications reached": 1}


def test_rewrites_are_announced_with_nodes_and_values():
    seen: list[tuple[str, list[str], list[tuple[str | None, str | None]]]] = []

    class Watch(Instrument):
        def before_rewrite(self, application: Application) -> None:
            pairs = [(old.name, new.name) for old, new in application.replaced]
            seen.append((application.rule, [node.op_type for node in application.matched], pairs))

    Manager([Watch()]).run(plan(NegNeg()), ir.from_onnx_text(CHAIN))
    assert seen == [("neg of neg", ["Neg", "Neg"], [("b", "x")])]


def test_a_wrong_rewrite_is_blamed():
    with pytest.raises(PostconditionError) as raised:
        apply(ir.from_onnx_text(CHAIN), NegNeg(factor=1.5))
    failure = raised.value.failure
    assert "neg of neg" in failure.application
    assert "b = Neg(a)" in failure.matched
    assert "Mul" in failure.replacement


def test_new_nodes_may_use_what_comes_later():
    text = (
        f"{HEAD} g (float[2] x) => (float[2] y, float[2] z) {{ a = Neg (x) y = Abs (x) b = Relu (x) z = Mul (a, b) }}"
    )
    model = ir.from_onnx_text(text)
    with Editor(model) as editor, editor.rewrite("late", node_of(model, "y")) as r:
        r.replace(model.graph.outputs[0], r.op.Sub(node_of(model, "b").outputs[0], node_of(model, "a").outputs[0]))
    order = [node.outputs[0].name for node in model.graph]
    assert order.index("b") < order.index("y")


def test_a_cycle_is_refused():
    model, context = ir.from_onnx_text(CHAIN), Context()
    with Editor(model, context) as editor, editor.rewrite("circle", node_of(model, "a")) as r:
        r.replace(node_of(model, "a").outputs[0], r.op.Neg(node_of(model, "c").outputs[0]))
    assert not r.applied
    assert context.record.rules[0].refused == {"the replacement would close a cycle": 1}


def test_changes_of_no_value_are_announced_and_limited():
    model = ir.from_onnx_text(CHAIN.replace("c = Relu", "unused = Exp (b) c = Relu"))
    dead = node_of(model, "unused")
    context = Context(before_rewrite=lambda application: "not now")
    with Editor(model, context) as editor:
        assert not editor.remove("unused node", [dead])
    assert dead.graph is model.graph
    with Editor(model) as editor:
        assert editor.remove("unused node", [dead])
        assert editor.applied == 1
    assert operators(model) == ["Neg", "Neg", "Relu", "Relu"]


def test_a_pass_without_edit_is_refused():
    class Empty(EditorPass):
        pass

    with pytest.raises(PassFailedError, match="edit"):
        apply(ir.from_onnx_text(CHAIN), Empty())


def test_values_in_subgraphs_are_replaced():
    text = f"""{HEAD} g (bool t, float[2] x) => (float[2] y) {{
        a = Neg (x) b = Neg (a)
        y = If (t) <
            then_branch = h () => (float[2] p) {{ p = Relu (b) }},
            else_branch = k () => (float[2] q) {{ q = Abs (b) }}
        >
    }}"""
    model = ir.from_onnx_text(text)
    assert NegNeg().run(model, Context()).modified
    assert operators(model) == ["If"]
    inner = [node for graph in model.graph[0].attributes.values() for node in graph.as_graph()]
    assert {node.inputs[0].name for node in inner if node.inputs[0]} == {"x"}


def test_answers_are_those_of_rules():
    model = ir.from_onnx_text(CHAIN)
    with Editor(model) as editor, editor.rewrite("relu", node_of(model, "y")) as r:
        answer: Any = r.refuse("no")
    assert type(answer) is type(no("no"))


CONSTANT = f"""{HEAD} g (float[2] x) => (float[2] y, float[2] z) <float[2] w = {{1, 4}}> {{
    z = Sqrt (w) a = Neg (w) y = Add (x, a)
}}"""


def test_constants_take_the_names_of_what_they_replace():
    model = ir.from_onnx_text(CONSTANT)
    with Editor(model) as editor:
        assert editor.store("known", node_of(model, "a"), {node_of(model, "a").outputs[0]: tensor(-1, -4)})
        assert editor.store("known", node_of(model, "z"), {model.graph.outputs[1]: tensor(1, 2)})
    assert operators(model) == ["Constant", "Add"]
    assert list(model.graph.initializers) == ["a"]
    assert [value.name for value in model.graph.outputs] == ["y", "z"]
    assert model.graph.outputs[1].producer() is model.graph[0]


def test_models_whose_initializers_are_inputs_get_constant_nodes():
    model = ir.from_onnx_text(CONSTANT.replace("ir_version: 10", "ir_version: 3"))
    with Editor(model) as editor:
        editor.store("known", node_of(model, "a"), {node_of(model, "a").outputs[0]: tensor(-1, -4)})
    assert operators(model) == ["Sqrt", "Constant", "Add"]


def test_constants_that_are_vetoed_leave_no_trace():
    model = ir.from_onnx_text(CONSTANT)
    before = uses(model), str(model)
    with Editor(model, Context(before_rewrite=lambda application: "not now")) as editor:
        assert not editor.store("known", node_of(model, "a"), {node_of(model, "a").outputs[0]: tensor(-1, -4)})
    assert (uses(model), str(model)) == before


class StoreWrongly(EditorPass):
    """Put a wrong constant in the place of one value."""

    def edit(self, model: ir.Model, editor: Editor) -> None:
        editor.store("stored", node_of(model, "a"), {node_of(model, "a").outputs[0]: tensor(-1, -5)})


def test_a_wrong_constant_is_blamed():
    with pytest.raises(PostconditionError) as raised:
        apply(ir.from_onnx_text(CONSTANT), StoreWrongly())
    assert "by stored" in raised.value.failure.application
    assert raised.value.failure.matched == "a = Neg(w)"


def test_refusals_are_kept_for_who_asks():
    model, context = ir.from_onnx_text(CHAIN), Context(refusals=[])
    with Editor(model, context) as editor:
        with editor.rewrite("relu", node_of(model, "y")) as r:
            r.refuse("too dear", at=node_of(model, "c"))
        editor.refuse("neg", "no reason", node_of(model, "a"))
    assert context.refusals is not None
    kept = [(each.rule, each.node, each.reason, each.at) for each in context.refusals]
    assert kept == [
        ("relu", node_of(model, "y"), "too dear", node_of(model, "c")),
        ("neg", node_of(model, "a"), "no reason", None),
    ]


def test_after_a_veto_nothing_is_asked_any_more():
    asked: list[int] = []

    def veto(application: Application) -> str:
        asked.append(application.number)
        return "enough"

    with Editor(ir.from_onnx_text(CHAIN), Context(before_rewrite=veto)) as editor:
        assert not editor.change("order", (), lambda: None)
        assert not editor.change("order", (), lambda: None)
    assert len(asked) == 1


def test_a_node_is_built_like_another_without_outputs_that_are_left_out():
    text = f"{HEAD} g (float[2,1,3] x, float[1,8,3] w, float[1,8,2] r, float[1,1,2] h) => (float[1,1,2] y)"
    model = ir.from_onnx_text(text + " { , y = LSTM <hidden_size = 2> (x, w, r, , , h) }")
    lstm = model.graph[0]
    with Editor(model) as editor, editor.rewrite("state", lstm) as r:
        built = r.op.like(lstm, lstm.inputs[:3])
        r.replace(lstm.outputs[1], built[1])
    assert [value.name for value in model.graph[0].outputs] == ["", "y"]
    assert model.graph[0].attributes["hidden_size"].as_int() == 2


def test_functions_are_edited_one_by_one():
    class Everywhere(NegNeg):
        functions = True

        def edit(self, model: ir.Model, editor: Editor) -> None:
            for node in list(editor.graph):
                if node.op_type == "Neg":
                    with editor.rewrite("neg", node) as r:
                        r.replace(node.outputs[0], r.op.Mul(node.inputs[0], np.float32(-1)))

    text = """<ir_version: 10, opset_import: ["": 20, "local": 1]>
        g (float[2] x) => (float[2] y) { a = Neg (x) y = local.f (a) }
        <domain: "local", opset_import: ["": 20]> f (x) => (y) { y = Neg (x) }"""
    result = apply(ir.from_onnx_text(text), Everywhere())
    [function] = result.model.functions.values()
    assert operators(result.model) == ["Mul", "f"]
    assert [node.op_type for node in function] == ["Constant", "Mul"]
    assert result.record.steps[-1].applications == 2
