from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.check.measuring import Speed, timed_sample, usual_sizes
from onnx_passes.verify.run.execute import ExecutionError

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def test_times_before_and_after():
    text = f"""{HEAD} g (float[N,64] x) => (float[N,64] y) {{
        a = Neg (x) b = Neg (a) c = Exp (b) d = Transpose (c) y = Transpose (d) }}"""
    record = apply(ir.from_onnx_text(text), "simplify", verify=False, instruments=[Speed(seconds=0.01)]).record
    found = record.inference
    assert found is not None
    assert found.ratio == pytest.approx(found.after / found.before)
    assert found.sample == "x[1,64]"
    assert set(record.to_json()["inference"]) == {"before_seconds", "after_seconds", "ratio", "runs", "sample"}


def test_data_follow_the_interface():
    text = f"{HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = Exp (x) }}"
    layouts = "convert-layouts{inp=[NC>CN], out=[NC>CN]}"
    record = apply(ir.from_onnx_text(text), layouts, verify=False, instruments=[Speed(seconds=0.01)]).record
    assert record.inference is not None
    assert record.inference.sample == "x[3,2]"
    assert record.inference.ratio


def test_says_why_there_is_no_time():
    text = '<ir_version: 9, opset_import: ["" : 17, "my" : 1]> g (float[1] x) => (float[1] y) { y = my.Op (x) }'
    record = apply(ir.from_onnx_text(text), "cleanup", verify=False, instruments=[Speed()]).record
    assert record.inference is not None
    assert record.inference.ratio is None
    assert "nothing defines the operator my::Op" in record.inference.why


def test_usual_sizes():
    text = f"""{HEAD} g (int64[batch,seq] ids, float[batch,heads,"past + seq"] past, float[N,3,H,W] image) => (z)
        {{ z = Shape (ids) }}"""
    assert usual_sizes(ir.from_onnx_text(text)) == {
        "batch": 1, "seq": 128, "heads": 128, "N": 1, "H": 224, "W": 224
    }  # fmt: skip


def test_smaller_sizes_where_a_model_does_not_take_the_usual_ones():
    text = f"""{HEAD} g (float[1,n] x) => (float[1,m] y) <float[1,8] w = {{1,2,3,4,5,6,7,8}}, int64[1] one = {{1}},
        int64[1] eight = {{8}}, int64[2] shape = {{1,-1}}> {{ z = Reshape (x, shape) y = Add (z, w) }}"""
    assert timed_sample(ir.from_onnx_text(text))["x"].shape == (1, 1)


def test_no_size_fits():
    text = f"""{HEAD} g (float[1,n] x) => (float[5,7] y, float[4,9] z) <int64[2] s = {{5,7}}, int64[2] t = {{4,9}}> {{
        y = Reshape (x, s) z = Reshape (x, t) }}"""
    with pytest.raises(ExecutionError):
        timed_sample(ir.from_onnx_text(text))
