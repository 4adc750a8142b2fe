"""Putting a replacement in place: interface, names, annotations and imports stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import RewriteError
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.rewrite.driver import rewrite
from tests.rewrite.support import (
    Watch,
    apply,
    assert_valid,
    node_of,
    operators,
    parse,
    rule,
    run,
    subgraph,
    uses,
    value,
)


def interface(model: ir.Model) -> list[tuple[str | None, Any, Any]]:
    values = (*model.graph.inputs, *model.graph.outputs)
    return [(item.name, item.dtype, item.shape.numpy() if item.shape else None) for item in values]


class TestInterface:
    """Whatever a rewrite returns, inputs and outputs keep their names, order, types and shapes."""

    def replaced(self, text: str, *args: Any, count: int = 1, **options: Any) -> ir.Model:
        model = parse(text)
        before = interface(model)
        assert apply(model, rule(*args, **options)) == count
        assert interface(model) == before
        return model

    def test_output_becomes_a_new_value(self) -> None:
        text = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
        model = self.replaced(text, lambda op, x: op.Relu(x), lambda op, x: op.Max(x, 0.0))
        assert operators(model) == ["Max"]

    def test_output_becomes_an_input(self) -> None:
        text = "g (float[2] x) => (float[2] y) { a = Neg(x) y = Neg(a) }"
        model = self.replaced(text, lambda op, x: op.Neg(op.Neg(x)), lambda op, x: x)
        assert operators(model) == ["Identity"]

    @pytest.mark.parametrize(
        ("lines", "left"),
        [
            ("y = Identity(x) z = Relu(x)", ["Identity", "Relu"]),
            ("y = Identity(x) z = Relu(y)", ["Identity", "Relu"]),
            ("y = Relu(x) z = Identity(y)", ["Identity", "Relu"]),
            ("a = Relu(x) y = Identity(a) z = Identity(a)", ["Identity", "Relu"]),
            ("a = Relu(x) y = Identity(a) b = Identity(y) z = Identity(b)", ["Identity", "Relu"]),
            ("a = Relu(x) b = Identity(a) y = Identity(b) z = Neg(b)", ["Neg", "Relu"]),
        ],
    )
    def test_copies_go_but_those_that_an_output_needs(self, lines: str, left: list[str]) -> None:
        model = parse(f"g (float[2] x) => (float[2] y, float[2] z) {{ {lines} }}")
        before = interface(model)
        apply(model, rule(lambda op, x: op.Identity(x), lambda op, x: x))
        assert interface(model) == before
        assert sorted(operators(model)) == left

    def test_a_copy_that_a_branch_needs_stays(self) -> None:
        model = parse(
            """
            g (float[2] x, bool c) => (float[2] y) {
              y = If (c) <
                then_branch = a () => (float[2] t) { t = Identity(x) },
                else_branch = b () => (float[2] e) { e1 = Identity(x) e = Relu(e1) }
              >
            }
            """
        )
        assert apply(model, rule(lambda op, x: op.Identity(x), lambda op, x: x)) == 1
        assert operators(subgraph(model, "then_branch")) == ["Identity"]
        assert operators(subgraph(model, "else_branch")) == ["Relu"]

    def test_output_becomes_an_initializer(self) -> None:
        text = "g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { z = Sub(x, x) y = Add(z, c) }"
        model = self.replaced(text, lambda op, x, c: op.Add(op.Sub(x, x), c), lambda op, x, c: c)
        assert operators(model) == ["Identity"]
        assert list(model.graph.initializers) == ["c"]

    def test_output_becomes_a_new_initializer(self) -> None:
        text = "g (float[2] x) => (float[2] y) { y = Sub(x, x) }"
        model = self.replaced(
            text, lambda op, x: op.Sub(x, x), lambda op, x: op.initializer(np.zeros(2, np.float32), name="y")
        )
        assert operators(model) == ["Identity"]

    def test_output_becomes_an_interior_value(self) -> None:
        text = "g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Neg(b) }"
        model = self.replaced(text, lambda op, x: op.Neg(op.Neg(x)), lambda op, x: x)
        assert operators(model) == ["Relu"]

    def test_output_becomes_another_output(self) -> None:
        text = "g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) b = Neg(a) y = Neg(b) }"
        model = self.replaced(text, lambda op, x: op.Neg(op.Neg(x)), lambda op, x: x)
        assert operators(model) == ["Relu", "Identity"]

    def test_interior_value_becomes_an_output(self) -> None:
        text = "g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) b = Neg(a) c = Neg(b) y = Exp(c) }"
        model = self.replaced(text, lambda op, x: op.Neg(op.Neg(x)), lambda op, x: x)
        assert operators(model) == ["Relu", "Exp"]

    def test_two_outputs_become_one_new_value(self) -> None:
        text = "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Relu(x) }"
        model = self.replaced(text, lambda op, x: (op.Relu(x), op.Relu(x)), lambda op, x: [op.Max(x, 0.0)] * 2)
        assert sorted(operators(model)) == ["Identity", "Max"]

    @pytest.mark.parametrize("outputs", ["float[2] p, float[2] q", "float[2] q, float[2] p"])
    def test_output_and_interior_value_become_one_new_value(self, outputs: str) -> None:
        text = f"g (float[2] x) => ({outputs}) {{ y = Relu(x) p = Neg(y) q = Relu(x) }}"
        model = self.replaced(text, lambda op, x: (op.Relu(x), op.Relu(x)), lambda op, x: [op.Max(x, 0.0)] * 2)
        assert sorted(operators(model)) == ["Max", "Neg"]

    def test_two_outputs_become_one_of_them(self) -> None:
        text = "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Relu(x) }"

        def merge(op: Any, x: Any) -> Any:
            return op.Relu(x, _outputs=["first"]), op.Relu(x, _outputs=["second"])

        model = self.replaced(text, merge, lambda op, first, second: (first, first))
        assert sorted(operators(model)) == ["Identity", "Relu"]

    def test_two_outputs_become_one_input(self) -> None:
        text = "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Abs(x) }"
        model = parse(text)
        before = interface(model)
        assert rewrite(model, [rule(lambda op, x: (op.Relu(x), op.Abs(x)), lambda op, x: (x, x))]) == 1
        assert interface(model) == before
        assert operators(model) == ["Identity", "Identity"]
        assert_valid(model)

    def test_outputs_swap(self) -> None:
        text = "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Relu(x) }"

        def both(op: Any, x: Any) -> Any:
            return op.Relu(x, _outputs=["first"]), op.Relu(x, _outputs=["second"])

        model = self.replaced(text, both, lambda op, first, second: (second, first), _once())
        assert operators(model).count("Relu") >= 1

    def test_an_output_that_is_used_inside_too(self) -> None:
        text = "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(y) }"
        model = self.replaced(text, lambda op, x: op.Relu(x), lambda op, x: op.Max(x, 0.0))
        assert node_of(model, "Neg").inputs[0] is model.graph.outputs[0]

    def test_type_of_an_output_may_not_change(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
        before = full_hash(model)
        with pytest.raises(RewriteError, match="graph output 'y' would change from FLOAT to DOUBLE"):
            rewrite(model, [rule(lambda op, x: op.Relu(x), lambda op, x: op.Cast(x, to=ir.DataType.DOUBLE))])
        assert full_hash(model) == before

    def test_missing_types_and_shapes_are_filled_in_from_what_was_there(self) -> None:
        text = "g (float[2] x) => (float[2] y) <float[2] a> { a = Opaque(x) y = Relu(a) }"
        model = parse(text)
        assert rewrite(model, [rule(lambda op, x: op.Opaque(x), lambda op, x: op.Yours(x))]) == 1
        a = value(model, "a")
        assert (a.dtype, a.shape) == (ir.DataType.FLOAT, ir.Shape([2]))
        assert a.producer().op_type == "Yours"


class TestWhatARewriteReturns:
    RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"

    @pytest.mark.parametrize(
        ("returned", "message"),
        [
            (lambda op, x: (x, x), "the rewrite returns 2 values for the 1 of its pattern"),
            (lambda op, x: [], "the rewrite returns 0 values for the 1 of its pattern"),
            (lambda op, x: 0.0, "the rewrite returns float for 'y'"),
            (lambda op, x: "x", "the rewrite returns str for 'y'"),
            (lambda op, x: x.uses()[0].node, "the rewrite returns Node for 'y'"),
            (lambda op, x: [None], "the rewrite returns NoneType for 'y'"),
            (lambda op, x: op.Split(x, num_outputs=2, _outputs=2), "the rewrite returns 2 values for the 1"),
        ],
    )
    def test_something_wrong_is_an_error_that_names_rule_and_node(self, returned: Any, message: str) -> None:
        model = parse(self.RELU)
        before, used = full_hash(model), uses(model)
        with pytest.raises(RewriteError) as caught:
            rewrite(model, [rule(lambda op, x: op.Relu(x), returned, name="wrong")])
        assert message in str(caught.value)
        assert "rule 'wrong'" in str(caught.value)
        assert "Relu 'y'" in str(caught.value)
        assert (full_hash(model), uses(model)) == (before, used)

    @pytest.mark.parametrize("returned", [None, False])
    def test_nothing_means_declined(self, returned: Any) -> None:
        model, watch = parse(self.RELU), Watch()
        assert rewrite(model, [rule(lambda op, x: op.Relu(x), lambda op, x: returned)], watch) == 0
        assert watch.rules["rule"].refused == {"rewrite declined": 1}

    def test_what_is_there_already_means_declined(self) -> None:
        model, watch = parse(self.RELU), Watch()
        before = full_hash(model)
        same = rule(lambda op, x: op.Relu(x, _outputs=["y"]), lambda op, y: y)
        assert rewrite(model, [same], watch) == 0
        assert watch.rules["rule"].refused == {"the rewrite returns what is there": 1}
        assert full_hash(model) == before

    def test_one_of_two_values_may_stay(self) -> None:
        model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(y) }")

        def both(op: Any, x: Any) -> Any:
            relu = op.Relu(x, _outputs=["relu"])
            return relu, op.Neg(relu)

        assert apply(model, rule(both, lambda op, relu: (relu, op.Sub(0.0, relu)))) == 1
        assert operators(model) == ["Relu", "Sub"]

    def test_new_nodes_may_use_the_value_that_they_replace(self) -> None:
        """To wrap a value means to use the old one; the new one may not end up using itself."""
        model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(y) }")

        def not_wrapped(context: Any, y: ir.Value) -> bool:
            return all(user.op_type != "Abs" for user in y.consumers())

        wrap = rule(lambda op, x: op.Relu(x, _outputs=["y"]), lambda op, y: op.Abs(y), not_wrapped)
        assert apply(model, wrap) == 1
        assert operators(model) == ["Relu", "Abs", "Neg"]
        assert [item.name for item in model.graph.outputs] == ["y", "z"]
        names = [item.name for node in model.graph for item in node.outputs]
        assert len(set(names)) == len(names)

    def test_new_nodes_use_each_other_where_a_variable_stands_for_a_replaced_value(self) -> None:
        model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(y) }")
        both = rule(lambda op, x, y: (op.Relu(x), op.Neg(y)), lambda op, x, y: (op.Max(x, 0.0), op.Sub(0.0, y)))
        assert apply(model, both) == 1
        assert operators(model) == ["Max", "Sub"]

    def test_values_that_each_replace_the_other_stay_apart(self) -> None:
        """Each new value is made from the old one of the other; one of the old ones has to stay."""
        model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Max(x, x) }")

        def crossed(op: Any, a: Any, b: Any) -> Any:
            return op.Max(b, b), op.Relu(a)

        pair = rule(lambda op, x: (op.Relu(x, _outputs=["a"]), op.Max(x, x, _outputs=["b"])), crossed)
        assert rewrite(model, [rule(pair.pattern, crossed, _once())]) == 1
        assert_valid(model)

    def test_what_is_built_but_not_used_leaves_no_trace(self) -> None:
        def wasteful(op: Any, x: Any) -> Any:
            op.Neg(op.Exp(x))
            op.Something(x, _domain="somewhere")
            op.initializer(np.zeros(3), name="waste")
            return op.Max(x, 0.0)

        model, watch = parse(self.RELU), Watch()
        assert rewrite(model, [rule(lambda op, x: op.Relu(x), wasteful)], watch) == 1
        assert operators(model) == ["Max"]
        assert uses(model)["x"] == [("Max", 0)]
        assert len(model.graph.initializers) == 1
        assert dict(model.opset_imports) == {"": 20}
        [application] = watch.applications
        assert [node.op_type for node in application.added] == ["Max"]
        assert len(application.initializers) == 1


def _once() -> Any:
    calls: list[int] = []

    def check(context: Any, **_: Any) -> bool:
        calls.append(1)
        return len(calls) == 1

    return check


class TestNames:
    def test_new_names_clash_with_nothing(self) -> None:
        model = parse(
            """
            g (float[2] x, float[2] y_Neg) => (float[2] y, float[2] z) <float[2] constant = {1, 1}> {
              c = Add(y_Neg, constant)
              y = Abs(x)
              z = Abs(c)
            }
            """
        )
        lower = rule(lambda op, x: op.Abs(x), lambda op, x: op.Max(op.Neg(x), op.Mul(x, np.float32([1]))))
        assert apply(model, lower) == 2
        names = [item.name for item in model.graph.inputs] + list(model.graph.initializers)
        names += [item.name for node in model.graph for item in node.outputs]
        assert len(set(names)) == len(names)
        nodes = [node.name for node in model.graph]
        assert len(set(nodes)) == len(nodes)

    def test_wishes_give_way_to_names_in_use(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { t = Neg(x) y = Abs(t) }")

        def wishing(op: Any, x: Any) -> Any:
            [t] = [op.Relu(x, _outputs=["t"], _name="node")]
            return op.Add(t, op.Relu(op.Neg(x), _outputs=["fresh"], _name="node"))

        assert apply(model, rule(lambda op, x: op.Abs(x), wishing)) == 1
        assert {item.name for node in model.graph for item in node.outputs} == {"t", "t_1", "y_Neg", "fresh", "y"}
        assert {"node", "node_1"} <= {node.name for node in model.graph}

    def test_wishes_that_are_free_are_granted_from_the_first_rewrite_on(self) -> None:
        model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Abs(x) z = Relu(x) }")
        first = rule(lambda op, x: op.Abs(x), lambda op, x: op.Max(x, op.Neg(x, _name="minus"), _name="maximum"))
        second = rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, op.Sub(x, x, _name="zero"), _name="maximum"))
        assert apply(model, first, second) == 2
        assert {node.name for node in model.graph} == {"minus", "maximum", "zero", "maximum_1"}

    def test_the_last_node_takes_over_the_name_of_the_root(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { y = Abs(x) }")
        model.graph[0].name = "layer/abs"
        assert apply(model, rule(lambda op, x: op.Abs(x), lambda op, x: op.Max(x, op.Neg(x)))) == 1
        assert [node.name for node in model.graph] == ["layer/abs/Neg", "layer/abs"]

    def test_a_wish_for_the_name_of_a_removed_node_is_granted(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { t = Relu(x) y = Abs(t) }")
        model.graph[0].name, model.graph[1].name = "first", "second"
        fuse = rule(lambda op, x: op.Abs(op.Relu(x)), lambda op, x: op.Max(op.Relu(x, _name="first"), 0.0))
        assert apply(model, fuse) == 1
        assert [node.name for node in model.graph] == ["first", "second"]

    @pytest.mark.parametrize("name", ["größe/重み", "with space", "a:0", ""])
    def test_unusual_names(self, name: str) -> None:
        model = parse("g (float[2] x) => (float[2] y) { t = Relu(x) y = Abs(t) }")
        model.graph[0].name, model.graph[1].name = name, f"{name}/Neg"
        model.graph[0].outputs[0].name = name or "t"
        lower = rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(op.Neg(op.Neg(x)), np.float32([0])))
        assert apply(model, lower) == 1
        assert value(model, name or "t").producer().op_type == "Max"
        assert len({node.name for node in model.graph}) == 4

    def test_nodes_and_values_without_names(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { t = Relu(x) y = Abs(t) }")
        for node in model.graph:
            node.name = None
        value(model, "t").name = None
        lower = rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(op.Neg(op.Neg(x)), np.float32([0])))
        assert rewrite(model, [lower]) == 1
        assert_valid(model)

    def test_an_output_that_is_left_out_gets_a_name_when_it_is_replaced(self) -> None:
        model = parse('g (float[2] x) => (float[2] y) { y, "" = Dropout(x) }')
        [_, mask] = model.graph[0].outputs
        assert not mask.name

        def with_mask(op: Any, x: Any) -> Any:
            return op.Dropout(x, _outputs=2)

        def as_identity(op: Any, x: Any) -> Any:
            return op.Identity(x), op.Equal(x, x)

        assert apply(model, rule(with_mask, as_identity)) == 1
        assert all(item.name for node in model.graph for item in node.outputs)

    def test_names_do_not_grow_with_the_number_of_rewrites(self) -> None:
        lines = "\n".join(f"v{i + 1} = Relu(v{i})" for i in range(60))
        model = parse(f"g (float[2] v0) => (float[2] y) {{ {lines} y = Neg(v60) }}")
        sink = rule(lambda op, x: op.Neg(op.Relu(x)), lambda op, x: op.Min(op.Neg(x), np.zeros(1, np.float32)))
        lift = rule(lambda op, x: op.Neg(op.Min(op.Neg(x), 0.0)), lambda op, x: x)
        down = rule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(op.Abs(op.Relu(x))), lambda op, x: False)
        assert rewrite(model, [sink, lift, down]) == 60
        assert max(len(str(item.name)) for node in model.graph for item in (node, *node.outputs)) < 20


class TestAnnotations:
    TEXT = """
    g (float[2] x) => (float[2] y, float[2] z) <float scale = {0.5}, float zero = {0}> {
      a = Relu(x)
      b = Mul(a, scale)
      c = Add(b, zero)
      y = Neg(c)
      z = Exp(x)
    }
    """

    def test_all_kinds_go_to_the_new_value(self) -> None:
        model = parse(self.TEXT)
        a = value(model, "a")
        annotations.set(a, {"finn_datatype": "UINT4"})
        a.meta["note"] = "seen"
        a.metadata_props["layer"], a.doc_string = "first", "clipped"
        assert apply(model, rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, 0.0))) == 1
        a = value(model, "a")
        assert annotations.get(a) == {"finn_datatype": "UINT4"}
        assert (a.meta["note"], a.metadata_props["layer"], a.doc_string) == ("seen", "first", "clipped")

    def test_go_to_an_existing_value_that_takes_the_place(self) -> None:
        model = parse(self.TEXT)
        annotations.set(value(model, "c"), {"finn_datatype": "UINT4"})
        assert apply(model, rule(lambda op, x: op.Add(x, 0.0), lambda op, x: x)) == 1
        assert annotations.get(value(model, "b")) == {"finn_datatype": "UINT4"}

    def test_what_a_rewrite_says_itself_has_precedence(self) -> None:
        model = parse(self.TEXT)
        annotations.set(value(model, "a"), {"finn_datatype": "UINT4", "other": "kept"})

        def annotated(op: Any, x: Any) -> Any:
            new = op.Max(x, 0.0)
            annotations.set(new, {"finn_datatype": "UINT3"})
            return new

        assert apply(model, rule(lambda op, x: op.Relu(x), annotated)) == 1
        assert annotations.get(value(model, "a")) == {"finn_datatype": "UINT3", "other": "kept"}

    def test_tensors_that_annotations_name_are_not_removed(self) -> None:
        model = parse(self.TEXT)
        annotations.set(value(model, "y"), {"SCALE_TENSOR": "scale"})
        assert rewrite(model, [rule(lambda op, x, s: op.Mul(x, s), lambda op, x, s: op.Abs(x))]) == 1
        assert sorted(model.graph.initializers) == ["scale", "zero"]

    def test_other_tensors_are_removed_once_nothing_uses_them(self) -> None:
        model = parse(self.TEXT)
        assert rewrite(model, [rule(lambda op, x, s: op.Mul(x, s), lambda op, x, s: op.Abs(x))]) == 1
        assert sorted(model.graph.initializers) == ["zero"]

    def test_metadata_of_nodes_is_merged_and_the_root_has_the_last_word(self) -> None:
        model = parse(self.TEXT)
        mul, add = node_of(model, "Mul"), node_of(model, "Add")
        mul.metadata_props.update({"layer": "mul", "scope": "body"})
        add.metadata_props["layer"] = "add"
        add.doc_string = "what it does"
        both = rule(lambda op, x, s: op.Add(op.Mul(x, s), 0.0), lambda op, x, s: op.Div(op.Abs(x), op.Reciprocal(s)))
        assert rewrite(model, [both]) == 1
        for op_type in ("Abs", "Div", "Reciprocal"):
            assert node_of(model, op_type).metadata_props == {"layer": "add", "scope": "body"}
        assert node_of(model, "Div").doc_string == "what it does"


class TestRemoval:
    def test_what_only_the_match_used_goes_too(self) -> None:
        model = parse(
            """
            g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> {
              a = Exp(c)
              b = Neg(a)
              s = Sub(b, b)
              y = Add(x, s)
            }
            """
        )
        assert apply(model, rule(lambda op, x, b: op.Add(x, op.Sub(b, b)), lambda op, x, b: x)) == 1
        assert operators(model) == ["Identity"]
        assert not model.graph.initializers

    def test_what_others_use_stays(self) -> None:
        model = parse(
            """
            g (float[2] x) => (float[2] y, float[2] z) <float[2] c = {1, 2}> {
              a = Exp(c)
              s = Sub(a, a)
              y = Add(x, s)
              z = Add(x, a)
            }
            """
        )
        assert apply(model, rule(lambda op, x, a: op.Add(x, op.Sub(a, a)), lambda op, x, a: x)) == 1
        assert sorted(operators(model)) == ["Add", "Exp", "Identity"]

    def test_an_initializer_that_is_an_input_or_output_stays(self) -> None:
        model = parse(
            """
            g (float[2] x, float[2] c) => (float[2] y, float[2] d) <float[2] c = {1, 2}, float[2] d = {3, 4}> {
              s = Add(c, d)
              t = Sub(s, s)
              y = Add(x, t)
            }
            """
        )
        assert rewrite(model, [rule(lambda op, x, s: op.Add(x, op.Sub(s, s)), lambda op, x, s: x)]) == 1
        assert sorted(model.graph.initializers) == ["c", "d"]


class TestOpsets:
    RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"

    def test_a_new_domain_is_imported(self) -> None:
        model = parse(self.RELU)
        assert rewrite(model, [rule(lambda op, x: op.Relu(x), lambda op, x: op.F(x, _domain="mine"))]) == 1
        assert dict(model.opset_imports) == {"": 20, "mine": 1}

    def test_in_the_version_asked_for(self) -> None:
        model = parse(self.RELU)
        mine = rule(lambda op, x: op.Relu(x), lambda op, x: op.F(x, _domain="mine", _version=4))
        assert rewrite(model, [mine]) == 1
        assert model.opset_imports["mine"] == 4

    def test_another_version_than_imported_is_an_error_and_changes_nothing(self) -> None:
        model = parse(self.RELU)
        before = full_hash(model)
        newer = rule(lambda op, x: op.Relu(x), lambda op, x: op.F(op.Gelu(x, _version=21), _domain="mine"))
        with pytest.raises(RewriteError, match="needs opset 21 of domain '', the model imports 20; convert"):
            rewrite(model, [newer])
        assert full_hash(model) == before

    def test_the_long_name_of_the_default_domain(self) -> None:
        model = parse(self.RELU)
        assert apply(model, rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, 0.0, _domain="ai.onnx"))) == 1
        assert dict(model.opset_imports) == {"": 20}

    def test_a_subgraph_imports_into_the_model(self) -> None:
        model = parse(
            """
            g (float[2] x, bool c) => (float[2] y) {
              y = If (c) <
                then_branch = a () => (float[2] t) { t = Relu(x) },
                else_branch = b () => (float[2] e) { e = Abs(x) }
              >
            }
            """
        )
        assert rewrite(model, [rule(lambda op, x: op.Relu(x), lambda op, x: op.F(x, _domain="mine"))]) == 1
        assert model.opset_imports["mine"] == 1


def test_types_are_not_shared_between_old_and_new_values() -> None:
    model = parse("g (float[2] x) => (float[2] y) <float[2] a> { a = Relu(x) y = Neg(a) }")
    copy = model.clone()
    assert rewrite(model, [rule(lambda op, x: op.Relu(x), lambda op, x: op.Opaque(x))]) == 1
    value(model, "a").dtype = ir.DataType.FLOAT16
    assert value(copy, "a").dtype == ir.DataType.FLOAT
    assert value(model, "x").dtype == ir.DataType.FLOAT


def test_overridable_initializers_can_still_be_overridden() -> None:
    model = parse("g (float[2] x, float[2] c) => (float[2] y) <float[2] c = {0, 0}> { s = Add(x, c) y = Relu(s) }")
    assert rewrite(model, [rule(lambda op, x: op.Add(x, [0.0, 0.0]), lambda op, x: x)]) == 0
    np.testing.assert_array_equal(run(model, {"x": np.float32([1, 2]), "c": np.float32([5, 5])})["y"], [6, 7])
