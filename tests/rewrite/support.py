"""What the tests of the rewrite driver share: models from text, runs in ONNX Runtime, rules in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnx_passes.core.base import Context
from onnx_passes.core.records import Application, RuleRecord
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.rule import Rule

HEADER = '<ir_version: 10, opset_import: ["": 20]>\n'


def parse(text: str, header: str = HEADER) -> ir.Model:
    return ir.from_onnx_text(header + text)


def rule(pattern: Any, replacement: Callable[..., Any], check: Any = None, name: str = "rule", **options: Any) -> Rule:
    return Rule(pattern, replacement, check, name=name, **options)


def operators(graph: ir.Model | ir.Graph | ir.Function) -> list[str]:
    """List the operators of a graph, or of the main graph of a model, in order."""
    return [node.op_type for node in (graph.graph if isinstance(graph, ir.Model) else graph)]


def node_of(model: ir.Model, op_type: str) -> ir.Node:
    """Return the one node of an operator in the main graph."""
    [node] = [node for node in model.graph if node.op_type == op_type]
    return node


def value(model: ir.Model, name: str) -> ir.Value:
    """Return a value by its name, wherever it is."""
    for graph in (model.graph, *model.graph.subgraphs()):
        for candidate in (*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)):
            if candidate.name == name:
                return candidate
    raise KeyError(name)


def subgraph(model: ir.Model, attribute: str) -> ir.Graph:
    """Return the first subgraph that is held under a name."""
    for node in model.graph.all_nodes():
        if attribute in node.attributes:
            return node.attributes[attribute].as_graph()
    raise KeyError(attribute)


def uses(model: ir.Model) -> dict[str, list[tuple[str | None, int]]]:
    """Say who uses each value, by name, counting users that are in no graph."""
    found: dict[str, list[tuple[str | None, int]]] = {}
    for graph in (model.graph, *model.graph.subgraphs()):
        values = (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs))
        for item in values:
            found[str(item.name)] = [(user.node.op_type, user.idx) for user in item.uses()]
    return found


def assert_valid(model: ir.Model) -> None:
    """Let the checker of ONNX look at everything, and at the uses that the IR keeps."""
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    for graph in (model.graph, *model.graph.subgraphs()):
        for node in graph:
            for item in (*node.inputs, *node.outputs):
                assert item is None or all(user.node.graph is not None for user in item.uses()), item.name


def run(model: ir.Model, feeds: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Run a model in ONNX Runtime as it is written; inputs that are not given are small integers."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = dict(feeds or {})
    rng = np.random.default_rng(0)
    for item in model.graph.inputs:
        if item.name not in given and not item.is_initializer():
            shape = [dim if isinstance(dim, int) else 2 for dim in item.shape or ()]
            given[str(item.name)] = rng.integers(-4, 5, size=shape).astype(item.dtype.numpy())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def assert_same_results(before: ir.Model, after: ir.Model, feeds: Mapping[str, np.ndarray] | None = None) -> None:
    """Compare names, types and every bit of the outputs."""
    expected, found = run(before, feeds), run(after, feeds)
    assert list(expected) == list(found)
    for name, array in expected.items():
        assert array.dtype == found[name].dtype, name
        np.testing.assert_array_equal(array, found[name], err_msg=name)


def apply(model: ir.Model, *rules: Rule, **options: Any) -> int:
    """Rewrite a copy-checked model: the result is valid and gives what it gave before."""
    before = ir.from_proto(ir.to_proto(model))
    count = rewrite(model, rules, **options)
    assert_valid(model)
    assert_same_results(before, model)
    return count


class Watch(Context):
    """A context that keeps every application and the statistics."""

    def __init__(self) -> None:
        self.applications: list[Application] = []
        super().__init__(after_rewrite=self.applications.append, next_number=lambda: len(self.applications) + 1)

    @property
    def rules(self) -> dict[str, RuleRecord]:
        return {record.name: record for record in self.record.rules}
