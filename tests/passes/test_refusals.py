"""Refusals of rules whose siblings have theirs tested next to what they rewrite: each says why."""

from __future__ import annotations

import pytest

from onnx_passes.core.base import Pass
from onnx_passes.core.registry import REGISTRY
from tests.passes.eliminate.tools import refusals

FLOATS = "the input is not known to be of floats"
CASES = [
    ("absorb-neg", 18, "g (float[2] x, float[2] c) => (float[2] y) {n = Neg (x) y = Mul (n, c)}",
     "the factor is not a constant of its own"),
    ("absorb-neg", 18, "g (float[2] x, float[2] c) => (float[2] y) {m = Mul (x, c) y = Neg (m)}",
     "the factor is not a constant of its own"),
    ("factorize-linear-fast", 18, """g (float[1,2,4] x, float[1,2,1] w) => (float[1,1,4] y) <float[2,1] s = {2, 3}> {
        m = Mul (x, s) y = Conv (m, w)}""", "the factor is not one number"),
    ("eliminate-cast", 18, "g (float[2] x, int8 t) => (int8[2] y) {y = CastLike (x, t)}", "the type changes"),
    ("eliminate-dropout", 18, """g (float[2] x, bool t) => (float[2] y, bool[2] m) <float r = {0.5}> {
        y, m = Dropout (x, r, t)}""", "it may be in training mode"),
    ("eliminate-dropout", 9, "g (float[2] x) => (float[2] y, float[2] m) {y, m = Dropout (x)}", "in this opset"),
    ("eliminate-resize", 9, """g (float[1,1,2] x) => (float[1,1,4] y) <float[3] s = {1, 1, 2}> {
        y = Upsample (x, s)}""", "a scale is not known to be one"),
    ("fuse-bias", 18, """g (float[1,1,4] x, float[1] c) => (float[1,1,4] y) <float[1,1,1] w = {2}> {
        v = Conv (x, w) y = Sub (v, c)}""", "the summand is not constant and finite"),
    ("fuse-scale", 18, """g (float[1,1,4] x, float[1] c) => (float[1,1,4] y) <float[1,1,1] w = {2}> {
        m = Mul (x, c) y = Conv (m, w)}""", "the factor is not constant and finite"),
    ("fuse-rmsnorm", 23, """g (float[2,3] x, float[3] c) => (float[2,3] y) <float[3] w = {1, 2, 3}> {
        n = RMSNormalization (x, w) y = Mul (n, c)}""", "the factor is not constant and finite"),
    *(("fuse-gemm", 18, f"""g (float[2,2] a, float[2,2] b) => (float[2,2] y) {{
        t = Transpose <perm = [0, 1]> ({turned}) y = Gemm ({arguments})}}""", "the transposition changes nothing")
      for turned, arguments in (("a", "t, b"), ("b", "a, t"))),
    ("absorb-transpose", 18, """g (float[1,H,4,2] x) => (float[1,2,1,1] y) {
        t = Transpose <perm = [0,3,1,2]> (x) y = GlobalAveragePool (t)}""", "the size of the image is not known"),
    *((f"lower-{name.lower()}", opset, f"g (float[2] x) => (float[2] y) {{a = Abs (x) y = {name} (a)}}", FLOATS)
      for name, opset in (("Gelu", 20), ("HardSigmoid", 18), ("HardSwish", 18), ("Mish", 18), ("Softplus", 18))),
    ("lower-silu", 24, "g (float[2] x) => (float[2] y) {a = Abs (x) y = Swish (a)}", FLOATS),
    *((f"lower-{name.lower()}", 12, f"g (float[2] x) => (float[2] y) {{y = {name} (x)}}", "needs opset")
      for name in ("LogSoftmax", "HardSigmoid", "Softplus")),
    ("lower-rmsnorm", 23, "g (double[2] x, double[2] s) => (double[2] y) {y = RMSNormalization (x, s)}", "precision"),
    *(("lower-pooling", 17, f"g (float[1,1,4] x) => (float[1,1,1] y) {{y = {node} (x)}}", "needs opset 18")
      for node in ("AveragePool <kernel_shape = [4]>", "GlobalMaxPool", "GlobalAveragePool")),
    *(("lower-pooling", 18, f"g (float[1,1,W] x) => (float[1,1,1] y) {{y = {node} (x)}}", "may be empty")
      for node in ("GlobalMaxPool", "GlobalAveragePool")),
    ("move-concat-up-rounding", 18, """g (float[1] a, float[1] b, float[1] c) => (float[3] y) {
        d = Exp (a) e = Exp (b) y = Concat <axis = 0> (d, e, c)}""", "a part is computed differently"),
    ("move-expand-down-rounding", 18, """g (float[1] x, float[3] z) => (float[3] y) <int64[1] s = {3}> {
        e = Expand (x, s) y = Max (e, z)}""", "an operand is not known to be a single element"),
    ("move-pad-down-rounding", 18, """g (float[2] x) => (float[3] y) <int64[2] p = {0, 1}, float one = {1}> {
        e = Pad (x, p, one) y = Tanh (e)}""", "the padding is not zero"),
    ("move-reshape-down-rounding", 18, """g (float[4] x, float[2,2] z) => (float[2,2] y) <int64[2] s = {2, 2}> {
        e = Reshape (x, s) y = Pow (e, z)}""", "an operand is not known to broadcast before the reshape"),
    ("move-transpose-down-rounding", 18, """g (float[2,3] x, float[3,2] z) => (float[3,2] y) {
        e = Transpose (x) y = Pow (e, z)}""", "an operand would have to be transposed"),
]  # fmt: skip


def pass_named(name: str) -> Pass:
    [entry] = REGISTRY.find(name).entries
    return REGISTRY.load(entry)()


@pytest.mark.parametrize(("name", "opset", "text", "reason"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES])
def test_refuses(name: str, opset: int, text: str, reason: str):
    found = "; ".join(refusals(pass_named(name), text, opset=opset, infer=reason != FLOATS))
    assert reason in found, found
