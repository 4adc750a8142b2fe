"""Graphs in graphs: branches and bodies are rewritten, see outer values, and keep to their scope."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter.pattern import Var

from onnx_passes.core.errors import RewriteError
from onnx_passes.rewrite.driver import rewrite
from tests.rewrite.support import (
    Watch,
    apply,
    assert_same_results,
    assert_valid,
    operators,
    parse,
    rule,
    run,
    subgraph,
    uses,
    value,
)

IF = """
g (float[2] x, bool c) => (float[2] y) {
  o = Abs(x)
  y = If (c) <
    then_branch = a () => (float[2] t) {
      t1 = Neg(o)
      t = Neg(t1)
    },
    else_branch = b () => (float[2] e) {
      e1 = Neg(x)
      e2 = Neg(e1)
      e = Relu(e2)
    }
  >
}
"""
LOOP = """
g (int64 n, float[2] x) => (float[2] y) {
  go = Constant<value = bool {1}>()
  k = Relu(x)
  y = Loop (n, go, x) <
    body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
      d = Identity(c)
      p = Neg(s)
      q = Neg(p)
      r = Add(q, k)
    }
  >
}
"""
SCAN = """
g (float[3, 2] x) => (float[2] y, float[3, 2] z) {
  zero = Constant<value = float[2] {0, 0}>()
  y, z = Scan<num_scan_inputs = 1, body = b (float[2] s, float[2] e) => (float[2] r, float[2] o) {
    p = Neg(e)
    q = Neg(p)
    r = Add(s, q)
    o = Mul(r, q)
  }>(zero, x)
}
"""


def neg_neg(op: Any, x: Any) -> Any:
    return op.Neg(op.Neg(x))


remove = rule(neg_neg, lambda op, x: x)


class TestSubgraphs:
    def test_branches(self) -> None:
        for chosen in (True, False):
            before, model = parse(IF), parse(IF)
            assert rewrite(model, [remove]) == 2
            assert_valid(model)
            assert_same_results(before, model, {"c": np.array(chosen)})
        # The then-branch returns what it captured: it cannot take the name of the output, so a copy does.
        assert operators(subgraph(model, "then_branch")) == ["Identity"]
        assert operators(subgraph(model, "else_branch")) == ["Relu"]
        assert [output.name for output in subgraph(model, "then_branch").outputs] == ["t"]
        assert "o" in {item.name for item in model.graph[0].outputs}

    def test_loop_body(self) -> None:
        before, model = parse(LOOP), parse(LOOP)
        assert rewrite(model, [remove]) == 1
        assert_valid(model)
        assert_same_results(before, model, {"n": np.array(3)})
        assert operators(subgraph(model, "body")) == ["Identity", "Add"]

    def test_scan_body(self) -> None:
        model = parse(SCAN)
        assert apply(model, remove) == 1
        assert operators(subgraph(model, "body")) == ["Add", "Mul"]

    def test_body_returning_its_own_input(self) -> None:
        text = LOOP.replace("r = Add(q, k)", "r = Neg(q)").replace("q = Neg(p)", "q = Identity(p)")
        before, model = parse(text), parse(text)
        through_identity = rule(lambda op, x: op.Neg(op.Identity(op.Neg(x))), lambda op, x: x)
        assert rewrite(model, [through_identity]) == 1
        assert_valid(model)
        assert_same_results(before, model, {"n": np.array(3)})
        body = subgraph(model, "body")
        assert [item.name for item in body.inputs] == ["i", "c", "s"]
        assert [item.name for item in body.outputs] == ["d", "r"]

    def test_constants_become_initializers_of_the_subgraph(self) -> None:
        model = parse(IF)
        assert apply(model, rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, np.float32(0)))) == 1
        assert len(subgraph(model, "else_branch").initializers) == 1
        assert not model.graph.initializers

    def test_names_are_unique_over_all_graphs(self) -> None:
        model = parse(IF)

        def times_minus_one(op: Any, x: Any) -> Any:
            return op.Mul(x, op.initializer(np.float32([-1]), name="minus"))

        assert apply(model, rule(lambda op, x: op.Neg(x), times_minus_one)) == 4
        names = [item.name for graph in (model.graph, *model.graph.subgraphs()) for item in graph.initializers.values()]
        assert sorted(names) == ["minus", "minus_1", "minus_2", "minus_3"]

    def test_outer_value_used_in_a_branch_is_replaced_there(self) -> None:
        model = parse(IF)
        assert apply(model, rule(lambda op, x: op.Abs(x), lambda op, x: op.Max(x, op.Neg(x)))) == 1
        assert value(model, "o").producer().op_type == "Max"

    def test_an_outer_value_that_a_branch_does_not_use_any_more_is_removed(self) -> None:
        model = parse(IF)
        drop = rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Relu(model.graph.inputs[0]))
        assert rewrite(model, [drop]) == 2
        assert_valid(model)
        assert operators(model) == ["If"]

    def test_removing_a_node_with_subgraphs_frees_what_they_used(self) -> None:
        model = parse(IF.replace("y = If", "w = If").rstrip().removesuffix("}") + "y = Relu(w) }")
        x = model.graph.inputs[0]
        drop = rule(lambda op, c: op.Relu(op.If(c)), lambda op, c: op.Relu(x))
        assert rewrite(model, [drop]) == 1
        assert operators(model) == ["Relu"]
        assert uses(model)["x"] == [("Relu", 0)]
        assert_valid(model)

    def test_nodes_in_the_subgraphs_of_a_removed_node_are_not_rewritten_any_more(self) -> None:
        model = parse(IF.replace("y = If", "w = If").rstrip().removesuffix("}") + "y = Relu(w) }")
        asked: list[str] = []

        def note(context: Any, **_: Any) -> bool:
            asked.append(context.root.op_type)
            return False

        # Found from its first root, Abs, before the nodes of the branches are looked at.
        drop = rule(lambda op, x, c: (op.Abs(x), op.Relu(op.If(c))), lambda op, x, c: (op.Exp(x), op.Log(x)))
        anything = rule(lambda op: op.Neg(Var("v", can_match_none=True)), lambda op: None, note)
        assert rewrite(model, [drop, anything]) == 1
        assert operators(model) == ["Log"]
        assert asked == []


class TestScopes:
    def test_a_rewrite_may_use_outer_values(self) -> None:
        model = parse(IF)
        outer = value(model, "o")
        use = rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, op.Sub(outer, outer)))
        assert apply(model, use) == 1

    def test_an_outer_value_computed_later_is_moved_before(self) -> None:
        model = parse(
            """
            g (float[2] x, bool c) => (float[2] y, float[2] z) {
              y = If (c) <
                then_branch = a () => (float[2] t) { t = Relu(x) },
                else_branch = b () => (float[2] e) { e = Abs(x) }
              >
              z = Sub(x, x)
            }
            """
        )
        late = value(model, "z")
        assert apply(model, rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, late))) == 1
        assert operators(model) == ["Sub", "If"]

    def test_an_outer_value_that_depends_on_the_node_around_is_refused(self) -> None:
        model = parse(
            """
            g (float[2] x, bool c) => (float[2] z) {
              y = If (c) <
                then_branch = a () => (float[2] t) { t = Relu(x) },
                else_branch = b () => (float[2] e) { e = Abs(x) }
              >
              w = Neg(y)
              z = Sub(w, w)
            }
            """
        )
        watch = Watch()
        for name in ("y", "w", "z"):

            def use_late(op: Any, x: Any, name: str = name) -> Any:
                return op.Max(x, value(model, name))

            assert rewrite(model, [rule(lambda op, x: op.Relu(x), use_late, name=name)], watch) == 0
            assert watch.rules[name].refused == {"the replacement would close a cycle": 1}
        assert_valid(model)

    @pytest.mark.parametrize("name", ["e1", "t1"])
    def test_values_of_another_branch_are_refused(self, name: str) -> None:
        model = parse(IF)
        hidden = value(model, name)
        before = uses(model)
        with pytest.raises(
            RewriteError, match=rf"rule 'rule' .*Abs 'o': the rewrite uses '{name}', which is not known"
        ):
            rewrite(model, [rule(lambda op, x: op.Abs(x), lambda op, x: op.Max(x, hidden))])
        assert uses(model) == before

    def test_values_of_no_graph_are_refused(self) -> None:
        model = parse(IF)
        loose = ir.Value(name="loose")
        with pytest.raises(RewriteError, match="uses 'loose', which is not known"):
            rewrite(model, [rule(lambda op, x: op.Abs(x), lambda op, x: op.Max(x, loose))])
        with pytest.raises(RewriteError, match="uses 'loose', which is not known"):
            rewrite(model, [rule(lambda op, x: op.Abs(x), lambda op, x: loose)])
        assert not loose.uses()

    def test_nodes_that_the_builder_did_not_build_are_refused(self) -> None:
        def by_hand(op: Any, x: Any) -> Any:
            node = ir.Node("", "Max", [x])
            node.outputs[0].name = "mine"
            return node.outputs[0]

        with pytest.raises(RewriteError, match="uses 'mine', which is not known"):
            rewrite(parse(IF), [rule(lambda op, x: op.Abs(x), by_hand)])


class TestBuildingNodesWithSubgraphs:
    @staticmethod
    def swap_branches(op: Any, c: Any, then: Any, other: Any) -> Any:
        return op.If(op.Not(c), then_branch=other, else_branch=then)

    @staticmethod
    def any_if(op: Any, c: Any, then: Any, other: Any) -> Any:
        return op.If(c, then_branch=then, else_branch=other)

    @staticmethod
    def not_negated(context: Any, c: ir.Value, **_: Any) -> bool:
        return c.producer() is None

    def test_branches_taken_from_the_match_stay_whole(self) -> None:
        for chosen in (True, False):
            before, model = parse(IF), parse(IF)
            assert rewrite(model, [rule(self.any_if, self.swap_branches, self.not_negated)]) == 1
            assert_valid(model)
            assert_same_results(before, model, {"c": np.array(chosen)})
        assert operators(model) == ["Abs", "Not", "If"]

    def test_branches_stay_whole_in_both_nodes_if_the_old_one_stays(self) -> None:
        text = IF.replace("(float[2] y)", "(float[2] y, float[2] w)").rstrip().removesuffix("}") + "w = Neg(y) }"
        for chosen in (True, False):
            before, model = parse(text), parse(text)

            def neg_if(op: Any, c: Any, then: Any, other: Any) -> Any:
                return op.Neg(op.If(c, then_branch=then, else_branch=other))

            def neg_swapped(op: Any, c: Any, then: Any, other: Any) -> Any:
                return op.Neg(self.swap_branches(op, c, then, other))

            assert rewrite(model, [rule(neg_if, neg_swapped, self.not_negated, forks="duplicate")]) == 1
            assert_valid(model)
            assert_same_results(before, model, {"c": np.array(chosen)})
        assert operators(model).count("If") == 2

    @staticmethod
    def lower_abs(op: Any, x: Any) -> Any:
        """Build an If whose branches capture a value built just before."""
        minus = op.Neg(x)
        smallest = op.ReduceMin(x, keepdims=0)
        condition = op.Less(smallest, op.Sub(smallest, smallest))
        branches: dict[str, ir.Graph] = {}
        for name, captured in (("then_branch", minus), ("else_branch", x)):
            node = ir.Node("", "Max", [captured, x if name == "then_branch" else minus])
            node.outputs[0].name = f"{name}_result"
            node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([2])
            branches[name] = ir.Graph([], node.outputs, nodes=[node], name=name)
        return op.If(condition, **branches)

    def test_values_used_in_new_branches_only_are_kept(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { y = Abs(x) }")
        assert apply(model, rule(lambda op, x: op.Abs(x), self.lower_abs)) == 1
        assert {"If", "Neg"} <= set(operators(model))

    def test_new_branches_are_rewritten_too(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { y = Abs(x) }")
        lower = rule(lambda op, x: op.Abs(x), self.lower_abs)
        inside = rule(lambda op, a, b: op.Max(a, b), lambda op, a, b: op.Neg(op.Min(op.Neg(a), op.Neg(b))))
        assert apply(model, lower, inside) == 3

    def test_what_new_branches_use_counts_when_the_next_rule_looks_for_cycles(self) -> None:
        model = parse("g (float[2] x) => (float[2] a, float[2] d) { a = Relu(x) b = Neg(a) d = Exp(b) }")

        def as_if(op: Any, y: ir.Value) -> Any:
            branches = {}
            for name in ("then_branch", "else_branch"):
                node = ir.Node("", "Sub", [ir.val("zero", const_value=ir.tensor(0.0, name="zero")), y])
                zero = node.inputs[0]
                node.outputs[0].name = f"{name}_result"
                node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([2])
                branches[name] = ir.Graph([], node.outputs, nodes=[node], initializers=[zero], name=name)
            return op.If(np.array(True), **branches)

        fuse = rule(lambda op, x, y: (op.Relu(x), op.Exp(y)), lambda op, x, y: op.F(x, y, _domain="f", _outputs=2))
        lower = rule(lambda op, y: op.Neg(y), as_if, name="lower")
        watch = Watch()
        assert rewrite(model, [fuse, lower], watch) == 1
        assert operators(model) == ["Relu", "If", "Exp"]
        assert set(watch.rules["rule"].refused) == {"the replacement would close a cycle"}

    def test_a_declined_rewrite_leaves_branches_of_the_match_alone(self) -> None:
        model = parse(IF)
        before = uses(model)

        def decline(op: Any, c: Any, then: Any, other: Any) -> None:
            self.swap_branches(op, c, then, other)

        assert rewrite(model, [rule(self.any_if, decline)]) == 0
        assert uses(model) == before
        assert_valid(model)

    def test_a_declined_rewrite_lets_go_of_what_new_branches_use(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { y = Abs(x) }")

        def decline(op: Any, x: Any) -> None:
            self.lower_abs(op, x)

        assert rewrite(model, [rule(lambda op, x: op.Abs(x), decline)]) == 0
        assert uses(model) == {"x": [("Abs", 0)], "y": []}


class TestFunctions:
    HEADER = '<ir_version: 10, opset_import: ["": 20, "local": 1]>\n'
    TEXT = """
    g (float[2] x) => (float[2] y) {
      y = local.twice(x)
    }
    <domain: "local", opset_import: ["": 20]>
    twice (a) => (r) {
      p = Neg(a)
      q = Neg(p)
      r = Relu(q)
    }
    """

    def function(self, model: ir.Model) -> ir.Function:
        [function] = model.functions.values()
        return function

    def test_are_left_alone(self) -> None:
        model = parse(self.TEXT, self.HEADER)
        assert apply(model, remove) == 0
        assert operators(self.function(model)) == ["Neg", "Neg", "Relu"]

    def test_are_rewritten_if_asked(self) -> None:
        model = parse(self.TEXT, self.HEADER)
        assert apply(model, remove, functions=True) == 1
        assert operators(self.function(model)) == ["Relu"]
        assert [item.name for item in self.function(model).inputs] == ["a"]

    def test_constants_become_constant_nodes(self) -> None:
        model = parse(self.TEXT, self.HEADER)

        def clip(op: Any, x: Any) -> Any:
            return op.Max(x, op.initializer(np.zeros(1, np.float32), name="zero"))

        assert apply(model, rule(lambda op, x: op.Relu(x), clip), functions=True) == 1
        assert operators(self.function(model)) == ["Neg", "Neg", "Constant", "Max"]
        assert not model.graph.initializers
        assert self.function(model)[2].outputs[0].name == "zero"

    def test_output_may_become_an_input(self) -> None:
        model = parse(self.TEXT, self.HEADER)
        relu_neg_neg = rule(lambda op, x: op.Relu(op.Neg(op.Neg(x))), lambda op, x: x)
        assert rewrite(model, [relu_neg_neg], functions=True) == 1
        assert_valid(model)
        assert operators(self.function(model)) == ["Identity"]
        np.testing.assert_array_equal(run(model, {"x": np.float32([-1, 2])})["y"], [-1, 2])

    def test_new_domains_are_imported_by_function_and_model(self) -> None:
        model = parse(self.TEXT, self.HEADER)
        custom = rule(lambda op, x: op.Relu(x), lambda op, x: op.Fancy(x, _domain="fancy", _version=2))
        assert rewrite(model, [custom], functions=True) == 1
        assert self.function(model).opset_imports["fancy"] == 2
        assert model.opset_imports["fancy"] == 2

    def test_a_function_takes_the_version_that_the_model_imports(self) -> None:
        model = parse(self.TEXT, '<ir_version: 10, opset_import: ["": 20, "local": 1, "fancy": 3]>\n')
        custom = rule(lambda op, x: op.Relu(x), lambda op, x: op.Fancy(x, _domain="fancy"))
        assert rewrite(model, [custom], functions=True) == 1
        assert self.function(model).opset_imports["fancy"] == 3

    def test_a_version_other_than_that_of_the_model_is_an_error(self) -> None:
        model = parse(self.TEXT, '<ir_version: 10, opset_import: ["": 20, "local": 1, "fancy": 3]>\n')
        custom = rule(lambda op, x: op.Relu(x), lambda op, x: op.Fancy(x, _domain="fancy", _version=2))
        with pytest.raises(RewriteError, match="needs opset 2 of domain 'fancy', the model imports 3"):
            rewrite(model, [custom], functions=True)
        assert "fancy" not in self.function(model).opset_imports

    def test_attribute_references_go_along(self) -> None:
        model = parse(
            """
            g (float[2, 2] x) => (float[2, 2] y) { y = local.f<k = 0>(x) }
            <domain: "local", opset_import: ["": 20]>
            f<k>(a) => (r) { p = LogSoftmax<axis: int = @k>(a) r = Exp(p) }
            """,
            self.HEADER,
        )
        fuse = rule(lambda op, x, k: op.Exp(op.LogSoftmax(x, axis=k)), lambda op, x, k: op.Softmax(x, axis=k))
        before = run(model)["y"]
        assert rewrite(model, [fuse], functions=True) == 1
        assert_valid(model)
        np.testing.assert_allclose(run(model)["y"], before, rtol=1e-6)
