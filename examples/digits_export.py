"""Write a trained network as a small, tidy QONNX file and run it with the executor of qonnx."""

import re
from unittest.mock import patch

import numpy as np
import onnx
import torch
from brevitas.export import export_qonnx
from onnx import ModelProto
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
from torch import nn

INPUT, OUTPUT, BATCH = "image", "logits", "N"
OPSET = 17
BOILERPLATE = re.compile(r"^/|act_quant/|activation_impl/|export_handler/")
# qonnx stamps the newest IR version known to onnx on each node it runs, which ONNX Runtime may not know yet.
IR_VERSION = 8


def export(network: nn.Module, image: torch.Tensor, name: str) -> ModelProto:
    """Export with a symbolic batch dimension, readable names and nothing about the machine."""
    model = export_qonnx(
        network.eval(),
        args=image[:1],
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_axes={INPUT: {0: BATCH}, OUTPUT: {0: BATCH}},
        opset_version=OPSET,
        keep_initializers_as_inputs=False,
        dynamo=False,
    )
    model.ir_version = IR_VERSION
    model.graph.name = name
    strip(model)
    rename(model)
    onnx.checker.check_model(model)
    return model


def strip(model: ModelProto) -> None:
    """Remove doc strings and metadata, where exporters leave stack traces and file names."""
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    for proto in (model, graph, *graph.node, *graph.initializer, *values):
        proto.ClearField("doc_string")
        proto.ClearField("metadata_props")


def rename(model: ModelProto) -> None:
    """Shorten names like ``/relu1/act_quant/export_handler/Quant_output_0`` to ``relu1/Quant_output_0``."""
    graph = model.graph
    tensors = {name for node in graph.node for name in (*node.input, *node.output)}
    if len({short(name) for name in tensors}) < len(tensors):
        raise ValueError(f"{graph.name}: two tensors would get the same short name")
    for node in graph.node:
        node.name = short(node.name)
        node.input[:] = map(short, node.input)
        node.output[:] = map(short, node.output)
    for proto in (*graph.initializer, *graph.value_info):
        proto.name = short(proto.name)


def short(name: str) -> str:
    return BOILERPLATE.sub("", name)


def execute(model: ModelProto, image: np.ndarray) -> np.ndarray:
    """Compute the logits with qonnx, which wants every shape to be a number."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    fixed.graph.ClearField("value_info")
    for value in (*fixed.graph.input, *fixed.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = len(image)
    with patch.object(onnx, "IR_VERSION", IR_VERSION):
        wrapper = ModelWrapper(fixed).transform(InferShapes())
        return execute_onnx(wrapper, {INPUT: image})[OUTPUT]
