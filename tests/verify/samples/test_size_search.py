"""Sizes of dynamic dimensions that fit together are found by running the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor, TimeLimitError
from onnx_passes.verify.samples.coverage import run_generated, run_samples
from onnx_passes.verify.samples.generate import Sampler, Sampling, generate
from onnx_passes.verify.samples.integers import decisive_values
from onnx_passes.verify.samples.size_search import Misfit, Place, Relations, search_sizes

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
        ("time", rule(lambda s: s["time"] > 12_000), "time = 16384"),
        ("x[0] h[0] c[0]", rule(lambda s: s["x[0]"] == s["h[0]"] == s["c[0]"]), "h[0] = x[0], c[0] = x[0]"),
    ],
)
def test_a_relation_is_found(names: str, attempt: Callable[[Mapping[str, int]], str], relations: str) -> None:
    least = dict.fromkeys(names.split(), 1)
    found = search_sizes(least, attempt, {}, {})
    assert isinstance(found, Relations)
    assert str(found) == relations
    for more in (3, 5):
        assert not attempt(found.sizes({name: more + 2 * place for place, name in enumerate(least)}))


def test_several_relations_are_found_one_after_the_other() -> None:
    def attempt(sizes: Mapping[str, int]) -> str:
        if sizes["total"] != sizes["now"] + sizes["past"]:
            return "running MatMul node. Name:'first'"
        return "" if sizes["width"] == 14 else "running Reshape node. Name:'second' requested shape: {-1,7,2} of 14"

    found = search_sizes(dict.fromkeys(("now", "past", "total", "width"), 1), attempt, {"first": 1, "second": 2}, {})
    assert isinstance(found, Relations)
    assert set(str(found).split(", ")) == {"total = now + past", "width = 14"}


def test_caches_of_all_layers_have_one_length() -> None:
    names = [f"past.{layer}.{kind}[2]" for layer in range(12) for kind in ("key", "value")]

    def attempt(sizes: Mapping[str, int]) -> str:
        wrong = next((name for name in names if sizes[name] != sizes[names[0]]), "")
        return f"running Concat node. Name:'{wrong}'" if wrong else ""

    order = {name: place for place, name in enumerate(names)}
    found = search_sizes(dict.fromkeys(["batch", *names], 1), attempt, order, {})
    assert isinstance(found, Relations)
    assert str(found).count(" = ") == len(names) - 1


def test_like_inputs_get_like_sizes() -> None:
    """Exporters that infer dimensions give them numbers for names, in decoders with many caches one for each."""
    caches = [f"s{number}" for number in (69, 89, 15, 81, 7, 93)]
    tried: list[Mapping[str, int]] = []

    def attempt(sizes: Mapping[str, int]) -> str:
        tried.append(sizes)
        if sizes["s64"] < sizes["s27"] + sizes["s69"]:
            return f"running GatherND node. Name:'mask' invalid index found, index = {sizes['s64']}"
        if sizes["s52"] != 1:
            return f"running RotaryEmbedding node. Name:'turn' got 1 and {sizes['s27']}"
        is_whole = sizes["s64"] == sizes["s27"] + sizes["s69"] and len({sizes[name] for name in caches}) == 1
        return "" if is_whole else "running Attention node. Name:'attention' inconsistent kv_sequence_length"

    names = ["s52", "s27", "s31", "s64", *caches]
    places = {name: Place("FLOAT", (None, 4, None, 16), 2) for name in caches}
    places |= {name: Place("INT64", (None, None), axis) for axis, name in enumerate(("s52", "s27"))}
    places |= {name: Place("INT64", (None, None), axis) for axis, name in enumerate(("s31", "s64"))}
    order = {"mask": 1, "turn": 2, "attention": 3}
    found = search_sizes(dict.fromkeys(names, 1), attempt, order, {}, places=places)
    assert isinstance(found, Relations)
    assert len(tried) < 100


def test_a_failure_of_a_new_kind_at_the_same_node_is_progress() -> None:
    def attempt(sizes: Mapping[str, int]) -> str:
        if not 100 < sizes["time"] < 300:
            return "running LSTM node. Name:'lstm' X must have 3 dimensions"
        right = sizes["state"] == sizes["batch"]
        return "" if right else f"running LSTM node. Name:'lstm' {sizes['batch']} expected, but {sizes['state']}"

    found = search_sizes({"batch": 1, "time": 512, "more": 1, "state": 1}, attempt, {"lstm": 7}, {})
    assert str(found) == "time = 256, batch = state"


def test_dimensions_that_change_nothing_are_tried_last() -> None:
    tried: list[Mapping[str, int]] = []

    def attempt(sizes: Mapping[str, int]) -> str:
        tried.append(sizes)
        signal = sizes["signal"]
        wrong = next((place for place, least in enumerate((100, 500, 1000, 4000, 9000)) if signal < least), None)
        return "" if wrong is None else f"running Conv node. Name:'conv_{wrong}' Invalid input shape: {{{wrong},32}}"

    order = {f"conv_{place}": place + 1 for place in range(5)}
    found = search_sizes({"batch": 1, "channels": 1, "signal": 1}, attempt, order, {})
    assert isinstance(found, Relations)
    assert found.terms["signal"] == ((), 16384)
    assert len(tried) < 60


def test_slow_attempts_leave_room_for_larger_sizes_that_take_no_longer() -> None:
    seconds = 0.0

    def attempt(sizes: Mapping[str, int]) -> str:
        nonlocal seconds
        seconds += (sizes["width"] + sizes["height"]) * 3e-5
        return "" if sizes["height"] == 16384 else "running Conv node. Name:'conv' Invalid input shape: {1,32}"

    fits = search_sizes({"width": 1, "height": 1}, attempt, {"conv": 1}, {}, lambda: seconds)
    assert str(fits) == "height = 16384"
    assert seconds < 2


def test_a_misfit_names_the_sizes_that_ran_furthest() -> None:
    def attempt(sizes: Mapping[str, int]) -> str:
        return "running Add node. Name:'second'" if sizes["a"] == 64 else "running Neg node. Name:'first'"

    found = search_sizes({"a": 1, "b": 1}, attempt, {"first": 1, "second": 2}, {"b": 5})
    assert isinstance(found, Misfit)
    assert found.sizes == {"a": 64, "b": 5}


def test_the_search_is_bounded() -> None:
    tried: list[Mapping[str, int]] = []

    def attempt(sizes: Mapping[str, int]) -> str:
        tried.append(sizes)
        return "1 2 3 4 5 6 7 8 9"

    found = search_sizes(dict.fromkeys("abcdef", 1), attempt, {}, {})
    assert isinstance(found, Misfit)
    assert str(found).endswith("with a=2, b=3, c=4, d=5, e=6, f=7: 1 2 3 4 5 6 7 8 9")
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


def test_a_run_says_what_sizes_had_to_meet() -> None:
    text = CACHE.replace("y = MatMul (all, w)", "a = MatMul (all, w) b = Neg (a) y = Neg (b)")
    record = apply(ir.from_onnx_text(text), "eliminate, verify").record
    assert record.modified
    notes = [note for step in record.steps for note in step.notes]
    assert notes == ["sizes of generated inputs meet now + past = total"]


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
    assert "with batch=2, time=" in record.obstacle
    assert "set them with --size NAME=SIZE, or give data with --inputs" in record.obstacle
    assert "idx=99999" in record.obstacle


def test_samples_of_given_sizes_are_those_of_the_same_sizes() -> None:
    """The fourth sample is an ordinary one, also where all sizes are given."""
    model = ir.from_onnx_text(f"{HEAD} g (float[a, b] x) => (float[a, b] y) {{ y = Identity (x) }}")
    usual = generate(model)[3]["x"]
    sizes = dict(zip("ab", usual.shape, strict=True))
    assert np.array_equal(Sampler(model, Sampling()).sample(3, sizes)["x"], usual)


def test_sizes_of_the_user_are_kept() -> None:
    model = ir.from_onnx_text(CACHE)
    sampler = Sampler(model, Sampling(sizes={"past": 5}))
    assert sampler.fixed == {"past": 5}
    samples, _ = run_generated(Executor().prepare(model), sampler.draft(thorough=False))
    assert {sample["before"].shape[1] for sample in samples} == {5}
    assert {sample["w"].shape[0] - sample["x"].shape[1] for sample in samples} == {5}


RATES = f"""{HEAD}
rates (float[batch, time] x, int64 rate) => (float[3] y) {{
    fast = Constant <value_int = 16000> ()
    is_fast = Equal (rate, fast)
    y = If (is_fast) <
        then_branch = yes () => (float[3] t) {{ four = Constant <value_ints = [4, 3]> ()
            [four_rows] a = Reshape (x, four) zero = Constant <value_ints = [0]> ()
            t = ReduceSum <keepdims = 0> (a, zero) }},
        else_branch = no () => (float[3] e) {{ two = Constant <value_ints = [2, 3]> ()
            [two_rows] b = Reshape (x, two) none = Constant <value_ints = [0]> ()
            e = ReduceMax <keepdims = 0> (b, none) }}
    >
}}"""


def test_both_branches_get_the_sizes_that_they_take() -> None:
    """One branch takes six elements, the other one twelve."""
    model = ir.from_onnx_text(RATES)
    ready = Executor().prepare(model)
    samples, results = run_generated(ready, Sampler(model, Sampling()).draft(thorough=False))
    sizes = {sample["x"].size for sample in samples if sample["rate"] == 16000}
    assert sizes == {12}
    assert {sample["x"].size for sample in samples if sample["rate"] != 16000} == {6}
    assert len(samples) == len(results)


@pytest.mark.parametrize(
    ("operator", "decisive"),
    [("Equal", {7}), ("Less", {7, 6}), ("Greater", {7, 8}), ("LessOrEqual", {7, 8}), ("GreaterOrEqual", {7, 6})],
)
def test_samples_lie_on_both_sides_of_what_decides(operator: str, decisive: set[int]) -> None:
    text = f"""{HEAD} g (int32[1] n) => (bool[1] y) {{
        m = Identity (n) c = Constant <value = int32 {{7}}> () y = {operator} (m, c)
    }}"""
    drawn = {int(sample["n"][0]) for sample in generate(ir.from_onnx_text(text), samples=8)}
    assert decisive <= drawn
    swapped = text.replace("(m, c)", "(c, m)")
    sides = {n < 7 for n in {int(sample["n"][0]) for sample in generate(ir.from_onnx_text(swapped), samples=8)}}
    assert sides == {True, False}


@pytest.mark.parametrize(
    ("operator", "first", "second"),
    [
        ("Equal", [7], [7]),
        ("Less", [7, 6], [7, 8]),
        ("Greater", [7, 8], [7, 6]),
        ("LessOrEqual", [7, 8], [7, 6]),
        ("GreaterOrEqual", [7, 6], [7, 8]),
    ],
)
def test_integers_beside_a_limit_come_out_otherwise(operator: str, first: list[int], second: list[int]) -> None:
    """Seven and the neighbour for which the comparison, also the other way round, gives another result."""
    for operands, expected in (("(n, c)", first), ("(c, n)", second)):
        body = f"c = Constant <value = int32 {{7}}> () y = {operator} {operands}"
        model = ir.from_onnx_text(f"{HEAD} g (int32[1] n) => (bool[1] y) {{ {body} }}")
        assert decisive_values(model, model.graph.inputs[0]) == expected
        ready = Executor().prepare(model)
        results = {bool(ready.run({"n": np.array([number], np.int32)})["y"][0]) for number in expected}
        assert len(results) == len(expected)
