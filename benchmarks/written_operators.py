"""Operators that passes write, beside what they stand for, in ONNX Runtime as it runs by default, on one thread.

    python benchmarks/written_operators.py [--rounds 5] [--seconds 2]

Every row is one pass on a model of nothing but what it rewrites: 128 rows of 384 or 1536 numbers. `ratio` is what is
left of the processor time, the median over rounds in which both run in turns.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
import onnx_ir as ir

import onnx_passes
from onnx_passes.check.measuring import timed_sample
from onnx_passes.verify.run.timing import TimedModel, time_in_turns

ROWS, WIDTH, INNER, HEADS = 128, 384, 1536, 6
SPLIT = """q3 = Reshape (x, split) q = Transpose <perm = [0,2,1,3]> (q3) k3 = Reshape (k, part)
    kt = Transpose <perm = [0,2,3,1]> (k3) v3 = Reshape (v, part) vt = Transpose <perm = [0,2,1,3]> (v3)"""
MERGE = "ot = Transpose <perm = [0,2,1,3]> (o) y = Reshape (ot, merge)"
MASK = f"bool[1,1,{ROWS},{ROWS}] m"
NUMBERS = """float half = {0.5}, float one = {1}, float root = {1.4142135}, float low = {-1e30}, float quick = {1.702},
    float scale = {0.125}, float cubic = {0.044715}, float three = {3}, float factor = {0.7978846}"""
ERF = "s = Div ({0}, root) e = Erf (s) g = Add (e, one) p = Mul ({0}, g) y = Mul (p, half)"
TANH = """c = Pow (x, three) d = Mul (c, cubic) r = Add (x, d) t = Mul (r, factor) u = Tanh (t) g = Add (u, one)
    p = Mul (x, g) y = Mul (p, half)"""


def attention(kv: int, mask: str = "") -> str:
    """Write an attention of six heads of queries, with so many of keys."""
    width = WIDTH // HEADS * kv
    inputs = (
        f"float[1,{ROWS},{WIDTH}] x, float[1,{ROWS},{width}] k, float[1,{ROWS},{width}] v{', ' + mask if mask else ''}"
    )
    repeat = """k5 = Unsqueeze (kh, axis) ke = Expand (k5, times) kr = Reshape (ke, back)
        kt = Transpose <perm = [0,1,3,2]> (kr)
        v5 = Unsqueeze (vh, axis) ve = Expand (v5, times) vt = Reshape (ve, back)"""
    split = SPLIT
    if kv != HEADS:
        split = SPLIT.replace("kt = Transpose <perm = [0,2,3,1]>", "kh = Transpose <perm = [0,2,1,3]>")
        split = split.replace("vt =", "vh =") + repeat
    masked = "w = Where (m, s, low)" if mask else "w = Identity (s)"
    body = f"""{split} r = MatMul (q, kt) s = Mul (r, scale) {masked} p = Softmax <axis = -1> (w)
        o = MatMul (p, vt) {MERGE}"""
    constants = f"""{NUMBERS}, int64[4] split = {{0,0,{HEADS},64}}, int64[4] part = {{0,0,{kv},64}},
        int64[3] merge = {{0,0,{WIDTH}}}, int64[1] axis = {{2}}, int64[5] times = {{1,1,{HEADS // kv},1,1}},
        int64[4] back = {{0,{HEADS},-1,64}}"""
    return f"g ({inputs}) => (float[1,{ROWS},{WIDTH}] y) <{constants}> {{ {body} }}"


def unary(body: str, extra: str = "", shape: str = f"1,{ROWS},{INNER}") -> str:
    return f"g (float[{shape}] x{extra}) => (float[{shape}] y) <{NUMBERS}> {{ {body} }}"


SKIP = f", float[1,{ROWS},{WIDTH}] s, float[{WIDTH}] weight"
FLAT = f"1,{ROWS},{WIDTH}"
CASES = {
    "fuse-attention": (23, attention(HEADS)),
    "fuse-attention, masked": (23, attention(HEADS, MASK)),
    "fuse-attention, grouped": (23, attention(2)),
    "fuse-multi-head-attention": (17, attention(HEADS)),
    "fuse-multi-head-attention, masked": (17, attention(HEADS, MASK)),
    "fuse-group-query-attention": (17, attention(2)),
    "fuse-skip-layernorm": (17, unary("t = Add (x, s) y = LayerNormalization (t, weight)", SKIP, FLAT)),
    "fuse-skip-layernorm, RMS": (23, unary("t = Add (x, s) y = RMSNormalization (t, weight)", SKIP, FLAT)),
    "fuse-gelu": (20, unary(ERF.format("x"))),
    "fuse-microsoft-gelu": (17, unary(ERF.format("x"))),
    "fuse-microsoft-gelu, tanh": (17, unary(TANH)),
    "fuse-bias-gelu": (20, unary("a = Add (x, bias) y = Gelu (a)", f", float[{INNER}] bias")),
    "fuse-quick-gelu": (17, unary("a = Mul (x, quick) b = Sigmoid (a) y = Mul (x, b)")),
    "fuse-silu": (24, unary("b = Sigmoid (x) y = Mul (x, b)")),
}


def model_of(text: str, opset: int) -> ir.Model:
    """Parse a model; what is called weight or bias becomes one."""
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')
    for value in [value for value in model.graph.inputs if value.name in ("weight", "bias")]:
        model.graph.inputs.remove(value)
        value.const_value = ir.tensor(np.linspace(0.5, 1.5, int((value.shape or [1])[0]), dtype=np.float32))
        model.graph.register_initializer(value)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each row takes in all")
    asked = parser.parse_args()
    print("| pass | operators before | after | ms before | after | ratio |\n|---|---|---|---:|---:|---:|")
    for name, (opset, text) in CASES.items():
        before = model_of(text, opset)
        result = onnx_passes.apply(before, f"eliminate-identity, shape-inference, {name.split(',')[0]}", verify=False)
        sample, ratios, best = timed_sample(before), list[float](), [float("inf")] * 2
        for _ in range(asked.rounds):
            pair = [TimedModel(model, sample) for model in (before, result.model)]
            times = [timing.least for timing in time_in_turns(pair, asked.seconds / asked.rounds / 2)]
            ratios.append(times[1] / times[0])
            best = [min(*each) for each in zip(best, times, strict=True)]
        counts = [sum(1 for _ in model.graph) for model in (before, result.model)]
        shown = [f"{seconds * 1e3:.3f}" for seconds in best]
        print(f"| `{name.split(',')[0]}`{name[len(name.split(',')[0]) :]} | {counts[0]} | {counts[1]} "
              f"| {shown[0]} | {shown[1]} | {statistics.median(ratios):.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
