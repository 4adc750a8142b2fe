"""Sizes of dynamic dimensions that fit together are found by running the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor, TimeLimitError
from onnx_passes.verify.samples.fitting import dynamic_axes, run_generated, run_samples
from onnx_passes.verify.samples.generate import Redraw, Sampling, generate
from onnx_passes.verify.samples.size_search import Relations, search_sizes

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
CACHE = f"""{HEAD}
cached (float[batch, now] x, float[batch, past] before, float[total, 3] w) => (float[batch, 3] y) {{
    all = Concat <axis = 1> (before, x)
    [product] y = MatMul (all, w)
}}"""
WINDOW = f"""{HEAD}
window (float[batch, time] x) => (float[batch] y) {{
    last = Constant <value_int = 11> ()
    [last] a = Gather <axis = 1> (x, last)
    y = Abs (a)
}}"""
BOTH = f"""{HEAD}
both (float[batch, now] x, float[batch, past] before, float[total, three] w) => (float[batch, 2] y) {{
    all = Concat <axis = 1> (before, x)
    [product] a = MatMul (all, w)
    target = Constant <value_ints = [-1, 7, 2]> ()
    [parts] b = Reshape (a, target)
    axes = Constant <value_ints = [1]> ()
    y = ReduceSum <keepdims = 0> (b, axes)
}}"""
NEVER = WINDOW.replace("11", "99999")


def rule(holds: Callable[[Mapping[str, int]], bool], says: str = "") -> Callable[[Mapping[str, int]], str]:
    return lambda sizes: "" if holds(sizes) else says or "it failed"


@pytest.mark.parametrize(
    ("names", "attempt", "relations"),
    [
        ("batch now past total", rule(lambda s: s["total"] == s["past"] + s["now"]), "total = now + past"),
        ("batch time", rule(lambda s: s["time"] == 12, "idx=11 must be within [-4,3]"), "time = 12"),
        ("a b", rule(lambda s: s["a"] == s["b"]), "a = b"),
        ("a b", rule(lambda s: s["a"] == s["b"] + 1), "a = b + 1"),
        ("a", rule(lambda s: True), ""),
    ],
)
def test_a_relation_is_found(names: str, attempt: Callable[[Mapping[str, int]], str], relations: str) -> None:
    least = dict.fromkeys(names.split(), 1)
    found = search_sizes(least, attempt, {}, {})
    assert found is not None
    assert str(found) == relations
    for more in (3, 5):
        assert not attempt(found.sizes({name: more + 2 * place for place, name in enumerate(least)}))


def test_several_relations_are_found_one_after_the_other() -> None:
    def attempt(sizes: Mapping[str, int]) -> str:
        if sizes["total"] != sizes["now"] + sizes["past"]:
            return "running MatMul node. Name:'first'"
        return "" if sizes["width"] == 14 else "running Reshape node. Name:'second' requested shape: {-1,7,2} of 14"

    found = search_sizes(dict.fromkeys(("now", "past", "total", "width"), 1), attempt, {"first": 1, "second": 2}, {})
    assert found is not None
    assert set(str(found).split(", ")) == {"total = now + past", "width = 14"}


def test_the_search_is_bounded() -> None:
    tried: list[Mapping[str, int]] = []

    def attempt(sizes: Mapping[str, int]) -> str:
        tried.append(sizes)
        return "1 2 3 4 5 6 7 8 9"

    assert search_sizes(dict.fromkeys("abcdef", 1), attempt, {}, {}) is None
    assert len(tried) <= 120


def test_no_sizes_are_searched_for_a_model_that_runs_too_long() -> None:
    class Slow:
        """Runs longer than it may, whatever it is given."""

        runs = 0

        def run(self, sample: object) -> None:
            self.runs += 1
            raise TimeLimitError("too long")

        def run_each(self, samples: object, *, all_must_run: bool, pace: object = None) -> None:
            self.run(samples)

    model, slow = ir.from_onnx_text(CACHE), Slow()
    with pytest.raises(TimeLimitError, match=r"^too long$"):
        run_samples(slow, model, (), 0)
    assert slow.runs <= 3


def test_no_dimension_follows_from_itself() -> None:
    one = Relations({}).with_term("a", ("b",), 0)
    assert one is not None
    assert one.with_term("b", ("c", "a"), 0) is None
    assert one.sizes({"a": 7, "b": 3}) == {"a": 3, "b": 3}


@pytest.mark.parametrize("text", [CACHE, WINDOW, BOTH], ids=["cache", "window", "both"])
def test_models_run_with_sizes_that_fit(text: str) -> None:
    model = ir.from_onnx_text(text)
    samples, results = run_samples(Executor().prepare(model), model, (), 0)
    assert len(samples) >= 3
    for sample in samples:
        if "before" in sample:
            assert sample["w"].shape[0] == sample["x"].shape[1] + sample["before"].shape[1]
    assert all(np.isfinite(result["y"]).all() for result in results)
    assert apply(model, "simplify").record.level != "unverified"


def test_a_run_says_which_sizes_were_searched() -> None:
    text = CACHE.replace("y = MatMul (all, w)", "a = MatMul (all, w) b = Neg (a) y = Neg (b)")
    record = apply(ir.from_onnx_text(text), "eliminate, verify").record
    assert record.modified
    notes = [note for step in record.steps for note in step.notes]
    assert notes == ["sizes of generated inputs were searched: total = now + past"]


class ForgetsSigns(Transformation, RewriteRulePass):
    """Take weights without their sign: wrong on purpose."""

    def pattern(self, op, a, w):
        return op.MatMul(a, w)

    def check(self, op, a, w):
        return w.producer() is None

    def rewrite(self, op, a, w):
        return op.MatMul(a, op.Abs(w))


def test_a_fault_shows_with_sizes_that_were_searched() -> None:
    with pytest.raises(PostconditionError, match="Post-condition for pass 'ForgetsSigns' failed"):
        apply(ir.from_onnx_text(CACHE), ForgetsSigns())


def test_a_model_that_runs_with_no_sizes_says_what_to_give() -> None:
    record = apply(ir.from_onnx_text(NEVER.replace("y = Abs (a)", "b = Abs (a) y = Abs (b)")), "eliminate").record
    assert record.level == "unverified"
    assert "give data with --inputs" in record.obstacle
    assert "idx=99999" in record.obstacle


def test_sizes_of_the_user_are_kept() -> None:
    model = ir.from_onnx_text(CACHE)
    redraw = Redraw(model, Sampling(sizes={"past": 5}))
    assert redraw.fixed == {"past": 5}
    samples, _ = run_generated(
        Executor().prepare(model), generate(model, dimensions={"past": 5}), dynamic_axes(model), lambda: redraw
    )
    assert {sample["before"].shape[1] for sample in samples} == {5}
    assert {sample["w"].shape[0] - sample["x"].shape[1] for sample in samples} == {5}
