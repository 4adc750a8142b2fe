"""Windows in which two models differ, and certificates of what is proved of them."""

from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.api import apply
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.copy import copy_model
from onnx_passes.proofs.changed_fragments import Comparison
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.model_certificate import SECONDS, certify, differences
from onnx_passes.proofs.proof import LEVELS, Assumption, Proof
from onnx_passes.proofs.runs import run
from tests.proofs.models import model, pair

INTERFACE = "float[2,8] x, float[8,4] w => float[2,4] y, float[2,4] z"


def _models(before: str, after: str):
    first, second = pair(INTERFACE, before, after)
    for each in (first, second):
        for node in each.graph:
            for output in node.outputs:
                output.shape = output.shape or (
                    each.graph.outputs[0].shape if output.name != "xs" else each.graph.inputs[0].shape
                )
                output.dtype = output.dtype or each.graph.inputs[0].dtype
    return first, second


def test_unchanged_parts_leave_small_windows():
    models = _models(
        "a = MatMul(x, w) n = Neg(a) m = Neg(n) e = Relu(m) y = Softmax(e) z = Tanh(a)",
        "a = MatMul(x, w) e = Relu(a) y = Softmax(e) z = Tanh(a)",
    )
    (window,) = certify(*models).windows
    assert window.output == "e"
    assert (window.removed, window.added) == (("Neg", "Neg", "Relu"), ("Relu",))
    assert window.level == "proved-here"


def test_the_same_models_have_no_windows():
    models = _models("a = MatMul(x, w) y = Relu(a) z = Neg(a)", "b = MatMul(x, w) z = Neg(b) y = Relu(b)")
    found = certify(*models)
    assert found.windows == ()
    assert found.level == "proved"


def test_windows_grow_behind_values_that_differ():
    models = _models(
        "a = MatMul(x, w) c = Constant <value_float = 4.0> () b = Div(a, c) y = Relu(b) z = Neg(b)",
        "c = Constant <value_float = 0.25> () xs = Mul(x, c) b = MatMul(xs, w) y = Relu(b) z = Neg(b)",
    )
    found = certify(*models)
    assert found.level == "equal-in-reals"
    assert all("MatMul" in window.removed for window in found.windows)


def test_a_refuted_window_has_an_example_that_onnxruntime_confirms():
    models = _models("a = MatMul(x, w) y = Relu(a) z = Neg(a)", "a = MatMul(x, w) y = Abs(a) z = Neg(a)")
    found = certify(*models)
    assert found.is_refuted
    (window,) = found.windows
    assert window.is_confirmed
    assert window.to_json()["example"]


def test_a_difference_of_special_values_is_excused_only_if_allowed():
    models = _models(
        "a = MatMul(x, w) y = Relu(a) b = Sub(a, y) z = Neg(b)", "a = MatMul(x, w) y = Relu(a) z = Sub(y, a)"
    )
    assert certify(*models).level == "refuted"
    assert certify(*models, allow={"nsz"}).level == "equal-in-reals"


def test_a_certificate_is_checked_by_proving_it_again():
    models = _models("a = MatMul(x, w) y = Relu(a) n = Neg(a) z = Neg(n)", "z = MatMul(x, w) y = Relu(z)")
    made = certify(*models)
    data = made.to_json()
    assert differences(data, certify(*models)) == []
    data["windows"][0]["level"] = "proved"
    assert differences(data, made)
    other = certify(*_models("a = MatMul(x, w) y = Relu(a) z = Neg(a)", "z = MatMul(x, w) y = Relu(z)"))
    assert differences(made.to_json(), other) == ["the model before is another one"]
    with pytest.raises(UsageError):
        differences({}, made)


def test_outputs_without_a_partner_are_a_difference():
    first, second = _models("y = MatMul(x, w) z = Neg(y)", "y = MatMul(x, w) z = Neg(y)")
    second.graph.outputs.pop()
    found = certify(first, second)
    assert found.level == "refuted"
    assert "2 outputs before, 1 output after" in found.to_json()["windows"][0]["reason"]
    with pytest.raises(UsageError):
        Comparison(first, second).outputs()
    assert Comparison(first, first).outputs()


