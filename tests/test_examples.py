"""The example models are what they claim to be."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from onnx_passes import examples
from onnx_passes.core.errors import UsageError

QONNX = "qonnx.custom_op.general"
ORACLE_SAMPLES = 32
OPERATORS = {
    "digits-mlp": {
        "Flatten": 1,
        "Quant": 6,
        "Transpose": 2,
        "MatMul": 2,
        "BatchNormalization": 2,
        "Relu": 2,
        "Gemm": 1,
    },
    "digits-cnn": {
        "Quant": 14,
        "Conv": 5,
        "BatchNormalization": 4,
        "Relu": 5,
        "Add": 1,
        "MaxPool": 2,
        "Flatten": 1,
        "Gemm": 1,
    },
}

every_example = pytest.mark.parametrize("name", examples.NAMES)


class Quant(OpRun):
    """Integer quantization of QONNX, with rounding of ties to even."""

    op_domain = QONNX

    def _run(self, x, scale, zeropt, bitwidth, signed=None, narrow=None, rounding_mode=None):
        assert rounding_mode == "ROUND"
        bits = int(bitwidth)
        low = -(2 ** (bits - 1)) + narrow if signed else 0
        high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
        steps = np.rint(np.clip(x / scale + zeropt, low, high))
        return (((steps - zeropt) * scale).astype(np.float32),)


def graph_of(name: str) -> ir.Graph:
    return ir.load(examples.path(name)).graph


def nodes(graph: ir.Graph, op_type: str) -> list[ir.Node]:
    return [node for node in graph if node.op_type == op_type]


def constant(value: ir.Value | None) -> np.ndarray:
    assert value is not None
    assert value.const_value is not None
    return value.const_value.numpy()


def evaluate(name: str, image: np.ndarray) -> np.ndarray:
    evaluator = ReferenceEvaluator(onnx.load(examples.path(name)), new_ops=[Quant])
    (logits,) = evaluator.run(["logits"], {"image": image})
    return logits


@every_example
def test_file_is_small_and_names_no_place_on_a_machine(name: str) -> None:
    content = examples.path(name).read_bytes()
    assert len(content) < 300 * 1024
    for place in (b"/tmp", b"/work", b"/root", b"/home", b"/usr", b"site-packages", b".py"):
        assert place not in content


@every_example
def test_model_is_valid_and_has_an_ir_version_that_onnx_runtime_accepts(name: str) -> None:
    proto = onnx.load(examples.path(name))
    onnx.checker.check_model(proto)
    assert proto.ir_version <= 10
    assert {entry.domain: entry.version for entry in proto.opset_import} == {"": 17, QONNX: 2}


@every_example
def test_interface_has_a_symbolic_batch(name: str) -> None:
    graph = graph_of(name)
    interface = [(v.name, v.dtype, v.shape) for v in (*graph.inputs, *graph.outputs)]
    assert interface == [
        ("image", ir.DataType.FLOAT, ir.Shape(["N", 1, 8, 8])),
        ("logits", ir.DataType.FLOAT, ir.Shape(["N", 10])),
    ]


@every_example
def test_operators(name: str) -> None:
    graph = graph_of(name)
    assert Counter(node.op_type for node in graph) == OPERATORS[name]
    assert {node.domain for node in nodes(graph, "Quant")} == {QONNX}


@every_example
def test_names_are_unique_and_relative(name: str) -> None:
    graph = graph_of(name)
    names = [node.name for node in graph]
    assert len(set(names)) == len(names)
    values = [value.name for node in graph for value in node.outputs]
    assert all(text and not text.startswith("/") for text in (*names, *values, *graph.initializers))


@every_example
def test_classifier_has_a_bias(name: str) -> None:
    (classifier,) = nodes(graph_of(name), "Gemm")
    assert np.any(constant(classifier.inputs[2]) != 0)


def test_convolutions_have_one_weight_scale_per_channel_and_one_has_a_bias() -> None:
    convolutions = nodes(graph_of("digits-cnn"), "Conv")
    for convolution in convolutions:
        quantizer = convolution.inputs[1].producer()
        channels = constant(quantizer.inputs[0]).shape[0]
        scale = constant(quantizer.inputs[1])
        assert scale.shape == (channels, 1, 1, 1)
        assert len(np.unique(scale)) > 1
    assert sum(len(convolution.inputs) == 3 for convolution in convolutions) == 1


def test_residual_branches_share_one_scale() -> None:
    (join,) = nodes(graph_of("digits-cnn"), "Add")
    branch, skip = (value.producer() for value in join.inputs)
    assert branch.op_type == skip.op_type == "Quant"
    assert [constant(v) for v in branch.inputs[1:]] == [constant(v) for v in skip.inputs[1:]]
    assert branch.inputs[0].producer().op_type == "BatchNormalization"
    assert len(skip.inputs[0].uses()) == 2


def test_some_batch_norm_channels_of_the_residual_branch_are_negative() -> None:
    gammas = [constant(node.inputs[1]) for node in nodes(graph_of("digits-cnn"), "BatchNormalization")]
    assert any(np.any(gamma < 0) for gamma in gammas)


def test_digits_are_balanced_images_scaled_to_one() -> None:
    image, label, _, _ = examples.digits()
    assert (image.dtype, image.shape) == (np.float32, (360, 1, 8, 8))
    assert (image.min(), image.max()) == (0, 1)
    assert (label.dtype, label.shape) == (np.int64, (360,))
    count = np.bincount(label, minlength=10)
    assert count.shape == (10,)
    assert count.min() >= 34
    assert count.max() <= 38


@every_example
def test_reference_evaluator_reproduces_the_logits_of_qonnx(name: str) -> None:
    data = examples.digits()
    expected = data.logits[name]
    assert expected.shape == (ORACLE_SAMPLES, 10)
    error = np.abs(evaluate(name, data.image[:ORACLE_SAMPLES]) - expected).max(axis=1)
    # An activation a few float steps from a tie may round the other way on another processor.
    assert np.count_nonzero(error > 1e-4) <= 1


@every_example
def test_batch_size_does_not_change_the_logits(name: str) -> None:
    data = examples.digits()
    one_by_one = np.concatenate([evaluate(name, data.image[i : i + 1]) for i in range(4)])
    error = np.abs(one_by_one - data.logits[name][:4]).max(axis=1)
    assert np.count_nonzero(error > 1e-4) <= 1


@pytest.mark.parametrize(("name", "floor"), [("digits-mlp", 0.95), ("digits-cnn", 0.97)])
def test_accuracy_is_as_stored(name: str, floor: float) -> None:
    data = examples.digits()
    right = np.count_nonzero(evaluate(name, data.image).argmax(axis=1) == data.label)
    assert abs(right - data.accuracy[name] * len(data.label)) < 1.5
    assert data.accuracy[name] >= floor


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no example model 'digits_cnn'.*did you mean 'digits-cnn'"):
        examples.path("digits_cnn")


def test_unknown_name_without_neighbours_lists_all() -> None:
    with pytest.raises(UsageError, match="the examples are digits-mlp, digits-cnn"):
        examples.path("resnet")


def test_the_float_model_has_something_to_clean_up_and_is_right():
    from onnx_passes.api import run_model

    path, digits = examples.path("digits-cnn").with_name("digits_float.onnx"), examples.digits()
    onnx.checker.check_model(onnx.load(path))
    assert {"Dropout", "Identity", "BatchNormalization", "Shape"} <= {node.op_type for node in ir.load(path).graph}
    logits = run_model(path, {"image": digits.image})["logits"]
    assert (logits.argmax(axis=1) == digits.label).mean() > 0.99


def test_files_of_the_documentation(tmp_path):
    written = examples.write(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == sorted(written)
    assert np.array_equal(np.load(tmp_path / "images.npy"), examples.digits().image)
