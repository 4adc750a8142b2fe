from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime

from onnx_passes import api
from onnx_passes.analysis.cost import peak_of, traffic_of
from onnx_passes.passes.analyse.inspection import inspect

HEADER = '<ir_version: 10, opset_import: ["": 18]> '


def inferred(text: str) -> ir.Model:
    return api.apply(ir.from_onnx_text(HEADER + text), "shape-inference", verify=False).model


def test_values_are_alive_until_they_are_read_last():
    # 400 bytes each: x and a; a and b; x is still needed at the end.
    model = inferred("g (float[100] x) => (float[100] y) { a = Relu(x)  b = Neg(a)  c = Abs(b)  y = Add(c, x) }")
    peak = peak_of(model.graph)
    assert (peak.bytes, peak.at) == (1200, "Neg -> 'b'")


def test_a_chain_keeps_two_values():
    model = inferred("g (float[100] x) => (float[100] y) { a = Relu(x)  b = Neg(a)  y = Abs(b) }")
    assert peak_of(model.graph).bytes == 800


def test_a_reshape_shares_the_memory_of_its_input():
    text = """g (float[100] x) => (float[10, 10] y) <int64[2] s = {10, 10}>
    { a = Relu(x)  b = Reshape(a, s)  c = Neg(b)  d = Reshape(c, s)  y = Abs(d) }"""
    assert peak_of(inferred(text).graph).bytes == 800


def test_outputs_stay_alive():
    model = inferred("g (float[100] x) => (a, b, c) { a = Relu(x)  b = Neg(a)  c = Abs(b) }")
    assert peak_of(model.graph).bytes == 1200


def test_weights_do_not_count():
    text = """g (float[1] x) => (float[1] y) <float[1] w = {1.0}>
    { c = Constant <value_float = 2.0> ()  a = Mul(x, w)  y = Mul(a, c) }"""
    assert peak_of(inferred(text).graph).bytes == 8


def test_a_body_adds_what_is_alive_inside_it():
    text = """g (bool c, float[100] x) => (float[100] y) {
        y = If (c) <
            then_branch = yes () => (float[100] t) { p = Relu(x)  q = Neg(p)  t = Abs(q) },
            else_branch = no () => (float[100] e) { e = Neg(x) }
        >
    }"""
    peak = peak_of(inferred(text).graph)
    # The condition, x and y outside, two values inside.
    assert (peak.bytes, peak.at) == (1 + 400 + 400 + 800, "If -> 'y'")


def test_the_peak_is_a_formula_of_dynamic_dimensions():
    model = inferred("g (float[N, 100] x) => (float[N, 100] y) { a = Relu(x)  y = Neg(a) }")
    assert str(peak_of(model.graph).bytes) == "800*N"


def test_values_of_unknown_size_are_counted():
    text = '<ir_version: 10, opset_import: ["": 18, "other": 1]> g (float[2] x) => (y) { a = other.T(x)  y = Relu(a) }'
    assert peak_of(ir.from_onnx_text(text).graph).unknown == 2


def test_gather_reads_what_it_picks():
    model = inferred("g (int64[3] i, float[1000, 8] table) => (y) { y = Gather(table, i) }")
    assert traffic_of(model.graph[0]) == (3 * 8 * 4 + 3 * 8, 0, 3 * 8 * 4)


def test_shape_reads_nothing():
    model = inferred("g (float[9, 9] x) => (int64[2] y) { y = Shape(x) }")
    assert traffic_of(model.graph[0]) == (0, 0, 16)


def test_written_bytes_are_those_of_the_arrays_that_run():
    model = ir.from_onnx_text(
        HEADER
        + """g (float[N, 3, 9, 9] x, float[4, 3, 3, 3] w, float[64, 5] m) => (y, i) {
        a = Conv <strides = [2, 2], pads = [1, 1, 0, 0]> (x, w)
        b = MaxPool <kernel_shape = [1, 1]> (a)
        h = Cast <to = 10> (b)
        f = Cast <to = 1> (h)
        s = Flatten (f)
        t = MatMul (s, m)
        k = Constant <value_ints = [2]> ()
        y, i = TopK (t, k)
    }"""
    )
    values = [value for node in model.graph if node.op_type not in ("Constant", "Flatten") for value in node.outputs]
    model.graph.outputs.clear()
    model.graph.outputs.extend(values)
    written = inspect(model, dimensions={"N": 3}).cost.written_bytes
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    shapes = {"x": (3, 3, 9, 9), "w": (4, 3, 3, 3), "m": (64, 5)}
    arrays = session.run(None, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    assert written == sum(array.nbytes for array in arrays)
