from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import Annotation, PassResult, Transformation, apply, passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.errors import ContractError
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor

TEXT = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y) { n = Neg(x) y = Relu(n) }
"""


class CountingExecutor(Executor):
    """Counts how often a model runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def prepare(self, *args, **kwargs):
        ready = super().prepare(*args, **kwargs)
        run = ready.run

        def counted(*arguments, **keywords):
            self.runs += 1
            return run(*arguments, **keywords)

        ready.run = counted
        return ready


@passes.verify.equality
class LeaveAlone(Transformation):
    def call(self, model):
        return PassResult(model, modified=False)


@passes.verify.equality
class Document(Annotation):
    def call(self, model):
        model.graph.doc_string = "seen"
        return PassResult(model, modified=True)


@passes.verify.equality
class Rename(Transformation):
    def call(self, model):
        next(iter(model.graph)).outputs[0].name = "renamed"
        return PassResult(model, modified=True)


@passes.verify.equality
class LieAndSwap(Transformation):
    """Changes the model and says that it did not."""

    def call(self, model):
        node = next(iter(model.graph))
        node.op_type = "Abs"
        return PassResult(model, modified=False)


@passes.verify.equality
class ScaleInPlace(Transformation):
    """Writes into an array that the model before has, too."""

    def call(self, model):
        model.graph.initializers["w"].const_value.numpy()[:] *= 2
        return PassResult(model, modified=True)


def runs_of(*pipeline: type) -> tuple[int, list[str]]:
    executor = CountingExecutor()
    result = apply(ir.from_onnx_text(TEXT), [pass_() for pass_ in pipeline], verify=Verification(executor=executor))
    return executor.runs, [step.evidence.level for step in result.steps]


def test_what_nobody_changes_is_not_run():
    assert runs_of(LeaveAlone) == (0, ["unchanged"])
    assert runs_of(LeaveAlone, Document) == (0, ["unchanged", "unchanged"])


def test_what_is_changed_runs_before_and_after():
    runs, levels = runs_of(Document, Rename)
    assert runs > 0
    assert runs % 2 == 0
    assert levels == ["bits:sampled", "bits:sampled"]


def test_a_change_that_is_kept_secret_is_found():
    with pytest.raises(PostconditionError, match="not as expected"):
        runs_of(LieAndSwap)


def test_data_of_a_caller_is_run_at_once():
    executor = CountingExecutor()
    data = [{"x": np.ones(2, np.float32)}]
    apply(ir.from_onnx_text(TEXT), LeaveAlone(), verify=Verification(inputs=data, executor=executor))
    assert executor.runs == 1


def test_refuses_weights_that_are_changed_in_place():
    x = ir.val("x", ir.DataType.FLOAT, [512])
    w = ir.Value(name="w", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([512]))
    w.const_value = ir.Tensor(np.ones(512, np.float32), name="w")
    node = ir.node("Mul", [x, w])
    y = node.outputs[0]
    y.name, y.type, y.shape = "y", ir.TensorType(ir.DataType.FLOAT), ir.Shape([512])
    graph = ir.Graph([x], [y], nodes=[node], initializers=[w], opset_imports={"": 20}, name="g")
    with pytest.raises(ContractError, match="writes into a weight of the model"):
        apply(ir.Model(graph, ir_version=10), ScaleInPlace())


@passes.verify.equality
class NameDimensions(Transformation):
    def call(self, model):
        model.graph.inputs[0].shape = ir.Shape(["rows", "columns"])
        model.graph[0].name = "product"
        return PassResult(model, modified=True)


def test_sizes_that_fit_are_found_after_a_pass_has_named_the_dimensions():
    text = """<ir_version: 10, opset_import: ["": 20]>
    g (float[?, ?] x, float[17] w) => (float[a] y) { y = MatMul(x, w) }"""
    model = ir.from_onnx_text(text)
    assert NameDimensions()(model).modified
