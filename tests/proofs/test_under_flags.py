"""Equality but for what flags excuse, and congruence with constants as they are written."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes.graph.text import from_text
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof
from onnx_passes.proofs.under_flags import prove_under_flags, prove_unfolded

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
