from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.passes.layout.transpose_laws import AbsorbTranspose
from tests.passes.tools import check, model_of, operators, run

RNG = np.random.default_rng(7)


def with_weights(text: str, opset: int = 18, **weights: tuple[int, ...]) -> ir.Model:
    model = model_of(text, opset=opset)
    for name, shape in weights.items():
        value = next(v for node in model.graph for v in node.inputs if v is not None and v.name == name)
        if value.is_graph_input():
            model.graph.inputs.remove(value)
        value.const_value = ir.Tensor(RNG.normal(size=shape).astype(np.float32), name=name)
        model.graph.register_initializer(value)
    return model


def absorbed(model: ir.Model, pipeline: str = "absorb-transpose") -> ir.Model:
    """Apply, verified; and compare with the model before in ONNX Runtime."""
    result = apply(model, pipeline).model
    check(result)
    sizes = [[dim if isinstance(dim, int) else 2 for dim in v.shape] for v in model.graph.inputs]
    feeds = {v.name: RNG.normal(size=s).astype(np.float32) for v, s in zip(model.graph.inputs, sizes, strict=True)}
    for old, new in zip(run(model, feeds), run(result, feeds), strict=True):
        np.testing.assert_allclose(old, new, rtol=1e-4, atol=1e-5)
    return result


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("y = MatMul(f, w)", (60, 7)),
        ("y = Gemm(f, w)", (60, 7)),
        ("y = Gemm <transB = 1> (f, w)", (7, 60)),
    ],
)
@pytest.mark.parametrize("flat", ["Flatten(t)", "Reshape(t, s)"])
@pytest.mark.parametrize("perm", ["[0, 3, 1, 2]", "[0, 2, 1, 3]", "[0, 3, 2, 1]"])
def test_weights_take_the_order_of_what_was_flattened(layer, shape, flat, perm):
    text = f"""g (float[N, 3, 4, 5] x, float[{shape[0]}, {shape[1]}] w) => (y) <int64[2] s = {{0, 60}}> {{
        t = Transpose <perm = {perm}> (x)
        f = {flat}
        {layer}
    }}"""
    result = absorbed(with_weights(text, w=shape))
    assert operators(result.graph) == [flat.split("(")[0], layer.split()[2].split("(")[0]]


@pytest.mark.parametrize("bias", ["", ", b"])
def test_convolution_of_single_places_with_channels_last_is_a_product(bias):
    text = f"""g (float[N, 4, 5, 3] x, float[7, 3, 1, 1] w, float[7] b) => (y) {{
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = Conv(t, w{bias})
        y = Transpose <perm = [0, 2, 3, 1]> (c)
    }}"""
    model = with_weights(text, w=(7, 3, 1, 1), **({"b": (7,)} if bias else {}))
    if not bias:
        model.graph.inputs.pop()
    result = absorbed(model, "absorb-layouts")
    assert operators(result.graph) == ["MatMul", *(["Add"] if bias else [])]


@pytest.mark.parametrize("opset", [13, 18])
def test_global_average_pooling_becomes_a_mean(opset):
    text = """g (float[N, 4, 5, 3] x) => (y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        y = GlobalAveragePool(t)
    }"""
    result = absorbed(model_of(text, opset=opset))
    # One row remains of each image: to transpose it is to reshape it.
    assert operators(result.graph) == ["ReduceMean", "Reshape"]


@pytest.mark.parametrize(
    ("shape", "perm", "names"),
    [
        ("2, 3, 1, 1", "0, 2, 3, 1", ["Reshape"]),
        ("N, 3, 1, 1", "0, 2, 3, 1", ["Reshape"]),
        ("N, 1, 3, 4", "1, 0, 2, 3", ["Reshape"]),
        ("N, M, 1", "2, 0, 1", ["Transpose"]),
        ("2, 3, 4", "0, 2, 1", ["Transpose"]),
        ("0, 3, 1", "0, 2, 1", ["Transpose"]),
    ],
)
def test_to_move_axes_of_size_one_is_to_reshape(shape, perm, names):
    model = model_of(f"g (float[{shape}] x) => (y) {{ y = Transpose <perm = [{perm}]> (x) }}")
    assert operators(apply(model, "absorb-transpose").model.graph) == names


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("y = MatMul(f, w)  f = Flatten(t)  t = Transpose <perm = [0, 2, 1]> (x)", {}),
        ("y = MatMul(f, w)  f = Flatten(t)  t = Transpose <perm = [1, 0, 2]> (x)", {"w": (12, 7)}),
        ("y = MatMul(f, w)  f = Flatten <axis = 2> (t)  t = Transpose <perm = [0, 2, 1]> (x)", {"w": (3, 7)}),
    ],
    ids=["weights are given by the caller", "the batch axis moves", "flattened elsewhere"],
)
def test_leaves_other_products_alone(text, weights):
    body = "  ".join(reversed(text.split("  ")))
    rows = weights.get("w", (12, 7))[0]
    model = with_weights(f"g (float[4, 3, 4] x, float[{rows}, 7] w) => (y) {{ {body} }}", **weights)
    assert operators(apply(model, "absorb-transpose").model.graph) == ["Transpose", "Flatten", "MatMul"]


@pytest.mark.parametrize("attributes", ["strides = [2, 2]", "pads = [1, 1, 0, 0]", "group = 3"])
def test_leaves_other_convolutions_alone(attributes):
    inner = 1 if "group" in attributes else 3
    text = f"""g (float[2, 4, 5, 3] x, float[6, {inner}, 1, 1] w) => (y)
    {{ t = Transpose <perm = [0, 3, 1, 2]> (x)  y = Conv <{attributes}> (t, w) }}"""
    model = with_weights(text, w=(6, inner, 1, 1))
    assert operators(apply(model, "absorb-transpose").model.graph) == ["Transpose", "Conv"]


def test_what_was_flattened_for_others_too_stays():
    text = """g (float[2, 3, 4] x, float[12, 7] w) => (y, z)
    { t = Transpose <perm = [0, 2, 1]> (x)  f = Flatten(t)  y = MatMul(f, w)  z = Relu(f) }"""
    model = with_weights(text, w=(12, 7))
    assert operators(apply(model, AbsorbTranspose()).model.graph) == ["Transpose", "Flatten", "MatMul", "Relu"]


def test_conversion_and_absorption_leave_a_network_of_products_without_transpositions():
    text = """g (float[N, 3, 4, 4] x, float[8, 3, 1, 1] w, float[128, 5] m) => (float[N, 5] y) {
        c = Conv(x, w)
        r = Relu(c)
        f = Flatten(r)
        y = MatMul(f, m)
    }"""
    model = with_weights(text, w=(8, 3, 1, 1), m=(128, 5))
    converted = apply(model, "convert-layouts{inp=[NHWC>NCHW]}", verify=False).model
    result = absorbed(converted, "absorb-layouts")
    assert operators(result.graph) == ["MatMul", "Relu", "Flatten", "MatMul"]
