"""The example backend: C code that computes what the example networks compute, bit by bit."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

import onnx_passes
from onnx_passes import examples, integer_network
from tests.passes.tools import model_of

_spec = importlib.util.spec_from_file_location("write_c", Path(__file__).parents[1] / "examples" / "write_c.py")
assert _spec is not None
assert _spec.loader is not None
write_c = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(write_c)

COMPILER = next(filter(None, map(shutil.which, write_c.COMPILERS)), None)
with_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is at hand")


@with_compiler
@pytest.mark.parametrize("name", examples.NAMES)
def test_examples_agree_with_onnxruntime_bit_by_bit(name: str, tmp_path: Path):
    network = integer_network(examples.path(name), verify=False)
    source = tmp_path / "network.c"
    source.write_text(write_c.Writer(network).text())
    images = examples.digits().image
    found = write_c.outputs_of(write_c.compiled(source, COMPILER), network, images)
    assert network.model is not None
    expected = onnx_passes.run_model(network.model, {"image": images})["logits"]
    assert found.tobytes() == expected.tobytes()


@with_compiler
def test_strides_dilations_groups_and_transpositions(tmp_path: Path):
    random = np.random.default_rng(0)
    weights = ", ".join(map(str, random.integers(-8, 8, 4 * 2 * 9)))
    text = "g (float[N,4,9,7] x) => (float[N,4,4,6] y) <float[1,3] t = {-0.5, 0, 0.75}, float s = {0.3}, "
    text += f"float[4,2,3,3] w = {{{weights}}}> {{ q = qonnx.custom_op.general.MultiThreshold(x, t)"
    text += " c = Conv<group=2, strides=[2,1], dilations=[1,2], pads=[0,1,2,2]>(q, w)"
    text += " p = MaxPool<kernel_shape=[2,2], strides=[1,1], pads=[0,0,0,1]>(c)"
    text += " z = Transpose<perm=[0,1,3,2]>(p) f = Mul(z, s) y = Transpose<perm=[0,1,3,2]>(f) }"
    network = integer_network(model_of(text, domains='"qonnx.custom_op.general" : 1'))
    source = tmp_path / "network.c"
    source.write_text(write_c.Writer(network).text())
    samples = random.normal(0, 1, (5, 4, 9, 7)).astype(np.float32)
    found = write_c.outputs_of(write_c.compiled(source, COMPILER), network, samples)
    assert network.model is not None
    assert np.array_equal(found, onnx_passes.run_model(network.model, {"x": samples})["y"])


def test_what_has_no_c_is_named():
    text = "g (float[1,2] x) => (float[1,2] y) { y = Softmax(x) }"
    with pytest.raises(SystemExit, match="no C for <Layer 'y' float: Softmax"):
        write_c.Writer(integer_network(model_of(text))).text()
