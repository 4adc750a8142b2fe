from __future__ import annotations

import math
import sys

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, RewriteRuleSetPass, Rule, Transformation, passes
from onnx_passes.check.blame.diagnosis import Mark
from onnx_passes.check.verification import Limits
from onnx_passes.core.compose import Fixpoint
from onnx_passes.core.errors import PassFailedError, UsageError
from onnx_passes.debug.bisect import Bisection, bisect, first_bad
from onnx_passes.debug.judges import ByCommand, ByFunction, ByMetrics, ByResults, Unanimous


def chain(length: int = 8) -> ir.Model:
    """``v1 = x + b, v2 = v1 + b, …``, every node an Add."""
    nodes = "\n".join(f"v{i + 1} = Add({f'v{i}' if i else 'x'}, b)" for i in range(length))
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["": 20]> g (float[3] x, float[3] b) => (float[3] v{length}) {{ {nodes} }}'
    )


class Innocent(Transformation):
    """Says that it changed the model, and renames it."""

    def call(self, model):
        model.graph.name = f"{model.graph.name}_"
        return PassResult(model, modified=True)


@passes.verify.equality
class Swap(Transformation, RewriteRulePass):
    """``Add(x, y) → Sub(x, Neg(y))``, which is exact; the application at ``wrong`` forgets the Neg."""

    wrong: str = ""

    def pattern(self, op, x, y):
        return op.Add(x, y, _outputs=["sum"])

    def rewrite(self, op, x, y, sum):  # noqa: A002
        return op.Sub(x, y if sum.name == self.wrong else op.Neg(y))


class Lose(Transformation):
    """Connects the output with an earlier value: no rule application is involved."""

    def call(self, model):
        output = model.graph.outputs[0]
        node = output.producer()
        node.replace_input_with(1, node.inputs[0])
        return PassResult(model, modified=True)


def log2(number: int) -> int:
    return math.ceil(math.log2(max(number, 1)))


def test_good_pipeline_has_no_bad_step():
    found = bisect(chain(), [Swap, Innocent])
    assert not found.found
    assert found.runs == 1
    assert "nothing is bad" in str(found)


def test_first_bad_pass_in_the_middle_of_a_pipeline():
    found = bisect(chain(), [Innocent] * 6 + [Lose] + [Innocent] * 9)
    assert (found.step, found.text) == (7, "lose")
    assert found.application == 0
    assert "v8" in found.difference
    assert found.runs <= 1 + log2(16)


def test_one_bad_application_of_many_in_the_middle_of_a_pipeline():
    found = bisect(chain(40), [Innocent, Innocent, Swap(wrong="v17"), Innocent, Swap, Innocent])
    assert (found.step, found.text) == (3, "swap{wrong=v17}")
    assert (found.application, found.place) == (17, "17 of 40 in this step")
    assert found.rule == "Swap"
    assert "test_bisect.py:" in found.source
    assert found.matched == "v17 = Add(v16, b)"
    assert found.added == "v17 = Sub(v16, b)"
    assert found.runs <= 1 + log2(6) + log2(40)


def test_applications_are_numbered_over_the_whole_run():
    class Cancel(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Neg(op.Neg(x))

        def rewrite(self, op, x):
            return op.Identity(x)

    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[3] x, float[3] b) => (float[3] v2)'
        "{ m = Neg(x) n = Neg(m) v1 = Add(n, b) v2 = Add(v1, b) }"
    )
    found = bisect(model, [Cancel, Swap(wrong="v2")])
    assert (found.step, found.application, found.place) == (2, 3, "2 of 2 in this step")


@pytest.mark.parametrize("wrong", [1, 2, 25, 39, 40])
def test_every_place_is_found(wrong):
    found = bisect(chain(40), Swap(wrong=f"v{wrong}"))
    assert found.place == f"{wrong} of 40 in this step"


def test_one_bad_rule_of_a_set():
    class Mixed(Transformation, RewriteRuleSetPass):
        def rules(self):
            return [
                Rule(lambda op, x: op.Neg(x), lambda op, x: op.Mul(x, np.float32(-1)), name="fine"),
                Rule(lambda op, x: op.Abs(x), lambda op, x: op.Relu(x), name="wrong"),
            ]

    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[3] x) => (float[3] y)'
        "{ a = Neg(x) b = Neg(a) c = Abs(b) d = Neg(c) y = Neg(d) }"
    )
    found = bisect(model, Mixed)
    assert found.rule == "wrong"
    assert found.matched == "c = Abs(b)"


