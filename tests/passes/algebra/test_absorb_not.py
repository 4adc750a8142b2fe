"""Negations of truth values and bits become fewer."""

from __future__ import annotations

import pytest

from onnx_passes.passes.algebra.logic_laws import AbsorbNot
from tests.passes.algebra.tools import operators, refusals, rewritten

LOGICS = [("bool", "", "1"), ("int32", "Bitwise", "-1"), ("uint8", "Bitwise", "255")]
LAWS = [
    ("m = {}Not (x) n = {}Not (y) z = {}And (m, n)", ["{}Or", "{}Not"]),
    ("m = {}Not (x) n = {}Not (y) z = {}Or (m, n)", ["{}And", "{}Not"]),
    ("m = {}Not (x) n = {}And (y, m) z = {}Not (n)", ["{}Not", "{}Or"]),
    ("m = {}Not (x) n = {}Or (m, y) z = {}Not (n)", ["{}Not", "{}And"]),
    ("m = {}Not (x) z = {}Xor (y, m)", ["{}Xor", "{}Not"]),
    ("m = {}Not (x) z = {}Xor (m, c)", ["{}Xor"]),
    ("z = {}Xor (ones, x)", ["{}Not"]),
]


@pytest.mark.parametrize(("kind", "prefix", "ones"), LOGICS)
@pytest.mark.parametrize(("nodes", "after"), LAWS)
def test_laws(kind: str, prefix: str, ones: str, nodes: str, after: list[str]) -> None:
    text = f"""g ({kind}[3,4] x, {kind}[3,4] y) => ({kind}[3,4] z)
    <{kind}[1] ones = {{{ones}}}, {kind}[4] c = {{0, 1, 0, 1}}> {{{nodes.replace("{}", prefix)}}}"""
    model = rewritten(AbsorbNot(), text)
    assert operators(model.graph) == [name.format(prefix) for name in after]


def test_a_constant_that_widens_stays() -> None:
    text = "g (bool x) => (bool[2] z) <bool[2] ones = {1, 1}> {z = Xor (x, ones)}"
    assert refusals(AbsorbNot(), text)["the constant may widen the other operand"]


def test_a_constant_that_flips_some_bits_stays() -> None:
    text = "g (int32[2] x) => (int32[2] z) <int32 ones = {1}> {z = BitwiseXor (x, ones)}"
    assert refusals(AbsorbNot(), text)["the constant does not flip everything"]


def test_negations_that_others_use_stay() -> None:
    text = "g (bool[2] x, bool[2] y) => (bool[2] z, bool[2] m) {m = Not (x) n = Not (y) z = And (m, n)}"
    assert refusals(AbsorbNot(), text)["a value inside the match is a graph output"]
