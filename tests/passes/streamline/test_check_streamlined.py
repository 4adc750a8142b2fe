"""What is in integers is counted, and what is not is named."""

from __future__ import annotations

import json

import pytest

import onnx_passes
from onnx_passes.core.errors import OptionError, StructureError
from onnx_passes.passes.streamline.check_streamlined import CheckStreamlined
from tests.passes.streamline.tools import network, numbers, quant
from tests.passes.tools import notes_of

HALF = f"q = {quant('x', 'one')} a = MatMul(q, w) s = Sigmoid(a) y = MatMul(s, v)"
CONSTANTS = {"one": 1.0, "w": [[1.0] * 3] * 4, "v": numbers(3, 4)}


def half():
    """Make a network of two products of the same size; only the first is of integers."""
    model = network(HALF, y="float[2,4] y", **CONSTANTS)
    onnx_passes.apply(model, "shape-inference", in_place=True)
    return model


def test_says_how_much_and_what_stands_in_the_way():
    first, *others = notes_of(CheckStreamlined(), half())
    assert first == "50% of the 48 MACs behind the first quantizer are integer"
    assert any("MatMul" in note and "is not a scaled integer; quantize it" in note for note in others)
    assert any("Sigmoid" in note for note in others)


def test_ends_a_run_with_too_little():
    with pytest.raises(StructureError, match=r"only 50.0% of the MACs are integer, 75.0% are required.*Sigmoid"):
        onnx_passes.apply(half(), "check-streamlined{least=0.75}")
    assert not onnx_passes.apply(half(), "check-streamlined{least=0.5}").modified


@pytest.mark.parametrize("least", [-0.1, 1.5])
def test_parts_are_from_0_to_1(least: float):
    with pytest.raises(OptionError, match="from 0 to 1"):
        CheckStreamlined(least=least)


def test_macs_before_the_first_quantizer_do_not_count():
    body = f"a = MatMul(x, v) q = {quant('a', 'one')} y = MatMul(q, w)"
    model = network(body, "float[2,3] x", "float[2,3] y", **CONSTANTS)
    result = onnx_passes.apply(model, "check-streamlined{least=1.0}")
    (note, *_) = result.steps[-1].notes
    assert note == "100% of the 24 MACs behind the first quantizer are integer; 24 more come before it"


def test_a_network_without_products_is_whole():
    found = onnx_passes.apply(network(f"y = {quant('x', 's')}", y="float[2,4] y", s=0.5), "check-streamlined")
    assert found["check-streamlined"].fraction == 1


def test_many_blockers_are_counted():
    body = f"q = {quant('x', 'one')} a0 = Sigmoid(q) " + " ".join(f"a{i + 1} = Sigmoid(a{i})" for i in range(14))
    model = network(f"{body} y = MatMul(a14, w)", **CONSTANTS)
    onnx_passes.apply(model, "shape-inference", in_place=True)
    *_, last = notes_of(CheckStreamlined(), model)
    assert last == "and 6 more nodes compute in floats"


def test_findings_are_plain_data():
    found = onnx_passes.apply(half(), "check-streamlined")["check-streamlined"]
    data = json.loads(json.dumps(found.to_json()))
    assert data["fraction"] == 0.5
    assert data["integer_macs"] == 24
    assert {blocker["node"].split()[0] for blocker in data["blockers"]} == {"Sigmoid", "MatMul"}
