"""Small changes to random models, each of which changes the structure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.helpers.random_models import Rng, copy_of

ELEMENTWISE = ("Relu", "Abs", "Neg", "Sigmoid", "Tanh")


def mutate(model: ir.Model, seed: int | Rng, name: str | None = None) -> tuple[ir.Model, str]:
    """Return a changed copy and the name of the mutation: the one given, or one that is possible."""
    rng = np.random.default_rng(seed)
    copy = copy_of(model)
    for candidate in [name] if name else [str(key) for key in rng.permutation(list(MUTATIONS))]:
        if MUTATIONS[candidate](copy, rng):
            return copy, candidate
    raise ValueError(f"the model is too small for mutation {name}")


def _pick(rng: Rng, items: list) -> object:
    return items[rng.integers(len(items))] if items else None


def _name(rng: Rng, word: str) -> str:
    return f"{word}_{rng.integers(2**40)}"


def _insert(new: ir.Node, near: ir.Node) -> None:
    assert near.graph is not None
    near.graph.insert_before(near, [new])


def change_operator(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, [node for node in model.graph.all_nodes() if node.op_type in ELEMENTWISE])
    if node is None:
        return False
    node.op_type = str(rng.choice([op for op in ELEMENTWISE if op != node.op_type]))
    return True


def change_attribute(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, [node for node in model.graph.all_nodes() if "axis" in node.attributes])
    if node is None:
        return False
    node.attributes["axis"] = ir.AttrInt64("axis", node.attributes["axis"].as_int() + 1)
    return True


def change_constant(model: ir.Model, rng: Rng) -> bool:
    value = _pick(rng, [value for value in model.graph.initializers.values() if value.const_value.size])
    if value is None:
        return False
    array = value.const_value.numpy().copy()
    array.reshape(-1)[rng.integers(array.size)] += 1
    value.const_value = ir.Tensor(array, name=value.name)
    return True


def swap_operands(model: ir.Model, rng: Rng) -> bool:
    swappable = [
        node
        for node in model.graph.all_nodes()
        if len(node.inputs) == 2 and node.inputs[0] is not node.inputs[1] and _tell_apart(*node.inputs)
    ]
    node = _pick(rng, swappable)
    if node is None:
        return False
    first, second = node.inputs
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)
    return True


def _tell_apart(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Say whether two values differ on their own, so that swapping them cannot go unnoticed."""
    if a is None or b is None:
        return True
    producer_a, producer_b = a.producer(), b.producer()
    return (producer_a and producer_a.op_type) != (producer_b and producer_b.op_type)


def rewire_input(model: ir.Model, rng: Rng) -> bool:
    nodes = list(model.graph)
    for index in rng.permutation(len(nodes)):
        node = nodes[index]
        earlier = [*model.graph.inputs, *(value for other in nodes[:index] for value in other.outputs)]
        for position, value in enumerate(node.inputs):
            others = [other for other in earlier if _tell_apart(other, value)]
            if value is not None and others:
                node.replace_input_with(position, _pick(rng, others))
                return True
    return False


def split_node(model: ir.Model, rng: Rng) -> bool:
    shared = [
        node
        for node in model.graph.all_nodes()
        if len(node.outputs) == 1 and len(node.outputs[0].uses()) > 1 and node.op_type != "If"
    ]
    node = _pick(rng, shared)
    if node is None:
        return False
    twin = ir.Node(node.domain, node.op_type, node.inputs, node.attributes.values(), name="twin")
    twin.outputs[0].name = _name(rng, "twin")
    _insert(twin, node)
    reader, position = node.outputs[0].uses()[0]
    reader.replace_input_with(position, twin.outputs[0])
    return True


def split_initializer(model: ir.Model, rng: Rng) -> bool:
    value = _pick(rng, [value for value in model.graph.initializers.values() if len(value.uses()) > 1])
    if value is None:
        return False
    twin = ir.Value(name=_name(rng, "twin"), const_value=ir.Tensor(value.const_value.numpy().copy()))
    model.graph.initializers.add(twin)
    reader, position = value.uses()[0]
    reader.replace_input_with(position, twin)
    return True


def insert_identity(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, [node for node in model.graph.all_nodes() if node.inputs and node.inputs[0] is not None])
    if node is None:
        return False
    identity = ir.Node("", "Identity", [node.inputs[0]], name="inserted")
    identity.outputs[0].name = _name(rng, "inserted")
    _insert(identity, node)
    node.replace_input_with(0, identity.outputs[0])
    return True


def add_dead_node(model: ir.Model, rng: Rng) -> bool:
    node = _pick(rng, list(model.graph.all_nodes()))
    dead = ir.Node("", "Relu", [node.outputs[0]], name="dead")
    dead.outputs[0].name = _name(rng, "dead")
    node.graph.insert_after(node, [dead])
    return True


def add_dead_initializer(model: ir.Model, rng: Rng) -> bool:
    array = rng.normal(size=3).astype(np.float32)
    model.graph.initializers.add(ir.Value(name=_name(rng, "dead"), const_value=ir.Tensor(array)))
    return True


def drop_output(model: ir.Model, rng: Rng) -> bool:
    if len(model.graph.outputs) < 2:
        return False
    del model.graph.outputs[int(rng.integers(len(model.graph.outputs)))]
    return True


def swap_outputs(model: ir.Model, rng: Rng) -> bool:
    if len(model.graph.outputs) < 2:
        return False
    first, *rest = model.graph.outputs
    model.graph.outputs.clear()
    model.graph.outputs.extend([*rest, first])
    return True


def rename_input(model: ir.Model, rng: Rng) -> bool:
    model.graph.inputs[int(rng.integers(len(model.graph.inputs)))].name = _name(rng, "renamed")
    return True


def change_opset(model: ir.Model, rng: Rng) -> bool:
    model.graph.opset_imports[""] += 1
    return True


MUTATIONS: dict[str, Callable[[ir.Model, Rng], bool]] = {
    mutation.__name__: mutation
    for mutation in (
        change_operator,
        change_attribute,
        change_constant,
        swap_operands,
        rewire_input,
        split_node,
        split_initializer,
        insert_identity,
        add_dead_node,
        add_dead_initializer,
        drop_output,
        swap_outputs,
        rename_input,
        change_opset,
    )
}
