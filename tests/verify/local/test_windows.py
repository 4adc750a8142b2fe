from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verification import Verification
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import Executor

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
CHAIN = "\n".join(f"a{i} = Neg(v{i}) b{i} = Neg(a{i}) m{i} = Mul(b{i}, w) v{i + 1} = Add(m{i}, w)" for i in range(12))
DOUBLE_NEGATIONS = f"{HEAD} g (float[3] v0, float[3] w) => (float[3] y) {{ {CHAIN} y = Relu(v12) }}"


@passes.verify.equality
class DropDoubleNegation(Transformation, RewriteRulePass):
    """Right, except at the value named in ``wrong``."""

    wrong: str = ""

    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return op.Neg(x) if x.name == self.wrong else op.Identity(x)


def model() -> ir.Model:
    return ir.from_onnx_text(DOUBLE_NEGATIONS)


class Counting(Executor):
    """Counts the nodes of the models that are made ready to run."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def prepare(self, model, **kwargs):
        self.sizes.append(len(model.graph))
        return super().prepare(model, **kwargs)


def test_every_application_is_checked_on_its_own():
    evidence = apply(model(), DropDoubleNegation).steps[0].evidence
    assert evidence.level == "bits:sampled"
    assert evidence.windows == 12


def test_one_small_model_runs_for_all_windows_of_a_pass():
    executor = Counting()
    apply(model(), DropDoubleNegation, verify=Verification(executor=executor, special=False))
    original, inside, windows, final = executor.sizes
    assert original == inside == 49
    assert final == 37
    assert windows == 3 * 12


def test_wrong_application_is_named_without_repeating_the_run():
    executor = Counting()
    with pytest.raises(PostconditionError) as caught:
        apply(model(), DropDoubleNegation(wrong="v7"), verify=Verification(executor=executor))
    failure = caught.value.failure
    assert failure.application == "number 8 of 12 in this pass, by DropDoubleNegation"
    assert failure.matched == "b7 = Neg(a7), a7 = Neg(v7)" or failure.matched == "a7 = Neg(v7), b7 = Neg(a7)"
    assert "y not as expected" in str(caught.value)


def test_difference_that_no_output_shows_is_caught():
    hidden = f"{HEAD} g (float[3] v0) => (float[3] y) {{ a = Neg(v0) b = Neg(a) c = Sub(b, b) y = Relu(c) }}"

    with pytest.raises(PostconditionError, match="no output shows it"):
        apply(ir.from_onnx_text(hidden), DropDoubleNegation(wrong="v0"))


def test_tolerated_local_difference_is_noted_when_the_outputs_are_fine():
    class Shift(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Abs(x)

        def check(self, op, x):
            return x.producer() is None

        def rewrite(self, op, x):
            return op.Abs(op.Add(op.Identity(x), 1.0))

    hidden = f"{HEAD} g (float[3] x) => (float[3] y) {{ a = Abs(x) c = Sub(a, a) y = Relu(c) }}"
    step = apply(ir.from_onnx_text(hidden), Shift).steps[0]
    assert step.evidence.level == "bits:sampled"
    assert any("differs locally" in note for note in step.notes)


def test_later_applications_read_what_earlier_ones_put_in():
    text = f"{HEAD} g (float[3] x) => (float[3] y) {{ a = Neg(x) b = Neg(a) c = Neg(b) d = Neg(c) y = Relu(d) }}"
    evidence = apply(ir.from_onnx_text(text), DropDoubleNegation).steps[0].evidence
    assert evidence.windows == 2

    @passes.verify.tolerance
    class Rescale(Transformation, RewriteRulePass):
        """Changes the last bits, so that values from before no longer fit those after."""

        def pattern(self, op, x):
            return op.Tanh(x)

        def check(self, op, x):
            return x.producer() is None or x.producer().op_type != "Mul"

        def rewrite(self, op, x):
            return op.Tanh(op.Mul(x, np.float32(1 + 2e-7)))

    mixed = f"{HEAD} g (float[3] x) => (float[3] y) {{ t = Tanh(x) a = Neg(t) b = Neg(a) y = Relu(b) }}"
    steps = apply(ir.from_onnx_text(mixed), [Rescale(), DropDoubleNegation()]).steps
    assert [step.evidence.level for step in steps] == ["tolerance:sampled", "tolerance:sampled"]
    assert steps[1].evidence.windows == 1


def test_rewrites_in_subgraphs_are_left_to_the_whole_model():
    text = f"""{HEAD} g (float[3] x, bool c) => (float[3] y) {{
        y = If(c)<
            then_branch = t () => (float[3] u) {{ a = Neg(x) u = Neg(a) }},
            else_branch = e () => (float[3] v) {{ v = Abs(x) }}>
    }}"""
    evidence = apply(ir.from_onnx_text(text), DropDoubleNegation).steps[0].evidence
    assert evidence.level == "bits:sampled"
    assert evidence.windows == 0


def test_wrong_rewrite_in_a_subgraph_is_caught():
    text = f"""{HEAD} g (float[3] x, bool c) => (float[3] y) {{
        y = If(c)<
            then_branch = t () => (float[3] u) {{ a = Neg(x) u = Neg(a) }},
            else_branch = e () => (float[3] v) {{ v = Abs(x) }}>
    }}"""
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(text), DropDoubleNegation(wrong="x"))


def test_many_rewrites_are_left_to_the_whole_model():
    chain = "\n".join(f"a{i} = Neg(v{i}) v{i + 1} = Neg(a{i})" for i in range(300))
    text = f"{HEAD} g (float[3] v0) => (float[3] y) {{ {chain} y = Relu(v300) }}"
    evidence = apply(ir.from_onnx_text(text), DropDoubleNegation).steps[0].evidence
    assert evidence.level == "bits:sampled"
    assert 0 < evidence.windows < 300


def test_weights_and_defaults_are_at_hand():
    text = f"""{HEAD} g (float[3] x, float[3] d = {{1, 2, 3}}) => (float[3] y)
        <float[3] w = {{4, 5, 6}}> {{
            k = Constant<value = float[3] {{7, 8, 9}}>()
            a = Neg(d) b = Neg(a) c = Neg(w) e = Neg(c) f = Neg(k) h = Neg(f)
            s = Add(b, e) t = Add(s, h) y = Add(t, x)
    }}"""
    evidence = apply(ir.from_onnx_text(text), DropDoubleNegation, verify=Verification(prove=False)).steps[0].evidence
    assert evidence.windows == 3


class TestActivations:
    def test_values_are_kept_as_computed(self):
        given = ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Neg(x) y = Abs(a) }}")
        activations = Activations(Executor())
        x = np.array([1, -2], np.float32)
        activations.fill(given, [{"x": x}, {"x": -x}])
        first, second = activations.get(given.graph[0].outputs[0])
        assert np.array_equal(first, -x)
        assert np.array_equal(second, x)
        assert activations.get(given.graph.inputs[0])[0] is x

    def test_memory_is_bounded_and_the_smallest_are_kept(self):
        text = f"""{HEAD} g (float[2,1000] x) => (float[2] y) {{
            a = Neg(x) b = Abs(a) s = ReduceMax<keepdims = 0>(b) t = Neg(s) q = Shape(b) y = Cast<to = 1>(q)
        }}"""
        given = ir.from_onnx_text(text)
        activations = Activations(Executor(), limit=4000)
        activations.fill(given, [{"x": np.ones((2, 1000), np.float32)}])
        kept = {node.outputs[0].name for node in given.graph if node.outputs[0] in activations}
        assert kept == {"s", "q", "y"}
        assert activations.bytes <= 4000

    def test_what_is_not_kept_is_computed_again(self):
        text = f"{HEAD} g (float[3] x) => (float[3] y) {{ t = Tanh(x) s = Sinh(t) a = Neg(s) b = Neg(a) y = Relu(b) }}"
        executor = Counting()
        verification = Verification(executor=executor, memory=300, special=False)
        evidence = apply(ir.from_onnx_text(text), DropDoubleNegation, verify=verification).steps[0].evidence
        assert evidence.windows == 1
        recomputed = executor.sizes[-2]
        assert recomputed == len(["Sinh", "Neg", "Neg", "Identity"])

    def test_values_that_are_gone_are_forgotten(self):
        given = ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Neg(x) y = Abs(a) }}")
        activations = Activations(Executor(), limit=8)
        gone = ir.Value(name="gone")
        activations.put(gone, (np.zeros(2, np.float32),))
        del gone
        activations.put(given.graph[0].outputs[0], (np.zeros(2, np.float32),))
        assert given.graph[0].outputs[0] in activations

    @pytest.mark.parametrize(("length", "kept"), [(10, 4), (20, 2), (21, 1)])
    def test_the_larger_values_are_the_fewer_samples_are_kept(self, length: int, kept: int, monkeypatch):
        monkeypatch.setattr("onnx_passes.verify.run.activations._SMALL", 80)
        given = ir.from_onnx_text(f"{HEAD} g (float[n] x) => (float[n] y) {{ a = Neg(x) y = Abs(a) }}")
        samples = [{"x": np.full(length, number, np.float32)} for number in range(4)]
        activations = Activations(Executor())
        activations.fill(given, samples)
        found = activations.get(given.graph[0].outputs[0])
        assert [-array[0] for array in found] == {4: [0, 1, 2, 3], 2: [0, 2], 1: [0]}[kept]


def test_rounding_of_what_was_there_explains_a_difference(monkeypatch: pytest.MonkeyPatch):
    """What loses digits on the way may change by as much, and no levels are looked for where none are decided."""

    @passes.verify.tolerance
    class JoinsSums(Transformation, RewriteRulePass):
        """Leave out two sums that undo each other, or a little more."""

        wrong: float = 0.0

        def pattern(self, op, x, c):
            return op.Sub(op.Add(x, c), c)

        def rewrite(self, op, x, c):
            return op.Add(x, self.wrong) if self.wrong else op.Identity(x)

    monkeypatch.setattr("onnx_passes.verify.local.windows.explain", lambda *_, **__: pytest.fail("nothing is decided"))
    text = f"""{HEAD} g (float[64] x) => (float[1] y) <float c = {{100000.0}}> {{
        a = Add (x, c) b = Sub (a, c) y = ReduceSum (b) }}"""
    step = apply(ir.from_onnx_text(text), JoinsSums()).steps[0]
    assert step.evidence.windows == 1
    assert not any("differs locally" in note for note in step.notes)
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(text), JoinsSums(wrong=0.5))
