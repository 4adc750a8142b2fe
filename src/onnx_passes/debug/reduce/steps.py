"""Steps that make the structure of a failing model smaller: each proposes changes, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.debug.reduce.case import BRANCHES, FailingCase, branching, declare, hoisted, tensor_of, varying
from onnx_passes.graph.constants import constant_node, is_constant_node
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.edits import detach, remove_if_dead, replace_value
from onnx_passes.graph.names import Names
from onnx_passes.passes.cleanup.remove_unused_functions import RemoveUnusedFunctions
from onnx_passes.passes.cleanup.remove_unused_nodes import RemoveUnusedNodes
from onnx_passes.passes.cleanup.remove_unused_opsets import RemoveUnusedOpsets
from onnx_passes.passes.inline.inline_functions import InlineFunctions
from onnx_passes.verify.run.execute import Sample

Proposal = Callable[[], FailingCase | None]
Step = Callable[[FailingCase], Iterator[Proposal]]
"""Proposes smaller cases; only those that are asked for are built, and none changes the case it came from."""


def edited(case: FailingCase, edit: Callable[[ir.Model], bool]) -> FailingCase | None:
    """Edit a copy of a model and remove dead nodes; return None if the edit refuses."""
    model = copy_model(case.model)
    if not edit(model):
        return None
    RemoveUnusedNodes().call(model)
    return FailingCase(model, list(case.samples), case.values)


def fewer_outputs(case: FailingCase) -> Iterator[Proposal]:
    """Keep one output alone, or leave one out."""
    count = len(case.model.graph.outputs)
    if count < 2:
        return
    for kept in range(count):
        yield lambda kept=kept: edited(case, lambda model: _keep_outputs(model, {kept}))
    for dropped in range(count) if count > 2 else ():
        yield lambda dropped=dropped: edited(case, lambda model: _keep_outputs(model, {*range(count)} - {dropped}))


def _keep_outputs(model: ir.Model, kept: set[int]) -> bool:
    outputs = [value for number, value in enumerate(model.graph.outputs) if number in kept]
    model.graph.outputs.clear()
    model.graph.outputs.extend(outputs)
    return True


def no_functions(case: FailingCase) -> Iterator[Proposal]:
    """Replace all function calls by the bodies of the functions."""
    if case.model.functions:
        yield lambda: edited(case, _inline)


def _inline(model: ir.Model) -> bool:
    try:
        return InlineFunctions().call(model).modified
    except OnnxPassesError:
        return False


def no_branches(case: FailingCase) -> Iterator[Proposal]:
    """Replace an If node by one of its branches."""
    for at, node in branching(case.model):
        for name in (name for name in BRANCHES if name in node.attributes):
            yield lambda at=at, name=name: edited(case, lambda model: _hoist(model, at, name))


def _hoist(model: ir.Model, at: int, name: str) -> bool:
    hoisted(model, [(at, name)])
    return True


def constant_branches(case: FailingCase) -> Iterator[Proposal]:
    """Replace the outputs of a branch by constants with the recorded outputs of its If node."""
    for at, node in branching(case.model):
        if all(value.name in case.values for value in node.outputs):
            for name in (name for name in BRANCHES if name in node.attributes):
                if len(node.attributes[name].as_graph()) > len(node.outputs):
                    yield lambda at=at, name=name: edited(case, lambda model: _make_constant(model, at, name, case))


def _make_constant(model: ir.Model, at: int, name: str, case: FailingCase) -> bool:
    node = list(model.graph)[at]
    branch = node.attributes[name].as_graph()
    names = Names.of(model.graph)
    for inner in branch.all_nodes():
        detach(inner)
    constants: list[ir.Node] = []
    for value in node.outputs:
        array = case.values[value.name or ""][0]
        constant = constant_node(tensor_of(array, None))
        constant.outputs[0].name = names.value(f"{value.name}_{name}")
        declare(constant.outputs[0], [array])
        constants.append(constant)
    results = [constant.outputs[0] for constant in constants]
    node.attributes[name] = ir.AttrGraph(name, ir.Graph([], results, nodes=constants, name=branch.name))
    return True


def bypassed_nodes(case: FailingCase) -> Iterator[Proposal]:
    """Take one of its inputs for the result of a node, in subgraphs and functions, too."""
    for at, node in reversed(list(enumerate(_all_nodes(case.model)))):
        for index, value in enumerate(node.inputs):
            if value is not None and value not in node.inputs[:index] and _may_stand_in(value, node, case):
                yield lambda at=at, index=index: edited(case, lambda model: _bypass(model, at, index))


def _may_stand_in(value: ir.Value, node: ir.Node, case: FailingCase) -> bool:
    """Return whether an input may replace a result: types and shapes agree as far as they are known."""
    result, *others = node.outputs
    if any(other.uses() or other.is_graph_output() for other in others):
        return False
    if result.is_graph_output() and (value.producer() is None or value.graph is not result.graph):
        return False
    seen, wanted = case.values.get(value.name or ""), case.values.get(result.name or "")
    if seen is None and value.const_value is not None:
        seen = (value.const_value.numpy(),) * len(case.samples)
    if seen is None or wanted is None:
        return value.dtype is result.dtype or None in (value.dtype, result.dtype)
    return all(a.dtype == b.dtype and a.shape == b.shape for a, b in zip(seen, wanted, strict=True))


def _all_nodes(model: ir.Model) -> list[ir.Node]:
    bodies = (function.all_nodes() for function in model.functions.values())
    return [*model.graph.all_nodes(), *chain.from_iterable(bodies)]


def _bypass(model: ir.Model, at: int, index: int) -> bool:
    node = _all_nodes(model)[at]
    value = node.inputs[index]
    if value is None or replace_value(node.outputs[0], value, Names.of(model.graph)) is not None:
        return False
    remove_if_dead([node])
    return True


def nested_values(case: FailingCase) -> Iterator[Proposal]:
    """Replace the outputs of a node in a subgraph by graph inputs or initializers with their recorded values."""
    for at, node in reversed(list(enumerate(case.model.graph.all_nodes()))):
        known = [value for value in node.outputs if value.uses()]
        if (
            node.graph is not case.model.graph
            and known
            and not any(value.is_graph_output() for value in node.outputs)
            and all(value.name in case.values for value in known)
        ):
            yield lambda at=at: _given_from_outside(case, at)


def _given_from_outside(case: FailingCase, at: int) -> FailingCase | None:
    samples: list[Sample] = [dict(sample) for sample in case.samples]

    def edit(model: ir.Model) -> bool:
        node = list(model.graph.all_nodes())[at]
        depends = varying(model)
        for value in (value for value in node.outputs if value.uses()):
            name, arrays = value.name or "", case.values[value.name or ""]
            outside = ir.Value(name=name, type=value.type, shape=value.shape)
            declare(outside, arrays)
            value.replace_all_uses_with(outside)
            value.name = None
            if value in depends:
                model.graph.inputs.append(outside)
                for sample, array in zip(samples, arrays, strict=True):
                    sample[name] = array
            else:
                outside.const_value = tensor_of(arrays[0], name)
                model.graph.initializers.add(outside)
        remove_if_dead([node])
        return True

    changed = edited(case, edit)
    return changed and FailingCase(changed.model, samples, case.values)


def fewer_attributes(case: FailingCase) -> Iterator[Proposal]:
    """Leave an attribute out, so that it takes its default."""
    for at, node in enumerate(case.model.graph.all_nodes()):
        for name, attribute in node.attributes.items():
            if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) and not is_constant_node(node):
                yield lambda at=at, name=name: edited(case, lambda model: _drop_attribute(model, at, name))


def _drop_attribute(model: ir.Model, at: int, name: str) -> bool:
    return list(model.graph.all_nodes())[at].attributes.pop(name, None) is not None


def fewer_node_inputs(case: FailingCase) -> Iterator[Proposal]:
    """Leave an input of a node out."""
    for at, node in enumerate(case.model.graph.all_nodes()):
        for index in reversed(range(1, len(node.inputs))):
            if node.inputs[index] is not None:
                yield lambda at=at, index=index: edited(case, lambda model: _drop_input(model, at, index))


def _drop_input(model: ir.Model, at: int, index: int) -> bool:
    node = list(model.graph.all_nodes())[at]
    node.replace_input_with(index, None)
    while len(node.inputs) and node.inputs[-1] is None:
        node.resize_inputs(len(node.inputs) - 1)
    return True


def unused_parts(case: FailingCase) -> Iterator[Proposal]:
    """Drop unused inputs, nodes, functions and operator sets, metadata, and declared types of interior values."""
    yield lambda: _without_unused_inputs(case)
    for edit in (_drop_unused, _drop_metadata, _drop_opsets, _drop_value_info):
        yield lambda edit=edit: edited(case, edit)
    yield lambda: edited(case, lambda model: _make_static(model, case))


def _without_unused_inputs(case: FailingCase) -> FailingCase | None:
    unused = {v.name for v in case.model.graph.inputs if not v.uses() and not v.is_graph_output()}
    if not unused:
        return None
    model = copy_model(case.model)
    kept = [value for value in model.graph.inputs if value.name not in unused]
    model.graph.inputs.clear()
    model.graph.inputs.extend(kept)
    RemoveUnusedNodes().call(model)
    samples = [{name: array for name, array in sample.items() if name not in unused} for sample in case.samples]
    return FailingCase(model, samples, case.values)


def _drop_unused(model: ir.Model) -> bool:
    sizes = len(model.graph), len(model.graph.initializers)
    RemoveUnusedNodes().call(model)
    functions = RemoveUnusedFunctions().call(model).modified
    return functions or sizes != (len(model.graph), len(model.graph.initializers))


def _drop_opsets(model: ir.Model) -> bool:
    return RemoveUnusedOpsets().call(model).modified


def _drop_metadata(model: ir.Model) -> bool:
    holders = [model, *model.graphs(), *chain.from_iterable(model.graphs())]
    holders += [value for graph in model.graphs() for value in (*graph.inputs, *graph.initializers.values())]
    holders += [value for graph in model.graphs() for node in graph for value in node.outputs]
    had = [holder for holder in holders if holder.metadata_props or holder.doc_string]
    for holder in had:
        holder.metadata_props.clear()
        holder.doc_string = None
    had_annotations = [h for h in holders if isinstance(h, ir.Value) and h.meta]
    for value in had_annotations:
        value.meta.clear()
    return bool(had or had_annotations)


def _drop_value_info(model: ir.Model) -> bool:
    inside = [v for g in model.graphs() for node in g for v in node.outputs if not v.is_graph_output()]
    had = [value for value in inside if value.type is not None or value.shape is not None]
    for value in had:
        value.type = value.shape = None
    return bool(had)


def _make_static(model: ir.Model, case: FailingCase) -> bool:
    values = [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]
    dynamic = [v for v in values if v.shape is not None and not v.shape.is_static() and v.name in case.values]
    for value in dynamic:
        value.shape = None
        declare(value, case.values[value.name or ""])
    return any(value.shape is not None and value.shape.is_static() for value in dynamic)