_F4 = "float[4] x => float[4] y"
_CHOICE = "float[4] x, bool c => float[4] y"
_IF = (
    " y = If (c) <then_branch = t () => (float[4] p) { p = Identity (v) }, "
    "else_branch = e () => (float[4] q) { q = Abs (x) }>"
)
_FUNCTIONS = """<ir_version: 10, opset_import: ["" : 21, "d" : 1]>
g (float[4] x, bool c) => (float[4] y) {{ {0} }}
<domain: "d", opset_import: ["" : {2}]> G (a) => (b) {{ b = {1} (a) }}
<domain: "d", opset_import: ["" : 21, "d" : 1]> F (a) => (b) {{ b = d.G (a) }}
"""
_BRANCH = (
    "y = If (c) <then_branch = t () => (float[4] p) { p = d.G (x) }, "
    "else_branch = e () => (float[4] q) { q = Neg (x) }>"
)


def _functions(body: str, inner: str, opset: int = 21) -> ir.Model:
    return model(_FUNCTIONS.format(body, inner, opset))


DIFFERENT = {
    "captured value": pair(_CHOICE, "v = Neg(x)" + _IF, "v = Relu(x)" + _IF),
    "function below a function": (_functions("y = d.F(x)", "Relu"), _functions("y = d.F(x)", "Abs")),
    "function in a branch": (_functions(_BRANCH, "Relu"), _functions(_BRANCH, "Abs")),
    "operator set": tuple(
        model("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", f'"" : {opset}') for opset in (12, 13)
    ),
    "order of outputs": pair(INTERFACE, "y = MatMul(x, w) z = Neg(y)", "y = MatMul(x, w) z = Neg(y)"),
    "number of outputs": pair(INTERFACE, "y = MatMul(x, w) z = Neg(y)", "y = MatMul(x, w) z = Neg(y)"),
    "type of an input": tuple(
        model(f"g ({kind}[4] x) => ({kind}[4] y) {{ y = Abs(x) }}") for kind in ("float", "double")
    ),
    "shape of an input": tuple(model(f"g (float[{size}] x) => (float[{size}] y) {{ y = Abs(x) }}") for size in (4, 5)),
    "fixed size": tuple(model(f"g (float[{size}] x) => (float[{size}] y) {{ y = Abs(x) }}") for size in ("N", 4)),
    "default of an input": tuple(
        model(f"g (float[1] x, float[1] w) => (float[1] y) <float[1] w = {{{number}}}> {{ y = Mul(x, w) }}")
        for number in (1.0, 2.0)
    ),
    "name of an input": tuple(model(f"g (float[4] {name}) => (float[4] y) {{ y = Abs({name}) }}") for name in "xu"),
}
DIFFERENT["order of outputs"][1].graph.outputs.reverse()
DIFFERENT["number of outputs"][1].graph.outputs.pop()


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_in_any_of_these_is_refuted(name: str):
    before, after = DIFFERENT[name]
    sized = tuple(apply(copy_model(each), "shape-inference", verify=False).model for each in (before, after))
    assert certify(before, after, sized=(sized[0], sized[1])).level == "refuted"
    assert certify(before, before).windows == ()


def test_operator_sets_of_functions_count():
    text = _FUNCTIONS.replace("float[4]", "float[2,3,4]")
    models = [model(text.format("y = d.F(x)", "Softmax", opset)) for opset in (12, 13)]
    # ONNX Runtime takes the operator set of the model, so that it refutes nothing.
    assert certify(*models).level == "unproved"
    assert certify(models[0], models[0]).level == "proved"


_DRAWN = "r = RandomNormalLike(x) s = RandomNormalLike(x)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{_DRAWN} y = Sub(r, s)", "r = RandomNormalLike(x) y = Sub(r, r)"),
        (f"{_DRAWN} y = Sub(r, s)", f"{_DRAWN} y = Sub(r, r)"),
        (f"{_DRAWN} y = Sub(r, s)", "z = Sub(x, x) y = Neg(z)"),
        ("r = RandomNormalLike <seed = 1.0> (x) y = Abs(r)", "r = RandomNormalLike <seed = 2.0> (x) y = Abs(r)"),
    ],
)
def test_draws_of_random_numbers_are_never_merged(before: str, after: str):
    models = pair(_F4, before, after)
    assert certify(*models).level in ("unproved", "refuted")
    assert certify(models[0], models[0]).level == "proved"
    assert not isinstance(prove_equal(*models), Proof)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = Relu(x) y = Relu(a)", "y = Relu(x)"),
        ("a = Round(x) y = Round(a)", "y = Round(x)"),
        (
            "l = Constant <value_float = -1.0> () a = Clip(x, l) y = Clip(a, l)",
            "l = Constant <value_float = -1.0> () y = Clip(x, l)",
        ),
        (
            "n = Constant <value = int64 {2}> () t = Constant <value = bool {1}> () y = Loop (n, t, x) <body = b "
            "(int64 i, bool k, float[4] s) => (bool k2, float[4] s2) { k2 = Identity(k) s2 = Neg(s) }>",
            "a = Neg(x) y = Neg(a)",
        ),
    ],
)
def test_right_pairs_are_proved(before: str, after: str):
    assert certify(*pair(_F4, before, after)).level == "proved-here"


