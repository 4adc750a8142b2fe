"""Command lines and configurations as users of version 0.4 have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

CONFIGURATION = """
imports: [{imports}]
reference: {{inp: [inp.npy], out: [out.npy]}}
layouts:
  inp: [{{assumes: [N, C, H, W], perm: [0, 2, 3, 1]}}]
  out: [{{assumes: [N, C, H, W], perm: [0, 2, 3, 1]}}]
model_checker: {{full_check: true}}
shape_inference: {{ }}
deduplicate_initializers: {{size_limit: 1024}}
infer_thresholds: {{max: 255}}
onnxruntime:
  providers:
    - - CPUExecutionProvider
      - {{ }}
  full_context_dump: false
verify:
  tolerance: {{atol: 1.0e-6}}
  metrics: {{max_abs_error: [0.0, 0.01]}}
logging: {{verbose: false, checkpoint: false, keep_intermediates: false}}
exhaustive: false
"""
IMPORTS = "onnx_passes.passes.imports.qonnx, onnx_passes.passes.inline.qonnx"

NORMALIZED = """<ir_version: 9, opset_import: ["": 19]>
g (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y)
<float[2] s = {2, -1}, float[2] b = {1, 0}, float[2] m = {0.5, 1}, float[2] v = {4, 0.25}>
{ y = BatchNormalization (x, s, b, m, v) }"""
CONVOLUTION = """<ir_version: 9, opset_import: ["": 19]>
g (float[1, 2, 4, 4] x) => (float[1, 2, 3, 3] y)
<float[2, 2, 2, 2] w = {1, 2, 3, 4, -1, -2, -3, -4, 1, 0, 1, 0, 0.5, 0.25, 1, 2}, float[2] b = {1, -1}>
{ y = Conv (x, w, b) }"""
QUANTIZED = """<ir_version: 9, opset_import: ["": 17, "qonnx.custom_op.general": 2]>
g (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y) <float s = {0.25}, float z = {0}, float n = {4}>
{ y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, n) }"""
RESIDUAL = """<ir_version: 9, opset_import: ["": 19]>
g (float[1, 3, 2] x) => (float[1, 3, 2] y) <float[2, 2] w = {1, 2, -3, 0.5}, float[2] b = {1, -2}> {
    half = Constant <value_float = 0.5> ()
    m = Mul (x, half)  p = MatMul (m, w)  q = Add (b, p)  y = Add (m, q)
}"""
SHAPES = """<ir_version: 9, opset_import: ["": 19]>
g (float[4, 3, 2] x) => (float[4, 3, 2] y) {
    a = Squeeze (x)  s = Constant <value_ints = [1, 24]> ()  b = Reshape (a, s)  c = Flatten (b)
    t = Constant <value_ints = [4, 3, 2]> ()  d = Reshape (c, t)
    i = Constant <value_ints = [0]> ()  e = Unsqueeze (d, i)  y = Squeeze (e)
}"""
TAIL = """<ir_version: 9, opset_import: ["": 19, "onnx_passes.ops": 1]>
g (float[1, 2] x, float[2] s) => (float[1, 2] y)
<float[2] c = {0.25, -0.5}, float[2] s = {2, -1}, float[2] b = {1, 0}, float[2] m = {0.5, 1}, float[2] v = {4, 0.25},
float scale = {0.25}, float zero = {0}, float bits = {3}> {
    a = Add (x, c)
    n = BatchNormalization (a, s, b, m, v)
    r = Relu (n)
    y = onnx_passes.ops.Quant <signed: int = 0, narrow: int = 0, rounding_mode: string = "ROUND"> (r, scale, zero, bits)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
Quant <signed, narrow, rounding_mode> (x, scale, zero, bits) => (y) {
    one = Constant <value_float: float = 1.0> ()  two = Constant <value_float: float = 2.0> ()
    i = Constant <value_int: int = @signed> ()  signs = Cast <to: int = 1> (i)
    n = Sub (bits, signs)  high = Pow (two, n)  minus = Neg (high)  low = Mul (minus, signs)  most = Sub (high, one)
    a = Div (x, scale)  b = Add (a, zero)  c = Clip (b, low, most)  d = Round (c)  e = Sub (d, zero)  y = Mul (e, scale)
}"""
TRANSPOSED = """<ir_version: 9, opset_import: ["": 20]>
g (float[1, 3, 2] x) => (float[1, 2, 3] y)
<float[2, 3] a = {1, 2, 3, 4, 5, 6}, float two = {2}, float[3] b = {1, 2, 3}> {
    t = Transpose <perm = [0, 2, 1]> (x)  u = Add (t, a)  v = Transpose <perm = [0, 2, 1]> (u)  g = Gelu (v)
    z = Transpose <perm = [0, 2, 1]> (g)  p = Transpose (z)  q = Mul (two, p)  r = Relu (q)  s = Transpose (r)
    w = Add (z, s)  y = Add (w, b)
}"""
OPERATORS_OF_TAIL = "Add Add Sqrt Div Mul Sub Mul Add Relu Div Add Clip Round Mul"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a configuration, a model, and data for it."""

    def write(text: str) -> None:
        from onnx_passes import load, run_model

        (tmp_path / "cfg.yaml").write_text(CONFIGURATION.format(imports=IMPORTS))
        onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        model = load(tmp_path / "model.onnx")
        shape = [int(size) for size in model.graph.inputs[0].shape]
        data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        np.save(tmp_path / "inp.npy", data)
        np.save(tmp_path / "out.npy", next(iter(run_model(model, {"x": data}).values())))

    monkeypatch.chdir(tmp_path)
    return write


@pytest.mark.parametrize(
    ("model", "passes", "operators"),
    [
        (NORMALIZED, "shape-inference inline-batchnorm fold-constants shape-inference cleanup", "Mul Add"),
        (NORMALIZED, "shape-inference inline-batchnorm streamline", "Mul Add"),
        (CONVOLUTION, "shape-inference fold-constants lower-conv shape-inference fold-constants", None),
        (
            CONVOLUTION,
            "shape-inference fold-constants lower-conv convert-layouts absorb-layouts shape-inference fold-constants",
            None,
        ),
        (QUANTIZED, "import-qonnx", "Quant"),
        (QUANTIZED, "import-qonnx inline-qonnx streamline", "MultiThreshold Mul"),
        (RESIDUAL, "streamline", "MatMul Add Add Mul"),
        (SHAPES, "reorder shape-inference cleanup", None),
        (SHAPES, "streamline", "Identity"),
        (TAIL, "inline-qonnx inline-batchnorm shape-inference", OPERATORS_OF_TAIL),
        (TAIL, "inline-qonnx inline-batchnorm streamline-thresholds streamline", "MultiThreshold Mul"),
        (TRANSPOSED, "streamline", "Add Gelu Mul Relu Add Add Transpose"),
    ],
)
def test_command_lines_run_unchanged(run, folder, model, passes, operators):
    folder(model)
    answer = run("-c", "cfg.yaml", "-o", "out.onnx", "model.onnx", *passes.split(), "checker", "verify")
    assert answer.code == 0, answer.err
    found = [node.op_type for node in onnx.load("out.onnx").graph.node]
    if operators is not None:
        assert found == operators.split()
    if "lower-conv" in passes:
        assert "Conv" not in found
        assert {"MatMul", "Add"} <= set(found)
    if "absorb-layouts" in passes:
        assert found.count("LayoutConverter") == 2
        assert found[-1] == "LayoutConverter"


def test_each_form_is_noted_once(run, folder):
    folder(RESIDUAL)
    notes = run("-c", "cfg.yaml", "-o", "out.onnx", "model.onnx", "cleanup").err.splitlines()
    legacy = [line.removeprefix("legacy: cfg.yaml: ") for line in notes if line.startswith("legacy: ")]
    assert [line.split(" has the form of version 0.4; ", 1)[0] for line in legacy] == [
        "imports",
        "layouts",
        "deduplicate_initializers.size_limit",
        "infer_thresholds.max",
        "onnxruntime.providers",
        "logging.checkpoint: false",
        "logging.keep_intermediates: false",
    ]
    assert "legacy" not in run("-q", "-c", "cfg.yaml", "-o", "out.onnx", "model.onnx", "cleanup").err
