"""Passes that break the interface, and edits that change values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tests.planted.planting import Fault, Sample, edit, node, swap_inputs, text

HOST = text(
    "float[2,3] x, float[2,3] b",
    "float[2,3] y, float[2,3] z",
    """
    n = Neg(x) s = Add(n, b) t = Mul(s, s) u = Sub(t, x)
    p = Abs(u) q = Add(p, one) z = Div(s, q)
    v = Max(u, z) w = MatMul(v, m) y = Add(w, bias)
    """,
    initializers="float one = {1.0}, float[3] bias = {0.5, -1.0, 2.0}, "
    "float[3,3] m = {1.0, 2.0, -3.0, 0.5, 0.25, 0.75, -1.0, 1.5, 2.5}",
)

DYNAMIC = HOST.replace("[2,3]", "[N,3]")


def replace_output(model: ir.Model, index: int, new: ir.Node) -> None:
    """Let a new node, which reads the old output, take over its name and place."""
    old = model.graph.outputs[index]
    model.graph.append(new)
    name, old.name = old.name, f"old_{old.name}"
    new.outputs[0].name, new.outputs[0].type, new.outputs[0].shape = name, old.type, old.shape
    model.graph.outputs[index] = new.outputs[0]


@edit
def loses_output(model):
    del model.graph.outputs[1]


@edit
def loses_first_output(model):
    del model.graph.outputs[0]


@edit
def reorders_outputs(model):
    y, z = model.graph.outputs
    model.graph.outputs.clear()
    model.graph.outputs.extend([z, y])


@edit
def renames_output(model):
    model.graph.outputs[1].name = "result"


@edit
def swaps_names_of_outputs(model):
    y, z = model.graph.outputs
    y.name, z.name = "other", "y"
    y.name = "z"


@edit
def adds_output(model):
    model.graph.outputs.append(node(model, "Abs").outputs[0])


@edit
def doubles_output(model):
    replace_output(model, 0, ir.node("Cast", [model.graph.outputs[0]], {"to": ir.DataType.DOUBLE}))
    model.graph.outputs[0].type = ir.TensorType(ir.DataType.DOUBLE)


@edit
def adds_axis_to_output(model):
    axes = ir.node("Constant", [], {"value_ints": [0]})
    model.graph.append(axes)
    replace_output(model, 1, ir.node("Unsqueeze", [model.graph.outputs[1], axes.outputs[0]]))
    model.graph.outputs[1].shape = ir.Shape([1, 2, 3])


@edit
def renames_input(model):
    model.graph.inputs[0].name = "data"


@edit
def swaps_names_of_inputs(model):
    x, b = model.graph.inputs
    x.name, b.name = "other", "x"
    x.name = "b"


@edit
def loses_input(model):
    model.graph.inputs[1].replace_all_uses_with(model.graph.inputs[0])
    del model.graph.inputs[1]


@edit
def demands_input(model):
    extra = ir.Value(name="extra", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 3]))
    model.graph.inputs.append(extra)


@edit
def retypes_input(model):
    model.graph.inputs[0].type = ir.TensorType(ir.DataType.DOUBLE)


@edit
def fixes_size_of_input(model):
    for value in model.graph.inputs:
        value.shape = ir.Shape([2, 3])


@edit
def swaps_inputs_of_sub(model):
    swap_inputs(node(model, "Sub"))


@edit
def swaps_inputs_of_div(model):
    swap_inputs(node(model, "Div"))


@edit
def drops_bias(model):
    last = model.graph.outputs[0].producer()
    product, name = last.inputs[0], model.graph.outputs[0].name
    model.graph.outputs[0] = product
    last.outputs[0].name = "unused"
    product.name = name


@edit
def transposes_weights(model):
    weights = model.graph.initializers["m"]
    weights.const_value = ir.Tensor(np.ascontiguousarray(weights.const_value.numpy().T), name="m")


@edit
def gives_input_for_output(model):
    model.graph.outputs[0] = model.graph.inputs[0]


@edit
def rounds_weights(model):
    weights = model.graph.initializers["m"]
    wrong = weights.const_value.numpy() * np.float32(1 + 2**-22)
    weights.const_value = ir.Tensor(wrong, name="m")


def samples() -> tuple[Sample, ...]:
    """Return many samples of which one is unlike the others."""
    random = np.random.default_rng(0)
    drawn = [{name: random.random((2, 3), np.float32) for name in "xb"} for _ in range(20)]
    drawn[13]["x"][1, 2] = -1
    return tuple(drawn)


@edit
def is_right_for_positive_inputs(model):
    relu = ir.node("Relu", [model.graph.inputs[0]])
    relu.outputs[0].name = "positive"
    model.graph.insert_before(model.graph[0], relu)
    for user, index in list(model.graph.inputs[0].uses()):
        if user is not relu:
            user.replace_input_with(index, relu.outputs[0])


FAULTS = [
    Fault("loses an output", loses_output, HOST, "interface"),
    Fault("loses the first output", loses_first_output, HOST, "interface"),
    Fault("reorders outputs", reorders_outputs, HOST, "interface"),
    Fault("renames an output", renames_output, HOST, "interface"),
    Fault("swaps names of outputs", swaps_names_of_outputs, HOST, "interface"),
    Fault("adds an output", adds_output, HOST, "interface"),
    Fault("changes the type of an output", doubles_output, HOST, "interface"),
    Fault("adds an axis to an output", adds_axis_to_output, HOST, "interface"),
    Fault("renames an input", renames_input, HOST, "interface"),
    Fault("swaps names of inputs", swaps_names_of_inputs, HOST, "interface"),
    Fault("loses an input", loses_input, HOST, "interface"),
    Fault("demands another input", demands_input, HOST, "interface"),
    Fault("changes the type of an input", retypes_input, HOST, "interface"),
    Fault("fixes a dynamic size of an input", fixes_size_of_input, DYNAMIC, "interface"),
    Fault("swaps inputs of Sub", swaps_inputs_of_sub, HOST, "swapped inputs"),
    Fault("swaps inputs of Div", swaps_inputs_of_div, HOST, "swapped inputs"),
    Fault("drops a bias", drops_bias, HOST, "values"),
    Fault("transposes square weights", transposes_weights, HOST, "weights"),
    Fault("changes the last bits of weights", rounds_weights, HOST, "weights"),
    Fault("gives an input for an output", gives_input_for_output, HOST, "interface"),
    Fault("is wrong on one sample of many", is_right_for_positive_inputs, HOST, "values", samples=samples()),
]
