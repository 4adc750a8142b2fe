"""Parts of a growing graph in subgraphs: branches, loops, scans, and functions of the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.testing.fuzz.draws import UnbuildableError
from onnx_passes.testing.fuzz.site import Built
from onnx_passes.testing.fuzz.values import Shape
from onnx_passes.testing.fuzz.whole.growth import Growth

Grow = Callable[[], None]
"""Adds something to a graph."""
_DOMAIN = "local"
_MOST_RESULTS = 2
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def nest(growth: Growth, grow: Grow) -> None:
    """Grow a part inside a body, and add the node that holds it. Raises UnbuildableError, without adding anything."""
    how = growth.draws.freely((_branch, _branch, _loop, _loop, _scan, _function))
    nodes = growth.parts.nodes
    with growth.undone():
        try:
            how(growth, grow)
        finally:
            growth.parts.nodes = nodes


class _Body:
    """Nodes that are added while it is open; afterwards their values are not visible."""

    def __init__(self, growth: Growth, grow: Grow, given: Sequence[Built] = ()) -> None:
        outer, mark = growth.parts.nodes, len(growth.pool)
        growth.parts.nodes = []
        growth.pool.extend(given)
        for _ in range(growth.draws.number(1, 3)):
            grow()
        self.nodes, growth.parts.nodes = growth.parts.nodes, outer
        produced = {name for node in self.nodes for name in node.output}
        inside = {name for node in _all_nodes(self.nodes) for name in node.output}
        found = [value for value in growth.pool[mark:] if value.name in produced]
        # New inputs of the model stay visible.
        given_names = {value.name for value in given}
        growth.pool[mark:] = [v for v in growth.pool[mark:] if v.name not in inside and v.name not in given_names]
        if not found:
            raise UnbuildableError("nothing is computed inside")
        self.found = found
        self.results = list({v.name: v for v in (growth.recent(found) for _ in range(_MOST_RESULTS))}.values())

    def require_numbers(self) -> None:
        """Raise UnbuildableError for strings: ONNX Runtime collects captured strings once only."""
        if any(value.dtype is ir.DataType.STRING for value in self.results):
            raise UnbuildableError("texts are collected")

    def flatten(self, growth: Growth) -> None:
        """Flatten the results to rows, the only shape that the reference evaluator stacks."""
        for place, value in enumerate(self.results):
            if len(value.shape) != 1:
                whole, flat = growth.name("c"), growth.name("v")
                shape = onnx.numpy_helper.from_array(np.array([-1]))
                self.nodes.append(onnx.helper.make_node("Constant", [], [whole], value=shape))
                self.nodes.append(onnx.helper.make_node("Reshape", [value.name, whole], [flat]))
                self.results[place] = Built(flat, value.dtype, (math.prod(value.shape),))


def _branch(growth: Growth, grow: Grow) -> None:
    body = _Body(growth, grow)
    names = [growth.name("v") for _ in body.results]
    other: list[onnx.NodeProto] = []
    others: list[str] = []
    for value in body.results:
        others.append(growth.name("v"))
        same = [known for known in growth.pool if (known.dtype, known.shape) == (value.dtype, value.shape)]
        if same:
            other.append(onnx.helper.make_node("Identity", [growth.recent(same).name], [others[-1]]))
        else:
            other.append(onnx.helper.make_node("Constant", [], [others[-1]], value=_zeros(value)))
    branches = [
        _graph(body.nodes, "then", [], body.results),
        _graph(other, "else", [], [Built(n, v.dtype, v.shape) for n, v in zip(others, body.results, strict=True)]),
    ]
    if growth.draws.happens(percent=50):
        branches.reverse()
    attributes = dict(zip(("then_branch", "else_branch"), branches, strict=True))
    conditions = [value for value in growth.pool if (value.dtype, value.shape) == (ir.DataType.BOOL, ())]
    condition = growth.recent(conditions) if conditions else growth.input(ir.DataType.BOOL, ())
    _add(growth, "If", [condition.name], names, [value.shape for value in body.results], body.results, **attributes)


def _loop(growth: Growth, grow: Grow) -> None:
    state = growth.recent()
    inside = Built(growth.name("s"), state.dtype, state.shape)
    body = _Body(growth, grow, [inside])
    body.require_numbers()
    body.flatten(growth)
    again = [value for value in body.found if (value.dtype, value.shape) == (state.dtype, state.shape)]
    on, following = growth.name("go"), growth.name("s")
    nodes = [
        *body.nodes,
        onnx.helper.make_node("Identity", [growth.name("go")], [on]),
        onnx.helper.make_node("Identity", [(growth.recent(again) if again else inside).name], [following]),
    ]
    go = nodes[-2].input[0]
    step = Built(growth.name("step"), ir.DataType.INT64, ())
    inputs = [step, Built(go, ir.DataType.BOOL, ()), inside]
    outputs = [Built(on, ir.DataType.BOOL, ()), Built(following, state.dtype, state.shape), *body.results]
    trips = growth.draws.freely((2, 2, 1, 3))
    # The reference evaluator treats a missing condition as false.
    count, begins = growth.constant(np.array(trips)), growth.constant(np.array(True))
    names = [growth.name("v") for _ in outputs[1:]]
    sizes = [state.shape, *((trips, *value.shape) for value in body.results)]
    graph = _graph(nodes, "body", inputs, outputs)
    _add(growth, "Loop", [count.name, begins.name, state.name], names, sizes, outputs[1:], body=graph)


def _scan(growth: Growth, grow: Grow) -> None:
    rows = growth.recent([value for value in growth.pool if value.shape and 0 < value.shape[0] <= 5])
    inside = Built(growth.name("s"), rows.dtype, rows.shape[1:])
    body = _Body(growth, grow, [inside])
    body.require_numbers()
    names = [growth.name("v") for _ in body.results]
    sizes = [(rows.shape[0], *value.shape) for value in body.results]
    graph = _graph(body.nodes, "body", [inside], body.results)
    _add(growth, "Scan", [rows.name], names, sizes, body.results, body=graph, num_scan_inputs=1)


def _function(growth: Growth, grow: Grow) -> None:
    body = _Body(growth, grow)
    nodes, results = list(body.nodes), list(body.results)
    attributes: list[str] = []
    if results[0].dtype in _FLOATS and growth.draws.happens(percent=50):
        leaky = onnx.helper.make_node("LeakyRelu", [results[0].name], [growth.name("v")])
        leaky.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
        nodes.append(leaky)
        attributes.append("slope")
        results[0] = Built(leaky.output[0], results[0].dtype, results[0].shape)
    name = growth.name("F")
    inputs = list(dict.fromkeys(_reads(nodes)))
    domains = {node.domain for node in _all_nodes(nodes)} - {""}
    imports = [onnx.helper.make_opsetid("", growth.opset), *(onnx.helper.make_opsetid(d, 1) for d in sorted(domains))]
    made = onnx.helper.make_function(_DOMAIN, name, inputs, [v.name for v in results], nodes, imports, attributes)
    growth.functions.append(made)
    given: dict[str, Any] = {"slope": 0.25} if attributes else {}
    names = [growth.name("v") for _ in results]
    _add(growth, name, inputs, names, [value.shape for value in results], results, domain=_DOMAIN, **given)


def _add(
    growth: Growth,
    operator: str,
    inputs: Sequence[str],
    names: Sequence[str],
    sizes: Sequence[Shape],
    like: Sequence[Built],
    *,
    domain: str = "",
    **attributes: Any,
) -> None:
    make = cast(Any, onnx.helper.make_node)
    growth.parts.nodes.append(make(operator, list(inputs), list(names), domain=domain, **attributes))
    for name, size, value in zip(names, sizes, like, strict=True):
        growth.pool.append(Built(name, value.dtype, size))


def _graph(
    nodes: Sequence[onnx.NodeProto], name: str, inputs: Sequence[Built], outputs: Sequence[Built]
) -> onnx.GraphProto:
    infos = [onnx.helper.make_tensor_value_info(v.name, v.dtype.value, v.shape) for v in inputs]
    results = [onnx.helper.make_tensor_value_info(v.name, v.dtype.value, None) for v in outputs]
    return onnx.helper.make_graph(list(nodes), name, infos, results)


def _zeros(value: Built) -> onnx.TensorProto:
    if value.dtype is ir.DataType.STRING:
        return cast(Any, onnx.helper.make_tensor)("", value.dtype.value, value.shape, [b""] * math.prod(value.shape))
    return ir.to_proto(ir.Tensor(np.zeros(value.shape, value.dtype.numpy()), value.dtype))


def _all_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield all nodes, including those in subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _all_nodes(attribute.g.node)


def _reads(nodes: Sequence[onnx.NodeProto]) -> Iterator[str]:
    """Yield the names that nodes read from outside."""
    known: set[str] = set()
    for node in nodes:
        for name in node.input:
            if name and name not in known:
                yield name
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                graph = attribute.g
                local = known | {v.name for v in graph.input} | {t.name for t in graph.initializer}
                yield from (name for name in _reads(graph.node) if name not in local)
        known.update(node.output)