class LoseOnce(Transformation):
    """Does its harm in the round in which the model has fewer than five Adds."""

    def call(self, model):
        adds = [node for node in model.graph if node.op_type == "Add"]
        if not adds:
            return PassResult(model, modified=False)
        wrong = len(adds) == 5
        model.graph.insert_after(adds[0], new := ir.node("Sub" if wrong else "Sum", adds[0].inputs))
        adds[0].outputs[0].replace_all_uses_with(new.outputs[0], replace_graph_outputs=True)
        new.outputs[0].name, adds[0].outputs[0].name = adds[0].outputs[0].name, None
        new.outputs[0].type, new.outputs[0].shape = adds[0].outputs[0].type, adds[0].outputs[0].shape
        model.graph.remove(adds[0], safe=True)
        return PassResult(model, modified=True)


def test_round_of_a_fixpoint_is_found_by_its_step_number():
    found = bisect(chain(8), Fixpoint(body=(Innocent, LoseOnce)))
    # Step 1 is the fixpoint; each round is two steps; the fourth round sees five Adds.
    assert (found.step, found.text) == (9, "lose-once")
    # Eight rounds change the model, two more only rename it.
    assert found.steps == 1 + 2 * 10
    assert found.runs <= 1 + log2(20)


def test_application_inside_a_fixpoint_is_found():
    found = bisect(chain(8), [Innocent, Fixpoint(body=(Innocent, Swap(wrong="v5"))), Innocent])
    assert found.text == "swap{wrong=v5}"
    assert found.step == 4
    assert found.application == 5


def test_pass_that_raises_is_the_culprit():
    class Raise(Transformation):
        def call(self, model):
            raise ValueError("out of luck")

    found = bisect(chain(), [Innocent, Innocent, Raise, Innocent])
    assert (found.step, found.text, found.application) == (3, "raise", 0)
    assert "out of luck" in found.difference


def test_wrong_pass_before_one_that_raises_is_the_first():
    class RaiseLater(Transformation):
        def call(self, model):
            raise ValueError("out of luck")

    found = bisect(chain(), [Swap(wrong="v3"), Innocent, Innocent, RaiseLater])
    assert (found.step, found.application) == (1, 3)
    assert "out of luck" not in found.difference


class RaiseAt(Swap):
    """Raises at one of its applications; those before may be wrong."""

    at: str = ""

    def rewrite(self, op, x, y, sum):  # noqa: A002
        if sum.name == self.at:
            raise ValueError("out of luck")
        return super().rewrite(op, x, y, sum)


def test_rewrite_that_raises_is_not_blamed_on_the_application_before():
    found = bisect(chain(), RaiseAt(at="v5"))
    assert found.step == 1
    assert found.application == 0
    assert "out of luck" in found.difference
    assert "v5" in found.difference


def test_wrong_application_before_one_that_raises_is_the_first():
    found = bisect(chain(), RaiseAt(at="v5", wrong="v2"))
    assert (found.application, found.place) == (2, "2 of 4 in this step")


def test_last_application_before_one_that_raises():
    found = bisect(chain(), RaiseAt(at="v5", wrong="v4"))
    assert (found.application, found.place) == (4, "4 of 4 in this step")


def scaled(model: ir.Model, factor: float) -> PassResult:
    """Multiply the output of a model."""
    graph = model.graph
    old = graph.outputs[0]
    constant = ir.Value(name=f"factor_{len(graph)}", const_value=ir.Tensor(np.float32(factor)))
    graph.register_initializer(constant)
    node = ir.node("Mul", [old, constant])
    graph.append(node)
    node.outputs[0].type, node.outputs[0].shape = old.type, old.shape
    graph.outputs[0] = node.outputs[0]
    node.outputs[0].name, old.name = old.name, f"inner_{len(graph)}"
    return PassResult(model, modified=True)


class Scale(Transformation):
    factor: float = 1.0

    def call(self, model):
        return scaled(model, self.factor)


def test_drift_is_told_from_a_bad_pass():
    found = bisect(chain(), [Scale(factor=1.00003)] * 16, is_bad=ByResults(limits=Limits(0.0, 1e-4)))
    assert found.step == 4
    assert "no single pass is bad" in found.drift
    assert found.runs <= 1 + log2(16)


def test_bad_pass_after_harmless_drift_is_no_drift():
    pipeline = [Scale(factor=1.00003)] * 3 + [Scale(factor=1.1)] + [Scale(factor=1.0)] * 3
    found = bisect(chain(), pipeline, is_bad=ByResults(limits=Limits(0.0, 1e-4)))
    assert (found.step, found.drift) == (4, "")


