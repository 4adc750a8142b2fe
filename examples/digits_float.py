"""Write the float network for digits: the quantized CNN without its quantizers, as an exporter leaves it.

Weights are those of ``digits_cnn.onnx``. Exporters compute the target of a Reshape, keep Dropout and Identity, and turn
images around where the framework has channels last; there is some of each, so that there is something to clean up.

    python examples/digits_float.py src/onnx_passes/examples/digits_float.onnx
"""

from __future__ import annotations

import sys

import onnx_ir as ir

from onnx_passes import examples

GRAPH = """<ir_version: 8, opset_import: ["" : 17], producer_name: "example">
digits_float (float[batch, 1, 8, 8] image) => (float[batch, 10] logits) {
    [mean] mean_value = Constant <value = float {0.0}> ()
    [std] std_value = Constant <value = float {1.0}> ()
    [center] centered = Sub (image, mean_value)
    [scale] scaled = Div (centered, std_value)
    [conv1] conv1_out = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (scaled, "conv1.weight")
    [norm1] norm1_out = BatchNormalization (conv1_out, "norm1.weight", "norm1.bias",
        "norm1.running_mean", "norm1.running_var")
    [relu1] relu1_out = Relu (norm1_out)
    [keep1] block_in = Identity (relu1_out)
    [block_conv1] block1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (block_in, "residual.conv1.weight")
    [block_norm1] block2 = BatchNormalization (block1, "residual.norm1.weight", "residual.norm1.bias",
        "residual.norm1.running_mean", "residual.norm1.running_var")
    [block_relu1] block3 = Relu (block2)
    [block_conv2] block4 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (block3, "residual.conv2.weight")
    [block_norm2] block5 = BatchNormalization (block4, "residual.norm2.weight", "residual.norm2.bias",
        "residual.norm2.running_mean", "residual.norm2.running_var")
    [block_add] block6 = Add (block5, block_in)
    [to_last] block7 = Transpose <perm = [0, 2, 3, 1]> (block6)
    [block_relu2] block8 = Relu (block7)
    [to_first] block_out = Transpose <perm = [0, 3, 1, 2]> (block8)
    [pool1] pool1_out = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (block_out)
    [conv2] conv2_out = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (pool1_out, "conv2.weight")
    [norm2] norm2_out = BatchNormalization (conv2_out, "norm2.weight", "norm2.bias",
        "norm2.running_mean", "norm2.running_var")
    [relu2] relu2_out = Relu (norm2_out)
    [pool2] pool2_out = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (relu2_out)
    [conv3] conv3_out = Conv <kernel_shape = [1, 1]> (pool2_out, "conv3.weight", "conv3.bias")
    [relu3] relu3_out = Relu (conv3_out)
    [shape] sizes = Shape (relu3_out)
    [zero] first = Constant <value = int64 {0}> ()
    [rows] row_count = Gather (sizes, first)
    [axis] front = Constant <value = int64[1] {0}> ()
    [rows1] row_list = Unsqueeze (row_count, front)
    [rest] minus_one = Constant <value = int64[1] {-1}> ()
    [target] new_shape = Concat <axis = 0> (row_list, minus_one)
    [flatten] features = Reshape (relu3_out, new_shape)
    [drop] kept = Dropout (features)
    [classifier] logits = Gemm <transB = 1> (kept, "classifier.weight", "classifier.bias")
}"""


def main(target: str) -> None:
    """Put the weights of the quantized network into the graph, and write it."""
    weights = ir.load(examples.path("digits-cnn")).graph.initializers
    model = ir.from_onnx_text(GRAPH)
    used = {value for node in model.graph for value in node.inputs if value is not None and value.name in weights}
    for value in sorted(used, key=lambda value: value.name or ""):
        value.const_value = weights[value.name or ""].const_value
        model.graph.register_initializer(value)
    ir.save(model, target)


if __name__ == "__main__":
    main(sys.argv[1])
