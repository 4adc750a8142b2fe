from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, examples
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.instruments import Instrument
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.wording import attribute_text
from onnx_passes.history.recording import Recording, State

BRANCHES = """
<ir_version: 10, opset_import: ["": 20]>
g (bool c, float[2] x) => (float[2] y)
{
  n = Neg(x)
  m = Neg(n)
  y = If (c) <
    then_branch = then () => (float[2] t) { a = Neg(m) b = Neg(a) t = Exp(b) },
    else_branch = other () => (float[2] e) { s = Identity(m) e = Add(s, s) }
  >
}
"""

FUNCTIONS = """
<ir_version: 10, opset_import: ["": 20, "my": 1]>
g (float[2] x) => (float[2] y) { a = my.Twice(x) b = Identity(a) y = my.Twice(b) }
<domain: "my", opset_import: ["": 20]>
Twice (x) => (y) { n = Neg(x) m = Neg(n) y = Add(m, m) }
"""


def real(model: ir.Model) -> tuple[Counter, Counter]:
    """Describe a model without any code of the recording."""
    nodes, values = Counter(), Counter()
    functions = (function.graph for function in model.functions.values())
    roots = [model.graph, *functions]
    for graph in [*roots, *(graph for root in roots for graph in root.subgraphs())]:
        defined = [*graph.inputs, *(v for v in graph.initializers.values() if not v.is_graph_input())]
        for node in graph:
            plain = [
                a for a in node.attributes.values() if a.is_ref() or a.type.name not in ("GRAPH", "GRAPHS", "TENSOR")
            ]
            nodes[
                node.domain,
                node.op_type,
                node.name or "",
                tuple("" if value is None else value.name for value in node.inputs),
                tuple(value.name for value in node.outputs),
                tuple((a.name, attribute_text(a)) for a in plain),
            ] += 1
            defined += [value for value in node.outputs if value.name]
        for value in defined:
            shape = None if value.shape is None else tuple(value.shape)
            is_constant = value.is_initializer() or (
                value.producer() is not None and value.producer().op_type == "Constant"
            )
            values[value.name, value.dtype, shape, value.is_graph_input(), is_constant] += 1
    return nodes, values


def told(state: State) -> tuple[Counter, Counter]:
    nodes, values = Counter(), Counter()
    for node in state.nodes:
        domain, _, op = node.op.rpartition("::")
        texts = [
            (name, text)
            for (name, text), a in zip(node.texts.items(), node.attributes, strict=True)
            if isinstance(a, ir.Attr)
        ]
        nodes[domain, op, node.name, node.inputs, node.outputs, tuple(texts)] += 1
    for value in state.values:
        said = value.description
        values[said.name, said.type, said.shape, said.kind == "input", said.constant is not None] += 1
    return nodes, values


class Watch(Instrument):
    """Sees the model where the recording does."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[Counter, Counter]] = {}

    def before_pipeline(self, run, model) -> None:
        self.seen[0] = real(model)

    def after_pass(self, record, step, model) -> None:
        self.seen[record.number] = real(model)

    def pass_failed(self, record, step, model, error) -> None:
        self.seen.setdefault(record.number, real(model))


def record(model, pipeline, **options) -> tuple[Recording, Watch]:
    recording, watch = Recording(), Watch()
    try:
        apply(model, pipeline, instruments=[watch, recording], **({"verify": False} | options))
    except OnnxPassesError:
        if not options.get("may_fail"):
            raise
    return recording, watch


def assert_same(recording: Recording, watch: Watch) -> None:
    assert watch.seen
    for step, seen in watch.seen.items():
        nodes, values = told(recording.state(step))
        assert nodes == seen[0], f"nodes after step {step}"
        assert values == seen[1], f"values after step {step}"


class CancelNeg(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return x


class ExpToPow(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Exp(x)

    def rewrite(self, op, x):
        return op.Pow(np.float32(np.e), x)


class Rebuild(Transformation):
    """Builds the model anew, and changes it on the way."""

    @property
    def in_place(self):
        return False

    def call(self, model):
        new = copy_model(model)
        for node in new.graph:
            if node.op_type == "Neg":
                node.op_type = "Abs"
        return PassResult(new, modified=True)


class RenameAll(Transformation):
    """Gives everything another name, without saying so."""

    def call(self, model):
        for graph in (model.graph, *model.graph.subgraphs()):
            for node in graph:
                node.name = f"{node.name}_new"
                for value in node.outputs:
                    value.name = f"{value.name}_new"
        return PassResult(model, modified=True)


@pytest.mark.parametrize(
    "pipeline",
    [
        "simplify",
        [CancelNeg, RenameAll],
        [CancelNeg, ExpToPow, Rebuild, "simplify"],
        [RenameAll, "simplify"],
        [Rebuild, RenameAll],
    ],
)
@pytest.mark.parametrize("text", [BRANCHES, FUNCTIONS])
def test_states_are_the_model_after_every_step(text, pipeline):
    recording, watch = record(ir.from_onnx_text(text), pipeline)
    assert recording.events
    assert_same(recording, watch)


@pytest.mark.parametrize(
    "pipeline", ["simplify", "streamline", "streamline, export-finn", "convert-channels-last, simplify"]
)
@pytest.mark.parametrize("name", ["digits-cnn", "digits-mlp"])
def test_states_of_trained_networks(name, pipeline):
    recording, watch = record(examples.path(name), pipeline)
    assert recording.events
    assert_same(recording, watch)
