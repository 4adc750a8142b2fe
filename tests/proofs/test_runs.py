"""What counts as a difference of two runs, and what each flag of fast math excuses."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.proofs.runs import WholeRuns, differ, drawn, run
from tests.proofs.models import model, pair

ALL = frozenset({"nnan", "ninf", "nsz", "reassoc", "contract"})
ROUNDED = frozenset({"reassoc"})


def found(interface: str, before: str, after: str, allow: frozenset[str], **example: object) -> tuple[int, ...]:
    """Return the outputs that differ on an example."""
    runs = WholeRuns(*pair(interface, before, after), allow, (), 20.0)
    shown = runs.try_on({name: np.asarray(array) for name, array in example.items()})
    return () if shown is None else shown.outputs


ONE = "c = Constant <value = {0} {{1}}> ()"


@pytest.mark.parametrize("kind", ["int32", "uint8", "int64"])
def test_integers_that_are_off_by_one_are_no_matter_of_rounding(kind: str):
    interface = f"{kind}[3] x => {kind}[3] y"
    given = np.array([100, 90, 80], kind)
    before, after = f"{ONE.format(kind)} y = Add(x, c)", "y = Identity(x)"
    assert found(interface, before, after, ALL, x=given) == (0,)
    assert found(interface, before, before, frozenset(), x=given) == ()
    assert differ(*pair(interface, before, after), [0], {"x": given})
    assert not differ(*pair(interface, before, before), [0], {"x": given})


def test_truth_values_that_differ_are_no_matter_of_rounding():
    assert found("float[2] x => bool[2] y", "y = IsNaN(x)", "y = IsInf(x)", ALL, x=np.float32([np.inf, 1])) == (0,)
    assert found("float[2] x => bool[2] y", "y = IsNaN(x)", "y = IsNaN(x)", ALL, x=np.float32([np.nan, 1])) == ()


@pytest.mark.parametrize(
    ("before", "after", "given", "flag"),
    [
        ("z = Constant <value_float = 0.0> () y = Add(x, z)", "y = Identity(x)", [-0.0, 1.0], "nsz"),
        ("y = Sub(x, x)", "y = Not0(x)", [np.inf, 1.0], "nnan"),
        ("y = Inverse(x)", "y = Zero(x)", [0.0, 1e30], "ninf"),
    ],
)
def test_a_difference_is_excused_by_its_own_flag_alone(before: str, after: str, given: list[float], flag: str):
    named = {
        "y = Not0(x)": "z = Constant <value_float = 0.0> () m = Min(x, z) y = Max(m, z)",
        "y = Inverse(x)": "y = Reciprocal(x)",
        "y = Zero(x)": "i = Reciprocal(x) n = Constant <value_float = 1e38> () y = Min(i, n)",
    }
    texts = [named.get(text, text) for text in (before, after)]
    models = "float[2] x => float[2] y", *texts
    example = np.resize(np.float32(given), 2)
    results = [run(each, {"x": example}) for each in pair(*models)]
    assert results[0] is not None
    assert results[1] is not None
    first, second = results[0][0], results[1][0]
    assert first.tobytes() != second.tobytes()
    for allow in (frozenset[str](), ALL - {flag}):
        assert found(*models, allow, x=example) == (0,), allow
    for allow in (frozenset({flag}), ALL):
        assert found(*models, allow, x=example) == (), allow


@pytest.mark.parametrize(("factor", "is_rounding"), [(1 + 2.0**-20, True), (1 + 2.0**-11, False), (-1.0, False)])
def test_rounding_excuses_what_is_near_the_largest_result(factor: float, is_rounding: bool):
    interface = "float[2] x => float[2] y"
    before, after = "y = Identity(x)", f"c = Constant <value_float = {factor!r}> () y = Mul(x, c)"
    given = np.float32([1.0, 3.0])
    assert found(interface, before, after, frozenset(), x=given) == (0,)
    assert (found(interface, before, after, ROUNDED, x=given) == ()) is is_rounding
    assert differ(*pair(interface, before, after), [0], {"x": given}) is not is_rounding


@pytest.mark.parametrize(("one", "other"), [("inf", "-inf"), ("inf", "1.0"), ("nan", "1.0"), ("nan", "inf")])
def test_special_results_are_no_matter_of_rounding(one: str, other: str):
    held = "c = Constant <value = float[2] {{{0}, 1.0}}> () z = Constant <value_float = 0.0> () "
    held += "p = Abs(x) q = Min(p, z) y = Add(c, q)"
    models = pair("float[2] x => float[2] y", held.format(one), held.format(other))
    given = {"x": np.float32([1.0, 2.0])}
    assert differ(*models, [0], given)
    assert not differ(models[0], models[0], [0], given)
    assert WholeRuns(*models, ROUNDED, (), 20.0).try_on(given) is not None


def test_outputs_that_are_not_looked_at_do_not_count_and_all_others_do():
    interface = "float[2] x => float[2] y, float[2] z"
    models = pair(interface, "y = Abs(x) z = Neg(x)", "y = Neg(x) z = Abs(x)")
    given = {"x": np.float32([1.0, 2.0])}
    for ignored, seen in (((), (0, 1)), ((0,), (1,)), ((1,), (0,)), ((0, 1), None)):
        shown = WholeRuns(*models, frozenset(), ignored, 20.0).try_on(given)
        assert (None if shown is None else shown.outputs) == seen


@pytest.mark.parametrize(
    ("outputs", "body"),
    [
        ("double[2] y", "y = Cast <to = 11> (x)"),
        ("float[1,2] y", "i = Constant <value_ints = [0]> () y = Unsqueeze(x, i)"),
        ("float[1] y", "i = Constant <value_ints = [0]> () y = ReduceSum(x, i)"),
    ],
)
def test_other_types_and_shapes_differ(outputs: str, body: str):
    given = model("g (float[2] x) => (float[2] y) { y = Identity(x) }")
    other = model(f"g (float[2] x) => ({outputs}) {{ {body} }}")
    for first, second in ((given, other), (other, given)):
        assert differ(first, second, [0], {"x": np.zeros(2, np.float32)})
        assert WholeRuns(first, second, ALL, (), 20.0).try_on({}) is not None


@pytest.mark.parametrize(
    ("kind", "special"),
    [("int32", 2**31 - 1), ("int32", -(2**31)), ("uint8", 255), ("float", 3.4028235e38), ("float", -3.4028235e38)],
)
def test_the_ends_of_a_type_are_searched(kind: str, special: float):
    interface = f"{kind}[3] x => bool[3] y"
    limit = f"c = Constant <value = {kind} {{{special!r}}}> ()"
    before = f"{limit} y = Equal(x, c)"
    after = f"{limit} e = Equal(x, c) n = Not(e) y = And(e, n)"
    shown = WholeRuns(*pair(interface, before, after), frozenset(), (), 60.0).search()
    assert shown is not None
    assert (shown.feeds["x"] == np.asarray(special, shown.feeds["x"].dtype)).any()


def test_a_model_that_fails_alone_differs_and_two_that_fail_do_not():
    """ONNX Runtime refuses to gather behind the end."""
    interface = "int64[1] x => float[1] y"
    table = "t = Constant <value = float[3] {1.0, 2.0, 3.0}> () "
    picky = table + "y = Gather(t, x)"
    safe = table + "n = Constant <value = int64 {2}> () z = Constant <value = int64 {0}> () m = Min(x, n) "
    safe += "i = Max(m, z) y = Gather(t, i)"
    beyond = np.array([7], np.int64)
    assert run(pair(interface, picky, picky)[0], {"x": beyond}) is None
    assert found(interface, picky, safe, ALL, x=beyond) == (0,)
    assert found(interface, safe, picky, ALL, x=beyond) == (0,)
    assert found(interface, picky, picky, ALL, x=beyond) == ()
    assert differ(*pair(interface, picky, safe), [0], {"x": beyond}) is None
    assert not differ(*pair(interface, picky, safe), [0], {"x": np.array([2], np.int64)})


def test_inputs_are_paired_by_what_they_are_paired_with():
    old = model("g (float[1] a, float[1] b) => (float[1] y) { y = Sub(a, b) }")
    new = model("g (float[1] b, float[1] a) => (float[1] y) { y = Sub(a, b) }")
    given = {"a": np.float32([5.0]), "b": np.float32([2.0])}
    assert not differ(old, new, [1, 0], given)
    assert differ(old, new, [0, 1], given)


def test_draws_differ_and_fit_the_types():
    given = model("g (float[3,2] x, uint8[4] u, int8[64] i, bool[64] b) => (float[3,2] y) { y = Neg(x) }")
    first, second = drawn(given)
    for name, kind, shape in (
        ("x", "float32", (3, 2)),
        ("u", "uint8", (4,)),
        ("i", "int8", (64,)),
        ("b", "bool", (64,)),
    ):
        assert (first[name].dtype, first[name].shape) == (np.dtype(kind), shape)
    assert not np.array_equal(first["x"], second["x"])
    assert first["i"].min() < 0 < first["i"].max()
    assert first["b"].any()
    assert not first["b"].all()


@pytest.mark.parametrize("body", ["y = Neg(x) z = Abs(x)", "y = Abs(x) z = Neg(x)"])
def test_one_output_of_two_that_differs_is_enough(body: str):
    before = "y = Abs(x) z = Abs(x)"
    models = pair("float[2] x => float[2] y, float[2] z", before, body)
    assert differ(*models, [0], {"x": np.float32([1.0, 2.0])})
    assert not differ(*models, [0], {"x": np.float32([-1.0, -2.0])})


def test_special_values_are_tried_in_each_input_and_in_all_at_once():
    """NaN in the first input, in the second alone, or in both."""
    one = "n = IsNaN(x) m = IsNaN(u)"
    for seen in ("And(n, m)", "w", "v"):
        named = {"w": "k = Not(m) w = And(n, k)", "v": "k = Not(n) v = And(k, m)"}.get(seen, f"w = {seen}")
        last = {"w": "w", "v": "v"}.get(seen, "w")
        before = f"{one} {named} f = Cast <to = 1> ({last}) y = Add(f, f)"
        after = f"{one} {named} f = Cast <to = 1> ({last}) y = Sub(f, f)"
        shown = WholeRuns(*pair("float[1] x, float[1] u => float[1] y", before, after), ALL, (), 60.0).search()
        assert shown is not None, seen
        places = [bool(np.isnan(shown.feeds[name]).all()) for name in ("x", "u")]
        assert places == {"And(n, m)": [True, True], "w": [True, False], "v": [False, True]}[seen]