def test_drift_within_one_pass_is_told():
    class Stretch(Transformation, RewriteRulePass):
        def pattern(self, op, x, y):
            return op.Add(x, y)

        def rewrite(self, op, x, y):
            return op.Mul(op.Sum(x, y), np.float32(1.00005))

    positive = {"x": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
    found = bisect(chain(20), Stretch, is_bad=ByResults(inputs=[positive], limits=Limits(0.0, 2e-4)))
    assert found.step == 1
    assert 1 < found.application < 20
    assert "no single application is bad" in found.drift


def test_promises_decide_how_strict_results_are_compared():
    class Shift(Scale):
        pass

    exact = passes.verify.equality(type("ExactScale", (Scale,), {}))
    loose = passes.verify.tolerance(rtol=0.5)(type("LooseScale", (Scale,), {}))
    assert not bisect(chain(), Shift(factor=1.00001)).found
    assert bisect(chain(), exact(factor=1.00001)).found
    assert bisect(chain(), Shift(factor=1.2)).found
    assert not bisect(chain(), loose(factor=1.2)).found
    assert not bisect(chain(), exact(factor=1.00001), is_bad=ByResults(limits=Limits(0.0, 1e-3))).found


def test_pass_that_denies_its_change_is_found():
    class Liar(Scale):
        def call(self, model):
            return PassResult(super().call(model).model, modified=False)

    found = bisect(chain(), [Innocent, Liar(factor=2.0), Innocent])
    assert found.text == "liar{factor=2.0}"


def test_by_metric():
    judge = ByMetrics({"max_abs_error": (None, 0.5)}, inputs=[{"x": np.ones(3, np.float32), "b": np.ones(3, "f")}])
    found = bisect(chain(), [Scale(factor=1.02)] * 8, is_bad=judge)
    # 9 · 1.02 ** n leaves 9 by more than one half at n = 3.
    assert found.step == 3
    assert "max_abs_error is" in found.difference
    assert "at most 0.5" in found.difference


def test_metric_of_the_original_out_of_range_is_refused():
    with pytest.raises(UsageError, match="original model is already bad: max_abs_error is 0, accepted is at least 1"):
        bisect(chain(), Innocent, is_bad=ByMetrics({"max_abs_error": (1.0, None)}))


def test_model_that_can_no_longer_be_measured_is_bad():
    class Rename(Transformation):
        def call(self, model):
            model.graph.outputs[0].name = "renamed"
            return PassResult(model, modified=True)

    found = bisect(chain(), [Innocent, Rename], is_bad=ByMetrics({"max_abs_error": (None, 1.0)}))
    assert found.step == 2
    assert "no output 'v8'" in found.difference


def test_all_of_several_judges_must_agree():
    measure = ByMetrics({"max_abs_error": (None, 1e9)})
    assert bisect(chain(), Lose, is_bad=Unanimous(measure, ByResults())).found
    assert not bisect(chain(), Lose, is_bad=Unanimous(measure)).found


# Importing onnx would take most of the time: an operator is field 4 of a node, with its length before it.
COMMAND = r"""
import sys
count = open(sys.argv[1], "rb").read().count(b"\x22\x03Sub")
print("counted", count)
sys.exit({code})
"""


def command(tmp_path, code: str) -> ByCommand:
    (tmp_path / "check it.py").write_text(COMMAND.format(code=code))
    return ByCommand(f"{sys.executable} '{tmp_path / 'check it.py'}' {{}}")


def test_by_command(tmp_path):
    found = bisect(chain(8), [Innocent, Swap], is_bad=command(tmp_path, "count > 2"))
    assert (found.step, found.application) == (2, 3)
    assert found.difference == "the command ended with exit code 1: counted 3"


def test_command_gets_the_file_last_if_no_place_is_named(tmp_path):
    (tmp_path / "check.py").write_text(COMMAND.format(code="count > 2"))
    found = bisect(chain(8), Swap, is_bad=ByCommand(f"{sys.executable} {tmp_path}/check.py"))
    assert found.application == 3


def test_command_that_cannot_tell_leaves_suspects(tmp_path):
    found = bisect(chain(8), Swap, is_bad=command(tmp_path, "125 if 2 < count < 5 else count > 4"))
    assert found.application == 5
    assert found.suspects == "applications 3, 4, which could not be judged"


def test_command_that_cannot_tell_about_the_result_is_refused(tmp_path):
    with pytest.raises(UsageError, match="result cannot be judged"):
        bisect(chain(8), Swap, is_bad=command(tmp_path, "125 if count else 0"))


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "empty"), ("unbalanced 'quote", "cannot be read"), ("/no/such/command {}", "cannot be started")],
)
def test_wrong_command_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        bisect(chain(), Innocent, is_bad=ByCommand(text))


