"""Requirements hold for just the sizes with which ONNX Runtime runs a model."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.analysis.shapes.requirements import requirements_of

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
MODELS = {
    "sum": "(float[a, b] x, float[c] y) => (float[n, m] z) { z = Add (x, y) }",
    "unknown rank": "(float[a, b] x, float[c, a] y) => (float[n, m] z) { t = MatMul (x, y) z = Abs (t) }",
    "stack": "(float[a, 2, b] x, float[c, d] y) => (float[n, 2, m] z) { z = MatMul (x, y) }",
    "vector": "(float[a, b] x, float[c] y) => (float[n] z) { z = MatMul (x, y) }",
    "batches": "(float[a, 2, 2] x, float[b, 2, 2] y) => (float[n, 2, 2] z) { z = MatMul (x, y) }",
    "gemm": "(float[a, b] x, float[c, b] y) => (float[n, m] z) { z = Gemm <transA = 1> (x, y) }",
    "gemm of both": "(float[a, b] x, float[c, d] y) => (float[n, m] z) { z = Gemm <transA = 1, transB = 1> (x, y) }",
    "concat": "(float[a, b] x, float[c, a] y) => (float[n, m] z) { z = Concat <axis = 0> (x, y) }",
    "concat from the end": "(float[a, b] x, float[b, c] y) => (float[n, m] z) { z = Concat <axis = -1> (x, y) }",
    "divisible": """(float[a, b] x) => (float[n, 6] z) {
        t = Constant <value_ints = [-1, 6]> () z = Reshape (x, t) }""",
    "volume": "(float[a, b] x) => (float[n, m] z) { t = Constant <value_ints = [2, 3]> () z = Reshape (x, t) }",
    "kept axis": "(float[a, b] x) => (float[n, m] z) { t = Constant <value_ints = [0, 3]> () z = Reshape (x, t) }",
    "computed shape": """(float[a, b] x, float[c, a] y) => (float[n, m] z) {
        t = Shape (y) z = Reshape (x, t) }""",
    "index": "(float[a, b] x) => (float[n] z) { i = Constant <value_int = 2> () z = Gather <axis = 1> (x, i) }",
    "index from the end": """(float[a, b] x) => (float[n] z) {
        i = Constant <value_int = -3> () z = Gather <axis = 0> (x, i) }""",
    "split": """(float[a, b] x) => (float[n, 1] y, float[n, 2] z) {
        s = Constant <value_ints = [1, 2]> () y, z = Split <axis = 1> (x, s) }""",
    "squeeze": "(float[a, b] x) => (float[n] z) { s = Constant <value_ints = [1]> () z = Squeeze (x, s) }",
    "expand": "(float[a, 1] x, float[b, c] y) => (float[n, m] z) { s = Shape (y) z = Expand (x, s) }",
    "where": "(bool[a] c, float[b, 1] x, float[1, c] y) => (float[n, m] z) { z = Where (c, x, y) }",
    "convolution": "(float[1, a, b] x, float[2, c, 3] w) => (float[1, 2, n] z) { z = Conv <pads = [1, 0]> (x, w) }",
    "groups": "(float[1, a, 4] x, float[4, b, 3] w) => (float[1, 4, n] z) { z = Conv <group = 2> (x, w) }",
    "pooling": "(float[1, 1, a, b] x) => (float[1, 1, n, m] z) { z = MaxPool <kernel_shape = [2, 3]> (x) }",
    "dilations": """(float[1, 1, a] x) => (float[1, 1, n] z) {
        z = MaxPool <kernel_shape = [2], dilations = [3]> (x) }""",
    "einsum": '(float[a, b] x, float[c, d] y) => (float[n, m] z) { z = Einsum <equation = "ij,kj->ik"> (x, y) }',
}
AT_MOST = 6


@pytest.mark.parametrize("name", MODELS)
def test_requirements_hold_for_just_the_sizes_that_run(name: str):
    proto = onnx.parser.parse_model(f"{HEAD} g {MODELS[name]}")
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), _quiet(), providers=["CPUExecutionProvider"])
    model = ir.from_proto(proto)
    inputs = {str(value.name): (value, [str(dim) for dim in value.shape]) for value in model.graph.inputs}
    dims = sorted({dim for _, shape in inputs.values() for dim in shape if not dim.isdigit()})
    names = {(name, axis): dim for name, (_, shape) in inputs.items() for axis, dim in enumerate(shape) if dim in dims}
    requirements = requirements_of(model, names)
    assert requirements
    ran = failed = 0
    for numbers in itertools.product(range(1, AT_MOST + 1), repeat=len(dims)):
        sizes = dict(zip(dims, numbers, strict=True))
        feeds = {
            name: np.ones([sizes.get(dim) or int(dim) for dim in shape], value.dtype.numpy())
            for name, (value, shape) in inputs.items()
        }
        try:
            # What comes out empty shows nothing.
            runs = all(result.size for result in session.run(None, feeds))
        except Exception:  # noqa: BLE001 - ONNX Runtime has no class of its own for this
            runs = False
        assert runs == all(each.holds(sizes) for each in requirements), (sizes, list(map(str, requirements)))
        ran, failed = ran + runs, failed + (not runs)
    assert ran
    assert failed


def test_what_is_met_by_all_sizes_is_no_requirement():
    model = ir.from_onnx_text(f"""{HEAD} g (float[a, b] x) => (float[a, b] z) {{
        y = Add (x, x) c = Constant <value_float = 1.0> () z = Mul (y, c) }}""")
    assert not requirements_of(model, {("x", 0): "a", ("x", 1): "b"})


def test_declared_shapes_inside_are_not_believed():
    model = ir.from_onnx_text(f"""{HEAD} g (float[a, b] x, float[a, c] y) => (float[n] z) <float[a, k] t> {{
        t = Concat <axis = 1> (x, y) i = Constant <value_int = 4> () z = Gather <axis = 1> (t, i) }}""")
    names = {("x", 0): "a", ("x", 1): "b", ("y", 0): "a", ("y", 1): "c"}
    assert [str(each) for each in requirements_of(model, names)] == ["b + c ≥ 5"]


def _quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options
