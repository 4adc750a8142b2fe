"""Values inside a model that is too large to run: what big weights make of their inputs is drawn, the rest computed."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import ExecutionError
from onnx_passes.verify.samples.fitting import dynamic_axes, run_generated
from onnx_passes.verify.samples.generate import generate

BIG = 4 * 2**20
"""Nodes that read a weight of more bytes than this are not run."""


def weight_bytes(model: ir.Model) -> int:
    """Return how many bytes the weights of a model take, each counted once."""
    tensors = [value.const_value for graph in model.graphs() for value in graph.initializers.values()]
    return sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in tensors}.values() if tensor is not None)


def fill_drawn(known: Activations, model: ir.Model, seed: int) -> None:
    """Fill in values of a model with what it computes where the results of nodes with big weights are drawn.

    Raises ExecutionError if that is impossible.
    """
    light = without_big_weights(model)
    try:
        samples = generate(light, seed=seed)
    except UsageError as error:
        raise ExecutionError(f"no values can be drawn: {error}") from error
    ready = known.executor.prepare(light, engine="onnxruntime")
    taken, _ = run_generated(ready, samples, dynamic_axes(light))
    values = {str(value.name): value for node in model.graph for value in node.outputs if value.name}
    known.fill(light, taken, kept_for=values)
    for name in known.samples[0].keys() & values.keys():
        known.put(values[name], tuple(sample[name] for sample in known.samples))


def without_big_weights(model: ir.Model) -> ir.Model:
    """Copy a model, with inputs in place of what nodes compute that read big weights.

    What is computed from big weights alone is left out with them. Raises ExecutionError where no shape is known.
    """
    light = copy_model(model)
    graph = light.graph
    constant = {value for value in graph.initializers.values() if not value.is_graph_input()}
    big = {value for value in constant if value.const_value is not None and value.const_value.nbytes > BIG}
    unwanted: list[ir.Node] = []
    for node in graph:
        given = [value for value in node.inputs if value is not None]
        if constant.issuperset(given):
            constant.update(node.outputs)
        if not big.isdisjoint(given):
            unwanted.append(node)
            if constant.issuperset(given):
                big.update(node.outputs)
            else:
                _make_inputs(node, graph)
    for node in reversed(unwanted):
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
        graph.remove(node)
    _expose_ends(graph)
    return light


def _make_inputs(node: ir.Node, graph: ir.Graph) -> None:
    for value in node.outputs:
        if not value.uses() and not value.is_graph_output():
            continue
        if value.dtype is None or value.shape is None:
            raise ExecutionError(
                f"the shape of '{value.name}' is not known", hint="run shape-inference before the other passes"
            )
        drawn = ir.Value(name=value.name, type=value.type, shape=value.shape)
        value.name = ""
        value.replace_all_uses_with(drawn, replace_graph_outputs=True)
        graph.inputs.append(drawn)


def _expose_ends(graph: ir.Graph) -> None:
    """Let the outputs be what is computed last: ONNX Runtime wants some, and none that is an input."""
    computed = [value for node in graph for value in node.outputs if value.name and value.type is not None]
    graph.outputs[:] = [value for value in computed if not value.uses()]
    if not graph.outputs:
        raise ExecutionError("nothing is left to run without the nodes that read big weights")
