"""Equality but for what flags excuse, and congruence with constants as they are written."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.text import from_text
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.runs import run
from onnx_passes.proofs.under_flags import prove_under_flags, prove_unfolded
from tests.proofs.models import model as parsed
from tests.proofs.models import pair

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def model(body: str, interface: str = "(float[2] x) => (float[2] y)") -> ir.Model:
    return ir.from_proto(from_text(f"{HEAD} g {interface} {body}", "model"))


FLAGS = {"nnan", "ninf", "nsz"}
ZERO = "<float z = {0}>"
CASES = [
    (f"{ZERO} {{ y = Add (x, z) }}", "{ y = Identity (x) }", {"nsz"}),
    (f"{ZERO} {{ y = Mul (x, z) }}", "<float[2] z = {0, 0}> { y = Identity (z) }", {"nnan", "nsz"}),
    ("{ y = Sub (x, x) }", "<float[2] z = {0, 0}> { y = Identity (z) }", {"nnan"}),
    (f"{ZERO} {{ i = IsInf (x) y = Where (i, z, x) }}", "{ y = Identity (x) }", {"ninf"}),
]


@pytest.mark.parametrize(("before", "after", "flags"), CASES)
def test_all_flags_are_needed(before: str, after: str, flags: set[str]) -> None:
    first, second = model(before), model(after)
    found = prove_under_flags(first, second, flags)
    assert isinstance(found, Proof), found
    assert set(found.flags) == flags
    for flag in flags:
        assert not isinstance(prove_under_flags(first, second, flags - {flag}), Proof), flag


def test_what_no_flag_excuses() -> None:
    found = prove_under_flags(model("{ y = Neg (x) }"), model("{ y = Identity (x) }"), FLAGS)
    assert not isinstance(found, Proof)


def test_approximated_functions_of_constants() -> None:
    constants = "<float[2] c = {3, 0.1}>"
    shapes = "(float[2] x) => (float[4] y)"
    first = model(f"{constants} {{ a = Erf (x) b = Erf (c) y = Concat <axis = 0> (a, b) }}", shapes)
    second = model(f"{constants} {{ a = Concat <axis = 0> (x, c) y = Erf (a) }}", shapes)
    assert prove_unfolded(first, second)
    wrong = model(f"{constants} {{ a = Concat <axis = 0> (c, x) y = Erf (a) }}", shapes)
    assert not prove_unfolded(first, wrong)


@pytest.mark.parametrize(("operator", "value"), [("ReduceMax", "-inf"), ("ReduceMin", "inf")])
def test_extremes_of_nothing(operator: str, value: str) -> None:
    interface = "(float[0, 2] x) => (float[2] y)"
    first = model(f"<int64[1] a = {{0}}> {{ y = {operator} <keepdims = 0> (x, a) }}", interface)
    second = model(f"<float[2] c = {{{value}, {value}}}> {{ y = Identity (c) }}", interface)
    assert isinstance(prove_equal(first, second), Proof)


TWO = "float[2] x, float[2] u => float[2] y"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = Add(x, u)", "y = Sub(x, u)"),
        ("y = Max(x, u)", "y = Min(x, u)"),
        ("y = Sub(x, u)", "y = Sub(u, x)"),
        ("y = Identity(x)", "y = Identity(u)"),
    ],
)
def test_no_flags_excuse_another_function(before: str, after: str):
    models = pair(TWO, before, after)
    given = {"x": np.float32([1.0, 2.0]), "u": np.float32([5.0, -7.0])}
    results = [run(each, given) for each in models]
    assert not np.array_equal((results[0] or [])[0], (results[1] or [])[0])
    for flags in (set[str](), {"nnan", "ninf", "nsz"}):
        assert not isinstance(prove_under_flags(*models, flags), Proof)
    assert prove_unfolded(*models) is None
    assert not isinstance(prove_equal(*models), Proof)


@pytest.mark.parametrize("outputs", ["double[2] y", "float[1,2] y"])
def test_another_type_or_shape_is_excused_by_no_flag(outputs: str):
    one = parsed("g (float[2] x) => (float[2] y) { y = Identity(x) }")
    body = "y = Cast <to = 11> (x)" if "double" in outputs else "i = Constant <value_ints = [0]> () y = Unsqueeze(x, i)"
    other = parsed(f"g (float[2] x) => ({outputs}) {{ {body} }}")
    for first, second in ((one, other), (other, one)):
        found = prove_under_flags(first, second, {"nnan", "ninf", "nsz"})
        assert isinstance(found, Unproved)
        assert found.refuted
        assert prove_unfolded(first, second) is None
        assert not isinstance(prove_equal(first, second), Proof)
