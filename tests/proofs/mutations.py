"""Changes to models that may change what they compute or their interface: in subgraphs, functions and graphs alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.hashing.content import subgraphs
from onnx_passes.graph.randomness import is_random
from tests.helpers import mutations as structural
from tests.helpers.random_models import Rng

Mutation = Callable[[ir.Model, Rng], bool]

_ALIKE = (
    ("Relu", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Identity", "Exp", "Tanh", "Sigmoid", "Sqrt"),
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Less", "Greater", "LessOrEqual", "GreaterOrEqual"),
    ("And", "Or", "Xor"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("MaxPool", "AveragePool"),
    ("GlobalAveragePool", "GlobalMaxPool"),
    ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd"),
    ("ArgMax", "ArgMin"),
    ("RandomNormalLike", "RandomUniformLike"),
)


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """Yield the graph of a model, those of functions, and those within them."""
    for owner in (model.graph, *(function.graph for function in model.functions.values())):
        yield owner
        yield from all_graphs(owner)


def _nodes(model: ir.Model) -> list[ir.Node]:
    return [node for graph in _graphs(model) for node in graph]


def _pick(rng: Rng, items: list[Any]) -> Any:
    return items[int(rng.integers(len(items)))] if items else None


def _other_operator(model: ir.Model, rng: Rng) -> bool:
    places = [(node, names) for node in _nodes(model) for names in _ALIKE if node.op_type in names and not node.domain]
    found = _pick(rng, places)
    if found is None:
        return False
    node, names = found
    node.op_type = str(rng.choice([name for name in names if name != node.op_type]))
    return True


def _other_attribute(model: ir.Model, rng: Rng) -> bool:
    # A wrong number of parts ends the process within ONNX Runtime.
    found = _pick(rng, [(node, attr) for node in _nodes(model) if node.op_type != "Split"
                        for attr in node.attributes.values()
                        if not attr.is_ref() and attr.type.name in ("INT", "FLOAT")])  # fmt: skip
    if found is None:
        return False
    node, attr = found
    if attr.type is ir.AttributeType.INT:
        node.attributes[attr.name] = ir.AttrInt64(attr.name, attr.as_int() + int(rng.choice([-1, 1])))
    else:
        node.attributes[attr.name] = ir.AttrFloat32(attr.name, attr.as_float() + 1.0)
    return True


def _other_list(model: ir.Model, rng: Rng) -> bool:
    found = _pick(rng, [(node, attr) for node in _nodes(model) for attr in node.attributes.values()
                        if not attr.is_ref() and attr.type is ir.AttributeType.INTS and attr.value])  # fmt: skip
    if found is None:
        return False
    node, attr = found
    numbers = list(attr.as_ints())
    place = int(rng.integers(len(numbers)))
    numbers[place] = (1 - numbers[place]) if numbers[place] in (0, 1) else numbers[place] - 1
    node.attributes[attr.name] = ir.AttrInt64s(attr.name, numbers)
    return True


def _default_attribute(model: ir.Model, rng: Rng) -> bool:
    found = _pick(rng, [node for node in _nodes(model) if node.op_type in ("Softmax", "ArgMax", "LeakyRelu", "Elu")])
    if found is None:
        return False
    name = "axis" if found.op_type in ("Softmax", "ArgMax") else "alpha"
    found.attributes[name] = ir.AttrInt64("axis", 0) if name == "axis" else ir.AttrFloat32("alpha", 3.0)
    return True


def _constants(model: ir.Model) -> Iterator[tuple[np.ndarray, Callable[[np.ndarray], None]]]:
    """Yield what initializers and Constant nodes hold, with a way to change it."""
    for graph in _graphs(model):
        for value in graph.initializers.values():

            def hold(array: np.ndarray, value: ir.Value = value) -> None:
                value.const_value = ir.Tensor(array, name=value.name)

            if value.const_value is not None and value.const_value.size:
                yield value.const_value.numpy(), hold
        for node in graph:
            attr = node.attributes.get("value") if node.op_type == "Constant" else None

            def keep(array: np.ndarray, node: ir.Node = node) -> None:
                node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(array))

            if attr is not None and attr.as_tensor().size:
                yield attr.as_tensor().numpy(), keep


def _other_constant(model: ir.Model, rng: Rng) -> bool:
    return _change(model, rng, lambda x: ~x if x.dtype.kind == "b" else x + np.ones((), x.dtype))


def _next_constant(model: ir.Model, rng: Rng) -> bool:
    return _change(model, rng, lambda x: np.nextafter(x, np.asarray(np.inf, x.dtype)) if x.dtype.kind == "f" else ~x)


def _negative_constant(model: ir.Model, rng: Rng) -> bool:
    return _change(model, rng, lambda x: ~x if x.dtype.kind == "b" else -x)


def _change(model: ir.Model, rng: Rng, change: Callable[[np.ndarray], np.ndarray]) -> bool:
    found = _pick(rng, list(_constants(model)))
    if found is None:
        return False
    array = found[0].copy()
    flat = array.reshape(-1)
    place = slice(*(at := int(rng.integers(flat.size)), at + 1))
    flat[place] = change(flat[place])
    found[1](array)
    return True


def _swapped_inputs(model: ir.Model, rng: Rng) -> bool:
    nodes = [node for node in _nodes(model) if len(node.inputs) == 2 and None not in node.inputs]
    node = _pick(rng, [node for node in nodes if node.inputs[0] is not node.inputs[1]])
    if node is None:
        return False
    first, second = node.inputs
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)
    return True


def _rewired(model: ir.Model, rng: Rng) -> bool:
    """Let a node read another value of its graph."""
    graph = _pick(rng, [graph for graph in _graphs(model) if len(graph)])
    nodes = list(graph)
    node = _pick(rng, [node for node in nodes if any(value is not None for value in node.inputs)])
    if node is None:
        return False
    before = [*graph.inputs, *(value for each in nodes[: nodes.index(node)] for value in each.outputs)]
    place = int(rng.integers(len(node.inputs)))
    other = _pick(rng, [value for value in before if value is not node.inputs[place]])
    if other is None or node.inputs[place] is None:
        return False
    node.replace_input_with(place, other)
    return True


def _other_capture(model: ir.Model, rng: Rng) -> bool:
    """Let a node of a subgraph read another value of the graph around it, or compute that value in another way."""
    holders = [node for node in model.graph if any(True for _ in subgraphs(node))]
    holder = _pick(rng, holders)
    if holder is None:
        return False
    nodes = list(model.graph)
    around = [*model.graph.inputs, *(v for each in nodes[: nodes.index(holder)] for v in each.outputs)]
    inner = [node for _, _, graph in subgraphs(holder) for owner in (graph, *all_graphs(graph)) for node in owner]
    places = [(node, at) for node in inner for at, value in enumerate(node.inputs) if value in around]
    found = _pick(rng, places)
    other = None if found is None else _pick(rng, [value for value in around if value is not found[0].inputs[found[1]]])
    if found is None or other is None:
        return False
    found[0].replace_input_with(found[1], other)
    return True


def _swapped_branches(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, [node for node in _nodes(model) if node.op_type == "If"])
    if node is None:
        return False
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    for name, graph in zip(("then_branch", "else_branch"), branches[::-1], strict=True):
        node.attributes[name] = ir.AttrGraph(name, graph)
    return True


def _other_subgraph_output(model: ir.Model, rng: Rng) -> bool:
    graph = _pick(rng, [graph for owner in _graphs(model) for graph in all_graphs(owner) if len(graph)])
    if graph is None:
        return False
    values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
    place = int(rng.integers(len(graph.outputs)))
    other = _pick(rng, [value for value in values if value is not graph.outputs[place]])
    if other is None:
        return False
    graph.outputs[place] = other
    return True


def _function_opset(model: ir.Model, rng: Rng) -> bool:
    function = _pick(rng, list(model.functions.values()))
    if function is None:
        return False
    function.opset_imports[""] = int(
        rng.choice([n for n in (11, 12, 13, 17, 18, 21) if n != function.opset_imports[""]])
    )
    return True


def _model_opset(model: ir.Model, rng: Rng) -> bool:
    old = model.graph.opset_imports[""]
    model.graph.opset_imports[""] = int(rng.choice([n for n in (11, 12, 13, 17, 18, 21) if n != old]))
    return True


def _function_default(model: ir.Model, rng: Rng) -> bool:
    found = _pick(rng, [(function, attr) for function in model.functions.values()
                        for attr in function.attributes.values() if attr.type is ir.AttributeType.FLOAT
                        and attr.value is not None])  # fmt: skip
    if found is None:
        return False
    function, attr = found
    function.attributes[attr.name] = ir.AttrFloat32(attr.name, attr.value * 2)
    return True


def _other_call(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, [node for node in _nodes(model) if node.op_identifier() in model.functions and node.inputs])
    if node is None:
        return False
    node.domain, node.op_type = "", str(rng.choice(["Relu", "Abs", "Sigmoid"]))
    node.attributes.clear()
    node.resize_inputs(1)
    return True


def _random(model: ir.Model) -> list[ir.Node]:
    return [node for node in _nodes(model) if is_random(node)]


def _merged_draws(model: ir.Model, rng: Rng) -> bool:
    found = [node for node in model.graph if is_random(node)]
    if len(found) < 2:
        return False
    found[1].outputs[0].replace_all_uses_with(found[0].outputs[0])
    model.graph.remove(found[1]) if not found[1].outputs[0].is_graph_output() else None
    return True


def _split_draw(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, [node for node in model.graph if is_random(node) and node.outputs[0].uses()])
    if node is None:
        return False
    twin = ir.Node("", node.op_type, node.inputs, node.attributes.values(), num_outputs=1)
    twin.outputs[0].name = f"twin_{rng.integers(2**40)}"
    node.graph.insert_before(node, [twin])
    reader, place = node.outputs[0].uses()[0]
    reader.replace_input_with(place, twin.outputs[0])
    return True


def _unread_draw(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, _random(model))
    if node is None:
        return False
    twin = ir.Node("", node.op_type, node.inputs, node.attributes.values(), num_outputs=1)
    twin.outputs[0].name = f"twin_{rng.integers(2**40)}"
    node.graph.insert_before(node, [twin])
    return True


def _other_seed(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, _random(model))
    if node is None:
        return False
    name = "seed"
    old = node.attributes.get_float(name, 0.0) if node.op_type != "Dropout" else node.attributes.get_int(name, 0)
    node.attributes[name] = (
        ir.AttrInt64(name, int(old) + 1) if node.op_type == "Dropout" else ir.AttrFloat32(name, old + 1)
    )
    return True


def _swapped_input_order(model: ir.Model, rng: Rng) -> bool:
    if len(model.graph.inputs) < 2:
        return False
    first, *rest = list(model.graph.inputs)
    model.graph.inputs.clear()
    model.graph.inputs.extend([*rest, first])
    return True


def _renamed_output(model: ir.Model, rng: Rng) -> bool:
    _pick(rng, list(model.graph.outputs)).name = f"renamed_{rng.integers(2**40)}"
    return True


def _swapped_names(model: ir.Model, rng: Rng) -> bool:
    if len(model.graph.inputs) < 2:
        return False
    first, second = model.graph.inputs[0], model.graph.inputs[1]
    names = first.name, second.name
    first.name = "aside"
    second.name, first.name = names[0], names[1]
    return True


def _more_outputs(model: ir.Model, rng: Rng) -> bool:
    inner = [value for node in model.graph for value in node.outputs if not value.is_graph_output() and value.shape]
    value = _pick(rng, inner)
    if value is None:
        return False
    model.graph.outputs.append(value)
    return True


def _more_inputs(model: ir.Model, rng: Rng) -> bool:
    model.graph.inputs.append(ir.Value(name="more", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2])))
    return True


def _other_input_type(model: ir.Model, rng: Rng) -> bool:
    value = _pick(rng, [value for value in model.graph.inputs if not value.is_initializer()])
    kinds = [kind for kind in (ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.INT32) if kind is not value.dtype]
    value.type = ir.TensorType(_pick(rng, kinds))
    for node in _nodes(model):
        for output in node.outputs:
            output.type = output.shape = None
    return True


def _other_input_shape(model: ir.Model, rng: Rng) -> bool:
    value = _pick(rng, [value for value in model.graph.inputs if value.shape and not value.is_initializer()])
    if value is None:
        return False
    sizes: list[Any] = list(value.shape)
    place = int(rng.integers(len(sizes)))
    sizes[place] = rng.choice([1, sizes[place] + 1]) if rng.random() < 0.6 else "N"
    value.shape = ir.Shape([int(size) if not isinstance(size, str) else size for size in sizes])
    for node in _nodes(model):
        for output in node.outputs:
            output.shape = None
    return True


def _other_default(model: ir.Model, rng: Rng) -> bool:
    value = _pick(rng, [value for value in model.graph.inputs if value.const_value is not None])
    if value is None:
        return False
    value.const_value = ir.Tensor(value.const_value.numpy() * 2, name=value.name)
    return True


def _without_default(model: ir.Model, rng: Rng) -> bool:
    value = _pick(rng, [value for value in model.graph.inputs if value.is_initializer()])
    if value is None:
        return False
    if rng.random() < 0.5:
        model.graph.inputs.remove(value)
    else:
        del model.graph.initializers[value.name]
        value.const_value = None
    return True


MUTATIONS: dict[str, Mutation] = {
    **structural.MUTATIONS,
    **{
        mutation.__name__.strip("_"): mutation
        for mutation in (
            _other_operator, _other_attribute, _other_list, _default_attribute, _other_constant, _next_constant,
            _negative_constant, _swapped_inputs, _rewired, _other_capture, _swapped_branches, _other_subgraph_output,
            _function_opset, _model_opset, _function_default, _other_call, _merged_draws, _split_draw, _unread_draw,
            _other_seed, _swapped_input_order, _renamed_output, _swapped_names, _more_outputs, _more_inputs,
            _other_input_type, _other_input_shape, _other_default, _without_default,
        )
    },
}  # fmt: skip