def test_values_that_a_model_never_computes_refute_nothing():
    # Behind Relu nothing is negative, which a window that starts from its result does not know.
    before = "a = Exp(x) b = Sin(a) c = Abs(b) y = Erf(c)"
    found = certify(*pair(_F4, before, "a = Exp(x) b = Sin(a) c = Abs(b) d = Abs(c) y = Erf(d)"))
    assert found.level != "refuted"


def test_sums_of_integers_are_not_taken_to_be_in_range():
    before = "i = Constant <value_ints = [0]> () y = ReduceSum(x, i)"
    after = "i = Constant <value_ints = [1, 1]> () a, b = Split(x, i) y = Add(a, b)"
    found = certify(*pair("int32[2] x => int32[1] y", before, after))
    assert found.level == "refuted"
    assert "2147483647" in str(found.to_json()["windows"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = GlobalAveragePool(x)", "y = ReduceMean <axes = [2, 3]> (x)"),
        ("t = Tanh(x) y = Transpose <perm = [0, 1, 3, 2]> (t)", "t = Transpose <perm = [0, 1, 3, 2]> (x) y = Tanh(t)"),
    ],
)
def test_what_rests_on_an_assumption_about_kernels_is_not_known_bit_by_bit(before: str, after: str):
    models = pair("float[1,2,3,3] x => float[1,2,N,M] y", before, after, '"" : 13')
    found = prove_equal(*models)
    assert isinstance(found, Proof)
    assert (found.holds, found.level) == ("proved-here", "equal-in-reals")
    assert found.assumptions


def test_a_level_is_never_above_what_its_assumptions_leave():
    for level in ("proved", "proved-here", "equal-in-reals", "tested"):
        for leaves in ("equal-in-reals", "tested"):
            found = Proof(level, "method", assumptions=(Assumption("it is so", leaves),))
            assert LEVELS.index(found.level) == max(LEVELS.index(level), LEVELS.index(leaves))
            assert found.facts == ("it is so",)


def test_defaults_that_one_model_alone_lets_callers_override_are_an_assumption():
    text = "g (float[1] x{0}) => (float[1] y) <float[1] w = {{{1}}}> {{ y = Mul(x, w) }}"
    before, after = model(text.format(", float[1] w", 2.0)), model(text.format("", 2.0))
    for models in ((before, after), (after, before)):
        found = certify(*models)
        assert found.level == "tested"
        assert "nobody overrides the defaults of 1 input ('w')" in str(found.to_json()["windows"])
    assert certify(before, model(text.format("", 3.0))).level == "refuted"
    assert certify(before, before).level == "proved"


def test_products_of_equal_operands_are_not_evaluated():
    text = "float[64,512] x, float[512,512] w => float[64,512] y, float[64,512] a"
    first, second = pair(
        text,
        "a = Neg(x) n = Neg(a) m = Neg(n) p = MatMul(m, w) q = MatMul(p, w) y = Relu(q)",
        "a = Neg(x) p = MatMul(a, w) q = MatMul(p, w) y = Relu(q)",
    )
    sized = [apply(each, "shape-inference", verify=False).model for each in (first, second)]
    started = time.process_time()
    found = certify(first, second, sized=(sized[0], sized[1]))
    assert [(window.output, window.level) for window in found.windows] == [("m", "proved-here")]
    assert time.process_time() - started < SECONDS["normal"]


def test_products_of_other_operands_are_not_the_same():
    before = "a = Neg(x) b = Neg(a) y = MatMul(b, w) z = MatMul(x, w)"
    after = "a = Neg(x) y = MatMul(a, w) z = Neg(y)"
    assert certify(*_models_of(before, after)).is_refuted


