"""What is said of a check is true: the claim that was broken, the nodes, the sources of passes, and the time."""

from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.blame.diagnosis import first_divergence
from onnx_passes.check.blame.reproducer import sources
from onnx_passes.check.measuring import Measuring
from onnx_passes.check.original import Original
from onnx_passes.check.settings import Settings
from onnx_passes.check.verification import Verification
from onnx_passes.core.claims import Claim
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
LONG = " ".join(f"a{number + 1} = Neg (a{number})" for number in range(8))


def chain(last: str) -> ir.Model:
    text = LONG.replace("(a0)", "(x)").replace("a8 =", "y =")
    return ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ {text.replace('y = Neg', f'y = {last}')} }}")


class Renames(Transformation):
    """Change nothing but a name."""

    claims = (Claim("equality"),)

    def call(self, model: ir.Model) -> PassResult:
        model.graph[0].outputs[0].name = "renamed"
        return PassResult(model, modified=True)


class Turns(Transformation):
    """Compute something else, and claim no more than a tolerance."""

    claims = (Claim("tolerance"),)

    def call(self, model: ir.Model) -> PassResult:
        model.graph[-1].op_type = "Abs"
        return PassResult(model, modified=True)


@pytest.mark.parametrize("mode", ["final", "each"])
@pytest.mark.parametrize("renamed", [False, True])
def test_the_claim_that_was_broken_is_that_of_the_step(mode: str, renamed: bool):
    pipeline = [*([Renames()] if renamed else []), Turns()]
    with pytest.raises(PostconditionError) as caught:
        apply(chain("Neg"), pipeline, verify=Verification(mode=mode))
    assert caught.value.failure.claim.startswith("tolerance")
    assert caught.value.failure.step == len(pipeline)


@passes.verify.equality
class DropsEight(Transformation, RewriteRulePass):
    """Drop eight negations, which is right, and the sign, which is wrong."""

    def pattern(self, op, x):
        for _ in range(8):
            x = op.Neg(x)
        return x

    def rewrite(self, op, x):
        return op.Abs(x)


def test_nodes_beyond_a_few_are_counted():
    with pytest.raises(PostconditionError) as caught:
        apply(chain("Neg"), DropsEight())
    matched = caught.value.failure.matched
    assert matched.startswith("2 more, ")
    assert matched.count(" = Neg(") == 6
    assert caught.value.failure.replacement == "y = Abs(x)"


def test_the_first_value_that_differs_is_named_and_none_if_all_are_the_same():
    sample = {"x": np.array([1, -2], np.float32)}
    found = first_divergence(chain("Neg"), chain("Abs"), sample, Executor(), "onnxruntime")
    assert found.startswith("y[1]: expected -2.0, found 2.0")
    assert found.endswith("computed by y = Abs(a7)")
    assert first_divergence(chain("Neg"), chain("Neg"), sample, Executor(), "onnxruntime") == ""


def test_passes_of_a_script_come_from_no_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Renames, "__module__", "__main__")
    passes.register("renames-in-a-script")(Renames)
    from onnx_passes.core.registry import REGISTRY

    try:
        assert sources("renames-in-a-script") == []
        assert sources("cleanup, renames-in-a-script") == []
    finally:
        for key, entry in list(REGISTRY._entries.items()):
            if entry.name == "renames-in-a-script":
                del REGISTRY._entries[key]
        REGISTRY._classes.pop("renames-in-a-script", None)


DECLARED = "g (float[N] x) => (float[{0}] y) {{ a = Neg (x) b = Neg (a) y = Identity (b) }}"


class Declares(Transformation):
    """Declare another shape of the output."""

    claims = (Claim("equality"),)
    size: int = 7

    def call(self, model: ir.Model) -> PassResult:
        model.graph.outputs[0].shape = ir.Shape([self.size])
        return PassResult(model, modified=True)


def test_what_was_declared_wrong_from_the_beginning_is_excused_and_nothing_else_is():
    data = [{"x": np.ones(2, np.float32)}]
    wrong, right = (ir.from_onnx_text(f"{HEAD} {DECLARED.format(size)}") for size in ("5", "N"))
    for model in (wrong, right):
        sampled = Verification(inputs=data, prove=False)
        assert apply(model, Renames(), verify=sampled).record.level == "bits:sampled"
        found = Original(model, Settings(inputs=data)).established()
        assert found is not None
        assert found.current[0]["y"].shape == (2,)
    with pytest.raises(PostconditionError, match="shape"):
        apply(right, Declares(), verify=Verification(inputs=data))


PICKY = f"{HEAD} g (float[N] x) => (float[M] y) {{ s = Constant <value_ints = [2]> () n = Neg (x) y = Reshape (n, s) }}"
PAIRED = f"{HEAD} g (float[N,3] x, float[M,3] u) => (float[K,3] y) {{ n = Neg (x) y = Add (n, u) }}"


@pytest.mark.parametrize("text", [PICKY, PAIRED])
def test_relations_between_sizes_are_named_if_there_are_any(text: str):
    notes = [note for step in apply(ir.from_onnx_text(text), Renames()).steps for note in step.notes]
    assert not any(note.rstrip().endswith("meet") for note in notes), notes


def test_the_time_of_a_measurement_is_not_longer_than_the_run():
    started = time.perf_counter()
    record = apply(chain("Neg"), Turns(), verify=False, instruments=[Measuring({"max_abs_error": None})]).record
    spent = time.perf_counter() - started
    (step,) = record.leaves()
    assert step.evidence is not None
    assert step.evidence.seconds is not None
    assert 0 < step.evidence.seconds <= spent
    assert step.metrics["max_abs_error"] > 0
