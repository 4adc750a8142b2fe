"""The driver: worklist, fixpoint, statistics, budget, order, determinism and threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.base import Context, Transformation
from onnx_passes.core.compose import Fixpoint
from onnx_passes.core.errors import BudgetError, RewriteError
from onnx_passes.core.instruments import Limit
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.index import RuleIndex
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no
from onnx_passes.rewrite.rule import Rule
from tests.helpers.random_models import random_model
from tests.rewrite.generators import exact_rules
from tests.rewrite.support import Watch, apply, assert_valid, node_of, operators, parse, rule, uses, value


def chain(*op_types: str) -> ir.Model:
    """Build a chain of unary operators from ``x`` to ``y``."""
    lines = [f"v{i + 1} = {op_type}(v{i})" for i, op_type in enumerate(op_types)]
    text = " ".join(lines)
    return parse(f"g (float[2] v0) => (float[2] v{len(op_types)}) {{ {text} }}")


neg_neg = rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: x, name="neg-neg")
relu_relu = rule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x), name="relu-relu")


class TestWorklist:
    """One application makes another one possible; nobody has to run the rules again."""

    def test_downstream(self) -> None:
        model = chain("Relu", "Neg", "Neg", "Relu", "Abs")
        assert apply(model, relu_relu, neg_neg) == 2
        assert operators(model) == ["Relu", "Abs"]

    def test_upstream(self) -> None:
        model = chain("Neg", "Neg", "Neg", "Neg", "Abs")
        assert apply(model, neg_neg) == 2
        assert operators(model) == ["Abs"]

    def test_the_result_of_a_rule_is_a_root_of_another(self) -> None:
        model = chain("Abs", "Exp")
        lower = rule(lambda op, x: op.Abs(x), lambda op, x: op.Max(x, op.Neg(x)))
        again = rule(lambda op, x, y: op.Max(x, y), lambda op, x, y: op.Neg(op.Min(op.Neg(x), op.Neg(y))))
        assert apply(model, again, lower) == 2

    def test_a_use_that_goes_away_makes_a_fork_exclusive(self) -> None:
        model = parse(
            """
            g (float[2] x) => (float[2] y, float[2] z) {
              a = Relu(x)
              y = Neg(a)
              b = Sub(a, a)
              z = Add(x, b)
            }
            """
        )
        exclusive = rule(lambda op, x: op.Neg(op.Relu(x)), lambda op, x: op.Min(op.Neg(x), 0.0), name="needs-one-user")
        drop = rule(lambda op, x, b: op.Add(x, op.Sub(b, b)), lambda op, x, b: op.Identity(x), name="drops-a-user")
        assert apply(model, exclusive, drop) == 2

    def test_a_use_that_goes_away_far_upstream(self) -> None:
        """What dies with the match may have used something at a distance that no pattern spans."""
        model = parse(
            """
            g (float[2] x) => (float[2] y, float[2] z) {
              a = Relu(x)
              y = Neg(a)
              b1 = Exp(a)
              b2 = Exp(b1)
              b3 = Exp(b2)
              b = Sub(b3, b3)
              z = Add(x, b)
            }
            """
        )
        exclusive = rule(lambda op, x: op.Neg(op.Relu(x)), lambda op, x: op.Min(op.Neg(x), 0.0))
        drop = rule(lambda op, x, b: op.Add(x, op.Sub(b, b)), lambda op, x, b: op.Identity(x))
        assert rewrite(model, [exclusive, drop]) == 2
        assert_valid(model)

    def test_a_check_that_looks_far_is_asked_again(self) -> None:
        model = chain("Neg", "Exp", "Log", "Exp", "Log", "Exp", "Abs", "Relu")

        def no_abs_behind(context: Any, x: ir.Value) -> bool:
            return all(node.op_type != "Abs" for node in context.graph_or_function)

        early = rule(lambda op, x: op.Neg(x), lambda op, x: op.Sub(0.0, x), no_abs_behind)
        late = rule(lambda op, x: op.Relu(op.Abs(x)), lambda op, x: op.Max(x, op.Sub(0.0, x)))
        value(model, "v6").type = ir.TensorType(ir.DataType.FLOAT)
        assert apply(model, early, late) == 2

    @pytest.mark.parametrize("backwards", [False, True])
    def test_only_the_surroundings_of_a_change_are_looked_at_again(self, backwards: bool) -> None:
        """Each application makes the next one possible; sweeps over the graph would cost length times length."""
        length = 100
        half = ["Neg", "Reciprocal"] * (length // 2)
        model = chain(*half, *half[::-1], "Abs")
        if backwards:
            nodes = list(model.graph)
            model.graph.remove(nodes)
            model.graph.extend(nodes[::-1])
        inverse = rule(lambda op, x: op.Reciprocal(op.Reciprocal(x)), lambda op, x: x)
        look = rule(lambda op, x: op.Neg(x), lambda op, x: None, lambda op, x: False, name="look")
        watch = Watch()
        assert rewrite(model, [neg_neg, inverse, look], watch) == length
        assert watch.rules["look"].tried < 4 * length

    def test_new_nodes_are_looked_at_without_a_sweep(self) -> None:
        length = 100
        model = chain(*["Relu"] * length, "Neg")
        sink = rule(lambda op, x: op.Neg(op.Relu(x)), lambda op, x: op.Min(op.Neg(x), np.zeros(1, np.float32)))
        look = rule(lambda op, x: op.Relu(x), lambda op, x: None, lambda op, x: False, name="look")
        watch = Watch()
        assert rewrite(model, [sink, look], watch) == length
        assert watch.rules["look"].tried < 4 * length

    def test_second_root_of_a_pattern_appears_later(self) -> None:
        model = parse(
            """
            g (float[2] x) => (float[2] y, float[2] z) {
              y = Relu(x)
              a = Neg(x)
              b = Neg(a)
              z = Abs(b)
            }
            """
        )
        both = rule(lambda op, x: (op.Relu(x), op.Abs(x)), lambda op, x: (op.Max(x, 0.0), op.Max(x, op.Neg(x))))
        assert apply(model, both, neg_neg) == 2

    def test_priority_is_the_order_of_the_rules(self) -> None:
        names: list[str] = []
        for order in ((0, 1), (1, 0)):
            first = rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, 0.0), name="max")
            second = rule(lambda op, x: op.submodule("Re")(x), lambda op, x: op.Clip(x, 0.0), name="clip")
            watch = Watch()
            rules = [first, second]
            assert rewrite(chain("Relu"), [rules[i] for i in order], watch) == 1
            names.append(watch.applications[0].rule)
        assert names == ["max", "clip"]

    def test_all_of_many_users_of_a_value_are_found(self) -> None:
        width = 200
        lines = "\n".join(f"a{i} = Neg(r)\n b{i} = Neg(a{i})\n y{i} = Exp(b{i})" for i in range(width))
        outputs = ", ".join(f"float[2] y{i}" for i in range(width))
        model = parse(f"g (float[2] x) => ({outputs}) {{ r = Relu(x)\n {lines} }}")
        assert rewrite(model, [neg_neg]) == width
        assert operators(model) == ["Relu", *["Exp"] * width]


class TestFixpoint:
    @settings(max_examples=60, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1), order=st.permutations(range(len(exact_rules()))), forks=st.booleans())
    def test_after_a_run_no_rule_fits_any_more(self, seed: int, order: list[int], forks: bool) -> None:
        model = random_model(seed, nodes=25)
        compiled = exact_rules()
        rules = [compiled[i] for i in order]
        if forks:
            for item in rules:
                item.forks = "duplicate"
        rewrite(model, rules)
        assert_valid(model)
        before = full_hash(model)
        watch = Watch()
        assert rewrite(model, rules, watch) == 0
        assert full_hash(model) == before
        assert all(record.applied == 0 for record in watch.rules.values())

    @settings(max_examples=30, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_two_runs_apply_the_same_in_the_same_order(self, seed: int) -> None:
        histories: list[list[tuple[str, str, str | None]]] = []
        hashes: list[bytes] = []
        for _ in range(2):
            model, watch = random_model(seed, nodes=25), Watch()
            rewrite(model, exact_rules(), watch)
            histories.append([(a.rule, a.root.op_type, a.replaced[0][1].name) for a in watch.applications])
            hashes.append(full_hash(model))
        assert histories[0] == histories[1]
        assert hashes[0] == hashes[1]

    def test_a_run_without_applications_changes_nothing(self) -> None:
        for seed in range(20):
            model = random_model(seed)
            before, used = full_hash(model), uses(model)
            declined = [
                rule(lambda op, x: op.Relu(x), lambda op, x: op.Neg(op.Max(x, np.float32(0))) and None),
                rule(lambda op, x, y: (op.Add(x, y), op.Mul(x, y)), lambda op, x, y: None),
            ]
            assert rewrite(model, declined) == 0
            assert (full_hash(model), uses(model)) == (before, used)


class TestStatistics:
    def test_count_what_was_tried_matched_refused_and_applied(self) -> None:
        model = parse(
            """
            g (float[2] x) => (float[2] p, float[2] q, float[2] r) {
              a = Relu(x)
              p = Neg(a)
              b = Abs(x)
              q = Neg(b)
              r = Exp(b)
            }
            """
        )

        def only_relu(context: Any, x: Any, t: ir.Value) -> Any:
            producer = t.producer()
            return no("not a Relu", at=t) if producer is None or producer.op_type != "Relu" else True

        either = rule(
            lambda op, x: op.Neg(op.submodule("")(x, _outputs=["t"])),
            lambda op, x, t: op.Sub(0.0, op.Relu(x)),
            only_relu,
            forks="duplicate",
        )
        watch = Watch()
        assert rewrite(model, [either], watch) == 1
        record = watch.rules["rule"]
        # The second Neg is looked at again in the sweep that confirms that nothing is left.
        assert (record.tried, record.matched, record.applied) == (3, 3, 1)
        assert record.refused == {"not a Relu": 2}
        assert record.seconds > 0
        assert record.source.partition("test_driver.py:")[2].isdigit()

    def test_seconds_are_processor_time(self) -> None:
        """Waiting costs nothing: other processes must not make a rule look expensive."""

        def slow(op: Any, x: Any) -> ir.Value:
            time.sleep(0.2)
            return op.Abs(x)

        watch = Watch()
        assert rewrite(chain("Relu"), [rule(lambda op, x: op.Relu(x), slow)], watch) == 1
        assert 0 < watch.rules["rule"].seconds < 0.1

    def test_refusals_of_a_rewrite_are_counted(self) -> None:
        watch = Watch()
        reluctant = rule(lambda op, x: op.Relu(x), lambda op, x: no("too late"))
        assert rewrite(chain("Relu"), [reluctant], watch) == 0
        assert watch.rules["rule"].refused == {"too late": 1}

    def test_rules_that_never_fit_are_listed_too(self) -> None:
        watch = Watch()
        rewrite(chain("Relu"), [neg_neg, relu_relu], watch)
        assert {name: record.tried for name, record in watch.rules.items()} == {"neg-neg": 0, "relu-relu": 0}

    def test_are_reported_when_a_rule_fails(self) -> None:
        def fail(op: Any, x: Any) -> Any:
            raise ValueError("no")

        watch = Watch()
        with pytest.raises(RewriteError):
            rewrite(chain("Relu"), [rule(lambda op, x: op.Relu(x), fail)], watch)
        assert watch.rules["rule"].tried == 1

    def test_an_application_says_what_it_did(self) -> None:
        model, watch = chain("Exp", "Neg", "Neg", "Relu"), Watch()
        old = value(model, "v3")
        through = rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Mul(x, np.float32([1])), name="through")
        assert rewrite(model, [through], watch) == 1
        [application] = watch.applications
        assert application.rule == "through"
        assert "test_driver.py:" in application.source
        assert [node.op_type for node in application.matched] == ["Neg", "Neg"]
        assert [node.op_type for node in application.added] == ["Mul"]
        [(before, after)] = application.replaced
        assert before is old
        assert after.producer() is application.added[0]
        assert [item.name for item in application.initializers] == ["constant"]
        assert application.graph is model.graph

    def test_a_copy_that_keeps_the_name_of_an_output_is_said_to_be_added(self) -> None:
        watch = Watch()
        assert rewrite(chain("Neg", "Neg"), [neg_neg], watch) == 1
        assert [node.op_type for node in watch.applications[0].added] == ["Identity"]


class TestBudget:
    def test_rules_that_undo_each_other_are_named(self) -> None:
        there = rule(lambda op, x: op.Neg(x), lambda op, x: op.Sub(np.float32([0]), x), name="there")
        back = rule(lambda op, x: op.Sub([0.0], x), lambda op, x: op.Neg(x), name="back")
        with pytest.raises(BudgetError) as caught:
            rewrite(chain("Neg", "Relu"), [there, back])
        assert "'there'" in str(caught.value)
        assert "'back'" in str(caught.value)

    def test_rules_that_grow_the_graph_are_stopped(self) -> None:
        grow = rule(lambda op, x: op.Relu(x), lambda op, x: op.Relu(op.Relu(x)), name="grow")
        with pytest.raises(BudgetError, match="'grow'"):
            rewrite(chain("Relu"), [grow])

    def test_the_model_that_is_left_is_valid(self) -> None:
        model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Abs(x) t = Neg(y) z = Relu(t) }")

        def late_first(op: Any, x: Any, y: Any) -> Any:
            minus = op.Sub(np.float32([0]), y)
            return op.Max(x, op.Neg(x)), minus

        apart = rule(
            lambda op, x, y: (op.Abs(x), op.Neg(y)), late_first, lambda op, x, y: y.producer().op_type == "Abs"
        )
        grow = rule(lambda op, x: op.Relu(x), lambda op, x: op.Relu(op.Relu(x)))
        with pytest.raises(BudgetError):
            rewrite(model, [apart, grow])
        assert "Sub" in operators(model)
        assert_valid(model)

    def test_long_chains_stay_within(self) -> None:
        model = chain(*["Relu"] * 300)
        assert rewrite(model, [relu_relu]) == 299


class TestVeto:
    def test_stops_and_leaves_no_trace(self) -> None:
        model = chain("Neg", "Neg", "Exp", "Neg", "Neg", "Exp")
        limit = Limit(1)
        done: list[Application] = []
        context = Context(
            next_number=lambda: len(done) + 1, before_rewrite=limit.before_rewrite, after_rewrite=done.append
        )
        assert rewrite(model, [neg_neg], context) == 1
        assert limit.reached
        assert operators(model) == ["Exp", "Neg", "Neg", "Exp"]
        assert_valid(model)
        [record] = context.record.rules
        assert record.refused == {"limit of 1 rule applications reached": 1}

    def test_what_the_instruments_see(self) -> None:
        """Before, the graph is as it was; after, the replacement is in place."""
        model = chain("Neg", "Neg", "Exp")
        seen: list[list[str]] = []

        def before(application: Application) -> None:
            seen.append(operators(model))

        def after(application: Application) -> None:
            seen.append(operators(model))

        rewrite(model, [neg_neg], Context(before_rewrite=before, after_rewrite=after))
        assert seen == [["Neg", "Neg", "Exp"], ["Exp"]]

    def test_an_instrument_that_raises_leaves_no_trace(self) -> None:
        model = chain("Neg", "Neg", "Exp")
        used = uses(model)

        def stop(application: Application) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rewrite(model, [rule(lambda op, x: op.Neg(x), lambda op, x: op.Abs(x))], Context(before_rewrite=stop))
        assert uses(model) == used


class TestOrder:
    def test_two_equal_nodes_become_one_although_a_user_comes_in_between(self) -> None:
        text = """
        g (float[2] x) => (float[2] y, float[2] z) {
          a = Relu(x)
          y = Neg(a)
          b = Relu(x)
          z = Exp(b)
        }
        """

        def two(op: Any, x: Any) -> Any:
            return op.Relu(x, _outputs=["a"]), op.Relu(x, _outputs=["b"])

        for kept in ("a", "b"):
            model = parse(text)

            def keep(op: Any, a: Any, b: Any, kept: str = kept) -> Any:
                return (a, a) if (a if kept == "a" else b) is a else (b, b)

            assert apply(model, rule(two, keep)) == 1
            assert sorted(operators(model)) == ["Exp", "Neg", "Relu"]

    def test_a_value_computed_later_is_moved_before(self) -> None:
        model = parse("g (float[2] x, float[2] w) => (float[2] y, float[2] z) { y = Relu(x) z = Sub(w, w) }")
        late = value(model, "z")
        assert apply(model, rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, late))) == 1
        assert operators(model) == ["Sub", "Max"]

    @pytest.mark.parametrize("returned", [False, True])
    def test_a_value_that_depends_on_the_match_cannot_be_used_in_its_place(self, returned: bool) -> None:
        model = chain("Relu", "Exp", "Neg", "Abs")
        late = value(model, "v3")
        watch = Watch()
        closing = rule(lambda op, x: op.Relu(x), lambda op, x: late if returned else op.Max(x, late))
        assert rewrite(model, [closing], watch) == 0
        assert watch.rules["rule"].refused == {"the replacement would close a cycle": 1}
        assert operators(model) == ["Relu", "Exp", "Neg", "Abs"]

    def test_a_value_that_was_looked_up_may_be_before(self) -> None:
        model = chain("Abs", "Exp", "Neg", "Relu")
        early = value(model, "v1")
        assert rewrite(model, [rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, early))]) == 1
        assert_valid(model)

    @pytest.mark.parametrize("through_branch", [False, True])
    def test_a_fusion_whose_second_part_needs_the_first_is_refused(self, through_branch: bool) -> None:
        between = (
            """
            c = Constant<value = bool {1}>()
            b = If (c) <
              then_branch = p () => (float[2] t) { t = Neg(a) },
              else_branch = q () => (float[2] e) { e = Exp(x) }
            >
            """
            if through_branch
            else "b = Neg(a)"
        )
        model = parse(f"g (float[2] x) => (float[2] a, float[2] d) {{ a = Relu(x) {between} d = Abs(b) }}")
        before, watch = operators(model), Watch()
        fuse = rule(lambda op, x, y: (op.Relu(x), op.Abs(y)), lambda op, x, y: op.Both(x, y, _outputs=2, _domain="f"))
        assert rewrite(model, [fuse], watch) == 0
        assert set(watch.rules["rule"].refused) == {"the replacement would close a cycle"}
        assert operators(model) == before
        assert_valid(model)

    def test_a_replacement_that_does_not_join_them_is_fine(self) -> None:
        """Only what the replacement uses counts: here each new value uses what its old one used."""
        model = parse("g (float[2] x) => (float[2] a, float[2] d) { a = Relu(x) b = Neg(a) d = Abs(b) }")
        apart = rule(lambda op, x: (op.Relu(x), op.Exp(x)), lambda op, x: (op.Max(x, 0.0), op.Exp(x)))
        assert rewrite(model, [apart]) == 0
        first_only = rule(
            lambda op, x, y: (op.Relu(x), op.Abs(y, _outputs=["old"])), lambda op, x, y, old: (op.Max(x, 0.0), old)
        )
        assert apply(model, first_only) == 1

    def test_fusions_in_a_row_keep_track_of_each_other(self) -> None:
        """The second fusion would close a cycle only because of the first one."""
        model = parse(
            """
            g (float[2] x, float[2] y) => (float[2] p, float[2] q, float[2] r, float[2] s) {
              p = Relu(x)
              t = Neg(p)
              u = Sqrt(t)
              s = Log(u)
              q = Abs(y)
              r = Exp(q)
            }
            """
        )
        # Joining Relu with Exp makes Log depend on Abs; joining Abs with Log then closes a cycle.
        first = rule(
            lambda op, x, y: (op.Relu(x), op.Exp(y)),
            lambda op, x, y: op.First(x, y, _domain="f", _outputs=2),
            name="first",
        )
        second = rule(
            lambda op, x, y: (op.Abs(x), op.Log(y)),
            lambda op, x, y: op.Second(x, y, _domain="f", _outputs=2),
            name="second",
        )
        watch = Watch()
        assert rewrite(model, [first, second], watch) == 1
        assert watch.applications[0].rule == "first"
        assert "the replacement would close a cycle" in watch.rules["second"].refused
        assert_valid(model)

    def test_many_fusions_leave_a_sorted_graph(self) -> None:
        rng = np.random.default_rng(1)
        fused = 0
        for _ in range(30):
            lines, names = [], ["x"]
            for i in range(14):
                op_type, source = rng.choice(["Relu", "Abs", "Neg"]), rng.choice(names[-5:])
                lines.append(f"v{i} = {op_type}({source})")
                names.append(f"v{i}")
            outputs = ", ".join(f"float[2] v{i}" for i in range(14))
            model = parse(f"g (float[2] x) => ({outputs}) {{ {' '.join(lines)} }}")
            twins = rule(
                lambda op, x, y: (op.Relu(x), op.Abs(y)),
                lambda op, x, y: op.Split(op.Concat(op.Relu(x), op.Abs(y), axis=0), num_outputs=2, _outputs=2),
                lambda context, x, y: all(
                    getattr(item.producer(), "op_type", "") != "Concat"
                    and all(
                        user.op_type != "Concat"
                        for node in context.nodes
                        for o in node.outputs
                        for user in o.consumers()
                    )
                    for item in (x, y)
                ),
            )
            fused += apply(model, twins)
        assert fused > 30

    def test_an_unsorted_model_does_not_confuse_it(self) -> None:
        model = parse("g (float[2] x) => (float[2] a, float[2] d) { a = Relu(x) b = Neg(a) c = Exp(b) d = Abs(c) }")
        nodes = list(model.graph)
        model.graph.remove(nodes)
        model.graph.extend(nodes[::-1])
        fuse = rule(lambda op, x, y: (op.Relu(x), op.Abs(y)), lambda op, x, y: op.Both(x, y, _outputs=2, _domain="f"))
        assert rewrite(model, [fuse]) == 0
        apart = rule(
            lambda op, x, y: (op.Relu(x), op.Neg(y)), lambda op, x, y: (op.Max(x, 0.0), op.Sub(np.float32([0]), y))
        )
        assert rewrite(model, [apart]) == 1
        assert_valid(model)


class TestSetup:
    def test_is_called_around_the_work_even_if_it_fails(self) -> None:
        calls: list[str] = []

        def fail(op: Any, x: Any) -> Any:
            calls.append("rewrite")
            raise ValueError("no")

        failing = rule(
            lambda op, x: op.Relu(x),
            fail,
            setup=lambda: calls.append("setup"),
            cleanup=lambda: calls.append("cleanup"),
        )
        with pytest.raises(RewriteError):
            rewrite(chain("Relu"), [failing])
        assert calls == ["setup", "rewrite", "cleanup"]


class TestThreads:
    def test_rules_may_be_shared(self) -> None:
        index = RuleIndex(exact_rules())
        expected = {seed: full_hash(_rewritten(seed, index)) for seed in range(6)}
        found: dict[int, bytes] = {}

        def work(seed: int) -> None:
            for _ in range(3):
                found[seed] = full_hash(_rewritten(seed, index))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == expected

    def test_rules_may_be_made_at_the_same_time(self) -> None:
        made: list[Rule] = []

        def slowly(op: Any, a: Any, b: Any) -> Any:
            total = a + b
            time.sleep(0.001)
            return total * a

        def work() -> None:
            made.extend(rule(slowly, lambda op, a, b: None) for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [item.size for item in made] == [2] * 20


def _rewritten(seed: int, index: RuleIndex) -> ir.Model:
    model = random_model(seed, nodes=40)
    rewrite(model, index)
    return model


def test_an_empty_set_of_rules_does_nothing() -> None:
    assert rewrite(chain("Relu"), []) == 0


def test_a_rule_may_fit_every_operator() -> None:
    model = chain("Relu", "Exp", "Relu")
    seen: list[str] = []

    def note(context: Any, x: Any) -> bool:
        seen.append(context.root.op_type)
        return False

    rewrite(model, [rule(lambda op, x: op.submodule("")(x), lambda op, x: x, note), relu_relu])
    assert seen == ["Relu", "Exp", "Relu"]


def test_constant_nodes_are_seen_as_constants_by_foreign_checks() -> None:
    model = parse("g (float[2] x) => (float[2] y) { c = Constant<value_float = 2.0>() y = Mul(x, c) }")
    seen: list[float] = []

    def check(context: Any, x: Any, c: ir.Value) -> bool:
        if c.const_value is not None:
            seen.append(c.const_value.numpy().item())
        return False

    rewrite(model, [rule(lambda op, x, c: op.Mul(x, c), lambda op, x, c: x, check)])
    assert seen == [2.0]
    assert node_of(model, "Mul") is not None


class TestInAFixpoint:
    def test_nodes_are_looked_at_once_where_the_next_round_does(self) -> None:
        tried: list[int] = []
        never = rule(lambda op, x: op.Abs(x), lambda op, x: op.Abs(x), lambda match, x: False)
        for runs_again in (False, True):
            context = Context(record := StepRecord(1, "step", "step", "requested"), runs_again=runs_again)
            assert rewrite(chain("Abs", "Sin", "Cos", "Relu", "Relu"), [never, relu_relu], context) == 1
            tried.append(record.rules[0].tried)
        assert tried == [2, 1]

    def test_what_a_check_sees_late_is_found_in_the_next_round(self) -> None:
        """The check asks for the number of nodes: no neighbour tells that it changed."""
        late = rule(lambda op, x: op.Abs(x), lambda op, x: op.Neg(x), lambda match, x: len(match.model.graph) < 5)

        class Both(Transformation, RewriteRuleSetPass):
            def rules(self) -> Sequence[Rule]:
                return [late, relu_relu]

        model = chain("Abs", "Neg", "Sin", "Cos", "Relu", "Relu")
        applied = Manager().run(plan([Fixpoint(body=(Both(),))]), model)
        assert [node.op_type for node in applied.model.graph] == ["Abs", "Neg", "Sin", "Cos", "Relu"]
        model = chain("Abs", "Sin", "Cos", "Relu", "Relu")
        applied = Manager().run(plan([Fixpoint(body=(Both(),))]), model)
        assert [node.op_type for node in applied.model.graph] == ["Neg", "Sin", "Cos", "Relu"]