def test_windows_that_grow_too_large_leave_those_that_were_decided():
    """One pair differs and is never proved; the others are not drawn into its window."""
    shared = " ".join(f"a{n} = Exp(s{n - 1}) s{n} = Neg(a{n})" for n in range(1, 5))
    before = f"s0 = Neg(x) {shared} t = Mul(s4, s4) y = MatMul(t, w) u = Neg(s0) v = Neg(u) z = MatMul(v, w)"
    after = f"s0 = Neg(x) {shared} t = Add(s4, s4) y = MatMul(t, w) z = MatMul(s0, w)"
    found = certify(*_models_of(before, after))
    levels = {window.output: window.level for window in found.windows}
    assert levels.pop("v") == "proved-here"
    assert set(levels.values()) <= {"refuted", "unproved"}
    assert levels


def _models_of(before: str, after: str):
    models = pair(INTERFACE, before, after)
    return [apply(each, "shape-inference", verify=False).model for each in models]


def test_rounding_that_a_quantizer_amplifies_is_not_equal_in_reals():
    body = (
        "c = Constant <value_float = {scale}> () s = Mul(x, c) r = Floor(x) q = Mul(r, c) k = Ceil(q) y = MatMul(k, w)"
    )
    before, after = (f"{body.format(scale=scale)} z = MatMul(s, w)" for scale in ("1.0", "1.0000001"))
    found = certify(*_models_of(before, after))
    assert found.level in ("unproved", "refuted")


_HALVES = "float16[4,4] x, float16[4,3] w => float16[4,3] y, int64[2] s"
_SCALED = "z = Mul(x, x) a = CastLike(z, w)"


def test_halves_that_onnxruntime_does_not_round_are_not_known_bit_by_bit():
    # ONNX Runtime computes in float32, and drops Casts that meet: whether z is rounded depends on what else reads it.
    before = f"{_SCALED} s = Shape(a) y = MatMul(a, w)"
    after = f"{_SCALED} b = CastLike(z, w) s = Shape(a) y = MatMul(b, w)"
    found = certify(*pair(_HALVES, before, after))
    assert found.level == "equal-in-reals"
    assert "rounded" in str(found.to_json()["windows"])
    assert certify(*pair(_HALVES, before, before)).level == "proved"


def test_halves_that_are_only_moved_are_known_bit_by_bit():
    before = "a = Relu(x) t = Transpose(a) u = Transpose(t) y = Slice(u, b, e, b) s = Shape(w)"
    constants = "b = Constant <value_ints = [0, 0]> () e = Constant <value_ints = [4, 3]> ()"
    after = "a = Relu(x) y = Slice(a, b, e, b) s = Shape(w)"
    models = pair(_HALVES, f"{constants} {before}", f"{constants} {after}")
    found = certify(*(apply(model, "shape-inference", verify=False).model for model in models))
    assert found.level == "proved-here"


_TRUNC = 'y = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (x, s, z, b, d)'


@pytest.mark.parametrize("changed", ["8.000001", "Identity"])
def test_a_constant_that_nothing_computes_is_not_off_by_rounding(changed: str):
    # What is truncated from 8.000001 bits to 4 is no multiple of 16 any more.
    constants = (
        f"{name} = Constant <value_float = {number}> ()" for name, number in zip("szd", (0.1, 0.0, 4.0), strict=True)
    )
    body = f"{' '.join(constants)} {{}} {_TRUNC}"
    before = body.format("b = Constant <value_float = 8.0> ()")
    other = "c = Constant <value_float = 8.000001> () b = Identity(c)"
    after = body.format(other if changed == "Identity" else f"b = Constant <value_float = {changed}> ()")
    found = certify(*pair(_F4, before, after))
    assert found.level in ("unproved", "refuted")
    models = pair("float[4] x => float y", "y = Constant <value_float = 8.0> ()", other.replace("b =", "y ="))
    assert not isinstance(prove_equal(*models), Proof)


def test_a_loop_without_an_end_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("onnx_passes.proofs.runs._MOST_SECONDS", 0.2)
    body = "n = Constant <value = int64 {{9223372036854775807}}> () y = Loop (n, , x) <body = b "
    body += "(int64 i, bool k, float[4] s) => (bool k2, float[4] s2) {{ k2 = Identity(k) t = Add(s, s) s2 = {}(t) }}>"
    start = time.perf_counter()
    assert run(pair(_F4, body.format("Neg"), body.format("Abs"))[0], {"x": np.ones(4, np.float32)}) is None
    assert time.perf_counter() - start < 20
