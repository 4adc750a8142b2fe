"""Clean up a model: fold constants, drop what does nothing, fuse operators. Every step is verified."""

import sys

import onnx

import onnx_passes

# What exporters leave behind: sizes that are computed, a layer of two operators, casts and copies.
EXPORTED = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2, 3, 4] x) => (float[2, 5] y)
<float[12, 5] w = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
    41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60},
 float[5] b = {1, 2, 3, 4, 5}, int64 zero = {0}, int64[1] axes = {0}, int64[1] rest = {-1}> {
  s = Shape (x)
  n = Gather (s, zero)
  u = Unsqueeze (n, axes)
  t = Concat <axis = 0> (u, rest)
  c = Cast <to = 1> (x)
  f = Reshape (c, t)
  m = MatMul (f, w)
  a = Add (m, b)
  i = Identity (a)
  y = Relu (i)
}"""

source = sys.argv[1] if len(sys.argv) > 1 else onnx.parser.parse_model(EXPORTED)
result = onnx_passes.simplify(source)

for step in result.steps:
    if step.applications:
        print(f"{step.name:32} {step.nodes_before:4} → {step.nodes_after} nodes, {step.level}")
print(f"{result.record.before.nodes} → {result.record.after.nodes} nodes, results are {result.record.level}")
result.save("simple.onnx")
