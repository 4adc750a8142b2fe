"""Data types of accumulators hold all that can be computed, and nothing smaller does."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import examples
from onnx_passes.datatypes import parse
from onnx_passes.graph.tensor_types import datatype_of, set_datatype
from onnx_passes.passes.streamline.minimize_accumulators import MinimizeAccumulators
from tests.passes.streamline.tools import network, quant
from tests.passes.tools import apply, value


def minimized(model: ir.Model) -> ir.Model:
    """Annotate, and see that nothing but annotations changed."""
    onnx_passes.apply(model, "shape-inference", in_place=True)
    before = [str(node) for node in model.graph]
    apply(MinimizeAccumulators(), model)
    assert [str(node) for node in model.graph] == before
    return model


def declared(model: ir.Model, name: str) -> str:
    """Return the data type of a value."""
    return str(datatype_of(value(model, name)))


@pytest.mark.parametrize(
    ("weights", "bits", "signed", "expected"),
    [
        ([[1.0], [1.0]], 2, 0, "UINT3"),
        ([[1.0], [-1.0]], 2, 0, "INT3"),
        ([[3.0], [2.0]], 2, 0, "UINT4"),
        ([[-1.0], [-3.0]], 2, 0, "INT5"),
        ([[1.0], [1.0]], 3, 1, "INT4"),
        ([[7.0], [1.0]], 3, 1, "INT6"),
        ([[0.0], [1.0]], 1, 0, "UINT1"),
    ],
)
def test_product_by_its_weights(weights: list[list[float]], bits: int, signed: int, expected: str):
    """The ends of the type are compared with all inputs there are."""
    body = f"q = {quant('x', 'one', bits, signed=signed)} y = MatMul(q, w) z = Neg(y)"
    model = minimized(network(body, "float[1,2] x", "float[1,1] z", one=1.0, w=weights))
    assert declared(model, "y") == expected.replace("UINT1", "BINARY")
    every = range(-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else range(2**bits)
    sums = [np.dot(pair, np.array(weights)[:, 0]) for pair in itertools.product(every, repeat=2)]
    held = parse(expected)
    assert held.min <= min(sums)
    assert max(sums) <= held.max
    smaller = (
        parse(f"{expected.rstrip('0123456789')}{int(expected.lstrip('UINT')) - 1}") if expected != "UINT1" else None
    )
    if smaller is not None:
        assert min(sums) < smaller.min or max(sums) > smaller.max


def test_weights_and_sums_of_channels():
    body = f"q = {quant('x', 'one', 2, signed=0)} a = MatMul(q, w) y = Add(a, b)"
    model = minimized(network(body, "float[1,2] x", "float[1,2] y", one=1.0, w=[[1.0, -1.0], [1.0, 1.0]], b=[1.0, 5.0]))
    assert [declared(model, name) for name in ("q", "w", "a")] == ["UINT2", "BIPOLAR", "INT4"]


def test_signs_stay_signs():
    model = network("q = qonnx.custom_op.general.BipolarQuant(x, one) y = Neg(q)", "float[2] x", "float[2] y", one=1.0)
    set_datatype(value(model, "q"), parse("BIPOLAR"))
    assert declared(minimized(model), "q") == "BIPOLAR"


def test_floats_lose_the_type_of_integers():
    model = network(f"q = {quant('x', 's')} r = Exp(q) y = Neg(r)", "float[2] x", "float[2] y", s=0.3)
    for name, declared_before in (("q", "INT4"), ("r", "INT8")):
        set_datatype(value(model, name), parse(declared_before))
    minimized(model)
    assert datatype_of(value(model, "q")) is None
    assert datatype_of(value(model, "r")) is None


def test_declarations_of_inputs_stay():
    model = network("y = MatMul(x, w)", "float[1,2] x", "float[1,1] y", w=[[1.0], [1.0]])
    set_datatype(model.graph.inputs[0], parse("UINT8"))
    minimized(model)
    assert declared(model, "x") == "UINT8"
    assert declared(model, "y") == "UINT9"


def test_integers_of_a_wider_type_are_not_touched():
    model = network("a = Cast<to=7>(x) y = Add(a, a)", "float[2] x", "int64[2] y")
    minimized(model)
    assert datatype_of(value(model, "a")) is None


def test_agrees_with_infer_datatypes():
    """Neither undoes what the other has found out."""
    body = f"""
    q = {quant("x", "one", 4, signed=1)} r = Relu(q) h = {quant("r", "one", 4, signed=1)}
    a = MatMul(h, w) s = Mul(a, a) z = Exp(s)
    """
    model = network(body, "float[1,2] x", "float[1,2] z", one=1.0, w=[[1.0, -1.0], [3.0, 1.0]])
    first = onnx_passes.apply(model, "minimize-accumulators").model
    assert [declared(first, name) for name in "qrhas"] == ["INT4", "UINT3", "UINT3", "INT6", "UINT10"]
    second = onnx_passes.apply(first, "infer-datatypes").model
    assert [declared(second, name) for name in "qrhas"] == ["INT4", "UINT3", "UINT3", "INT6", "UINT10"]
    assert not onnx_passes.apply(second, "minimize-accumulators, infer-datatypes").modified


@pytest.mark.parametrize("name", examples.NAMES)
def test_agrees_with_infer_datatypes_on_networks(name: str):
    model = onnx_passes.apply(examples.path(name), "streamline, infer-datatypes", verify=False).model
    assert not onnx_passes.apply(model, "minimize-accumulators, infer-datatypes", verify=False).modified
