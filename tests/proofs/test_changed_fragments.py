"""Sizes are folded in windows and elements are not, and smaller images show what large ones do."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.proofs.changed_fragments import fold_sizes
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.model_certificate import certify
from onnx_passes.proofs.proof import Proof
from onnx_passes.proofs.runs import run
from onnx_passes.proofs.smaller_images import shrink_images
from tests.proofs.models import model, pair

SIZES = """g (int64[3] x, float[2,3] f) => (int64[3] a, int64[2] s, int64 n, bool[2] b, float[3] h) {
    a = Neg(x) i = Identity(x) s = Shape(f) n = Size(f) t = Constant <value = int64[2] {2, 4}> ()
    b = Equal(s, t) c = Cast <to = 1> (x) h = Neg(c)
}"""


def test_what_depends_on_sizes_is_folded_and_what_depends_on_elements_is_not():
    given = model(SIZES)
    for node in given.graph:
        for output in node.outputs:
            if output.name == "i":
                output.shape, output.dtype = given.graph.inputs[0].shape, ir.DataType.INT64
    # Whatever reads a value reads the constant instead.
    for output in list(given.graph.outputs):
        reader = ir.node("Identity", [output])
        reader.outputs[0].name, reader.outputs[0].type = f"read_{output.name}", output.type
        reader.outputs[0].shape = output.shape
        given.graph.append(reader)
    fold_sizes(given)
    held = {
        str(node.outputs[0].name): constant_tensor(node.inputs[0]) for node in given.graph if node.op_type == "Identity"
    }
    feeds = {"x": np.array([5, -2, 9], np.int64), "f": np.zeros((2, 3), np.float32)}
    expected = dict(zip(["a", "s", "n", "b", "h"], run(model(SIZES), feeds) or [], strict=True))
    for name in ("s", "n", "b"):
        tensor = held[f"read_{name}"]
        assert tensor is not None, name
        assert np.array_equal(tensor.numpy(), expected[name])
        assert tensor.numpy().dtype == expected[name].dtype
    for name in ("a", "h"):
        assert held[f"read_{name}"] is None, name
    assert held["i"] is None


@pytest.mark.parametrize("last", [3, 2])
def test_sizes_that_are_computed_in_two_ways_are_the_same_only_if_the_numbers_are(last: int):
    before = "s = Shape(f) r = Reshape(u, s) y = Add(r, f)"
    after = "k = Constant <value = int64[2] {{2, {0}}}> () r = Reshape(u, k) e = Add(r, f) y = Identity(e)"
    interface = "float[2,3] f, float[6] u => float[2,3] y"
    if last == 3:
        assert certify(*pair(interface, before, after.format(3))).level in ("proved", "proved-here")
    else:
        swapped = "k = Constant <value = int64[2] {3, 2}> () r = Reshape(u, k) t = Transpose(r) y = Add(t, f)"
        assert certify(*pair(interface, before, swapped)).level == "refuted"


IMAGE = "float[1,2,{0},{0}] x => float[N,C,H,W] r"
KERNEL = ", ".join(str((i * 5 % 7) - 2.5) for i in range(18))
WEIGHTS = f"w = Constant <value = float[1,2,3,3] {{{KERNEL}}}> ()"


@pytest.mark.parametrize(
    ("attributes", "size"),
    [("strides = [2,2]", 40), ("dilations = [3,3]", 40), ("pads = [1,1,1,1], strides = [3,3]", 41), ("", 16)],
)
def test_windows_that_begin_one_element_later_differ_on_small_images_too(attributes: str, size: int):
    """Padding of one element before, or behind, is the nearest miss of windows."""
    conv = f"Conv <{attributes}>" if attributes else "Conv"
    plain = WEIGHTS + f" r = {conv} (x, w)"
    early = WEIGHTS + f" p = Constant <value_ints = [0,0,1,1,0,0,-1,-1]> () q = Pad(x, p) r = {conv} (q, w)"
    models = pair(IMAGE.format(size), plain, early)
    x = np.random.default_rng(0).standard_normal((1, 2, size, size)).astype(np.float32)
    results = [run(each, {"x": x}) for each in models]
    assert not np.allclose((results[0] or [])[0], (results[1] or [])[0])
    shrink_images(*models)
    assert not isinstance(prove_equal(*models), Proof)


@pytest.mark.parametrize(
    ("interface", "body"),
    [
        ("float[1,2,9,9] x, float[1,2,8,8] u => float[1,2,9,9] y", "n = Neg(u) y = Neg(x)"),
        ("float[1,2,9,9] x, float[9] u => float[1,2,9,9] y", "y = Add(x, u)"),
        ("float[9] x => float[9] y", "y = Neg(x)"),
        ("float[1,2,9,9] x, float[1,2,9,9] u => float[1,2,9,9] y", "y = MatMul(x, u)"),
    ],
)
def test_images_of_several_sizes_and_other_inputs_are_left_as_they_are(interface: str, body: str):
    models = pair(interface, body, body)
    shapes = [list(value.shape or ()) for value in models[0].graph.inputs]
    assert shrink_images(*models) == ""
    assert [list(value.shape or ()) for each in models for value in each.graph.inputs] == shapes * 2


@pytest.mark.parametrize("operator", ["Max", "Min", "Sum", "Mean", "Concat <axis = 0>"])
def test_an_operand_more_is_another_value(operator: str):
    size = 3 if "Concat" in operator else 1
    interface = f"float[1] x, float[1] u, float[1] v => float[{'N' if size > 1 else 1}] y"
    two, three = f"y = {operator} (x, u)", f"y = {operator} (x, u, v)"
    for before, after in ((two, three), (three, two)):
        assert certify(*pair(interface, before, after)).level == "refuted"
    assert certify(*pair(interface, three, three)).level == "proved"
