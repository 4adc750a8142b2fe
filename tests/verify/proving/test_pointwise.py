"""What is a function of single elements of one value, and along which axes its constants vary."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import api
from onnx_passes.core.records import Application
from onnx_passes.fragment.fragment import Fragment
from onnx_passes.proofs.proof import Proof
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.here import prove_here
from onnx_passes.verify.proving.pointwise import Pointwise, pointwise
from tests.verify.proving.near_misses import real_steps
from tests.verify.proving.windows import HEAD, Q, _application

CONSTANTS = (
    "float one = {1}, float[1,1] single = {2}, float[1,1,1,1] higher = {2}, float[3] row = {1, 2, 3},"
    " float[2,1] column = {1, 2}, float[4] long = {1, 2, 3, 4}, uint8[2] zeros = {0, 0}, uint8[3] points = {1, 2, 3},"
    " float[2] pair = {1, 2}, float[3,1] tall = {1, 2, 3},"
    " float[2,3] grid = {1, 2, 3, 4, 5, 6}"
)


def side_of(body: str, signature: str = "float[5,2,3] x") -> Fragment:
    model = ir.from_onnx_text(f"{HEAD} g ({signature}) => (y) <{CONSTANTS}> {{ {body} }}")
    model = api.apply(model, "shape-inference", verify=False).model
    return Fragment(tuple(model.graph), tuple(model.graph.outputs), tuple(model.graph.inputs))


def axes_of(body: str, signature: str = "float[5,2,3] x") -> dict[int, int] | str:
    side = side_of(body, signature)
    found = pointwise((side, side))
    return found.axes if isinstance(found, Pointwise) else found


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("y = Mul(x, one)", {}),
        ("y = Mul(x, single)", {}),
        ("y = Mul(x, row)", {2: 3}),
        ("y = Mul(x, column)", {1: 2}),
        ("a = Mul(x, column) y = Add(a, row)", {1: 2, 2: 3}),
        ("y = Mul(x, grid)", {1: 2, 2: 3}),
        ("y = BatchNormalization(x, pair, pair, pair, pair)", {1: 2}),
        ("y = QuantizeLinear <axis = 1> (x, pair, zeros)", {1: 2}),
        ("y = QuantizeLinear <axis = 2> (x, row, points)", {2: 3}),
        ("y = QuantizeLinear <axis = -1> (x, row, points)", {2: 3}),
        (f'y = {Q}.MultiThreshold <data_layout = "NCW"> (x, column)', {1: 2}),
        (f'y = {Q}.MultiThreshold <data_layout = "NWC"> (x, tall)', {2: 3}),
    ],
)
def test_axes_are_those_along_which_constants_vary(body: str, axes: dict[int, int]):
    assert axes_of(body) == axes


@pytest.mark.parametrize(
    ("body", "signature"),
    [
        ("y = Add(x, z)", "float[5,2,3] x, float[5,2,3] z"),
        ("y = Mul(x, higher)", "float[5,2,3] x"),
        ("y = Mul(x, row)", "float[5,2,1] x"),
        ("y = Mul(x, row)", "float[5,2,N] x"),
        ("y = Mul(x, column)", "float[5,1,3] x"),
        ("y = Mul(x, grid)", "float[5,1,3] x"),
        ("y = Mul(x, grid)", "float[5,2,1] x"),
        ("y = BatchNormalization <training_mode = 1> (x, pair, pair, pair, pair)", "float[5,2,3] x"),
        ("y = Transpose(x)", "float[5,2,3] x"),
        ("y = Softmax(x)", "float[5,2,3] x"),
        ("y = Identity(one)", "float[5,2,3] x"),
        ("y = MatMul(x, tall)", "float[5,2,3] x"),
    ],
)
def test_what_is_no_function_of_single_elements_is_refused(body: str, signature: str):
    assert isinstance(axes_of(body, signature), str)


def test_a_proof_of_levels_does_not_say_that_bits_are_kept():
    pair = real_steps.PAIRS[0]
    models = [pair.model(body) for body in (pair.before, pair.after)]
    old, new = (api.apply(model, "shape-inference", verify=False).model for model in models)
    facts = Facts(old)
    application: Application = _application(old, new, 1)
    found = prove_here(application, facts, pair.ignores)
    assert isinstance(found, Proof)
    assert "bits" not in found.preserves
    assert not facts.keeps_bits