def test_command_that_is_killed_is_bad():
    killed = f"{sys.executable} -c 'import os; os.kill(os.getpid(), 9)' {{}}"
    with pytest.raises(UsageError, match="ended with signal 9"):
        bisect(chain(), Innocent, is_bad=ByCommand(killed))


def test_by_function_with_a_reason():
    found = bisect(chain(), Swap, is_bad=lambda model: len(model.graph) > 12 and f"{len(model.graph)} nodes")
    assert found.application == 5
    assert found.difference == "13 nodes"


def test_original_model_is_left_as_it_is():
    model = chain()
    before = ir.to_proto(model).SerializeToString()
    bisect(model, [Swap(wrong="v4"), Innocent])
    assert ir.to_proto(model).SerializeToString() == before


def test_bad_original_is_refused():
    with pytest.raises(UsageError, match="original model is already bad: it never pleases"):
        bisect(chain(), Innocent, is_bad=lambda model: "it never pleases")


def test_expected_outputs_that_do_not_fit_are_refused():
    inputs, expect = [{"x": np.ones(3, "f"), "b": np.ones(3, "f")}], [{"v8": np.full(3, 7, "f")}]
    with pytest.raises(UsageError, match="original model is already bad: v8"):
        bisect(chain(), Innocent, is_bad=ByResults(inputs=inputs, expect=expect))


def test_expected_outputs_are_the_measure():
    inputs, expect = [{"x": np.ones(3, "f"), "b": np.ones(3, "f")}], [{"v8": np.full(3, 9, "f")}]
    found = bisect(chain(), [Innocent, Scale(factor=2.0)], is_bad=ByResults(inputs=inputs, expect=expect))
    assert found.step == 2
    assert "expected 9.0, found 18.0" in found.difference


def test_original_that_does_not_run_is_refused():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20, "no.where": 1]> g (float[3] x) => (float[3] y) { y = no.where.Foo(x) }'
    )
    with pytest.raises(UsageError, match="original model cannot be run"):
        bisect(model, Innocent)


def test_model_that_no_longer_runs_is_bad():
    class Break(Transformation):
        def call(self, model):
            model.graph.outputs[0].producer().op_type = "NoSuchOperator"
            return PassResult(model, modified=True)

    found = bisect(chain(), [Innocent, Break, Innocent])
    assert found.step == 2
    assert "no longer runs" in found.difference


class Circle(Transformation):
    """Makes a graph that nobody can sort, run or tell from another."""

    def call(self, model):
        nodes = list(model.graph)
        nodes[0].replace_input_with(0, nodes[-1].outputs[0])
        return PassResult(model, modified=True)


@pytest.mark.parametrize("judge", [ByResults, lambda: ByMetrics({"max_abs_error": (None, 1.0)})])
def test_sequence_that_fails_because_of_a_member_is_not_blamed(judge):
    found = bisect(chain(), [Innocent, Fixpoint(body=(Innocent, Circle))], is_bad=judge())
    assert (found.step, found.text) == (4, "circle")


def test_pipeline_that_depends_on_chance_is_refused():
    calls: list[int] = []

    class Whim(Transformation, RewriteRulePass):
        def pattern(self, op, x, y):
            return op.Add(x, y)

        def check(self, op, x, y):
            calls.append(1)
            return len(calls) <= 8

        def rewrite(self, op, x, y):
            return op.Sub(x, y)

    with pytest.raises(PassFailedError, match="the pipeline is not deterministic"):
        bisect(chain(), Whim)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
def test_search_finds_every_first_bad_number(size):
    for wanted in {1, 2, size // 2 + 1, size} - {0}:
        asked: list[int] = []

        def judge(number: int, asked: list[int] = asked, wanted: int = wanted) -> Mark:
            asked.append(number)
            return Mark("bad" if number >= wanted else "good")

        if wanted <= size:
            assert first_bad(0, size, judge) == (wanted - 1, wanted)
            assert len(asked) <= log2(size)


def test_result_as_plain_data():
    found = bisect(
        chain(), Swap(wrong="v2"), is_bad=ByFunction(lambda model: any(n.op_type == "Sub" for n in model.graph))
    )
    data = found.to_json()
    assert data["found"] is True
    assert (data["step"], data["application"], data["rule"]) == (1, 1, "Swap")
    assert Bisection(1, 3).to_json() == {"found": False, "runs": 1, "steps": 3}
