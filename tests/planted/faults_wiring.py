"""Passes that break the wiring, or the contract of their kind."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import (
    Analysis,
    Annotation,
    PassResult,
    Transformation,
    passes,
)
from tests.planted.faults_interface import HOST
from tests.planted.planting import Fault, edit, node, swap_inputs


@edit
def names_two_values_alike(model):
    node(model, "Abs").outputs[0].name = "t"


@edit
def names_a_value_like_an_input(model):
    node(model, "Abs").outputs[0].name = "b"


@edit
def forgets_a_name(model):
    node(model, "Abs").outputs[0].name = None


@edit
def closes_a_cycle(model):
    node(model, "Add").replace_input_with(1, node(model, "Sub").outputs[0])


@edit
def leaves_a_value_dangling(model):
    model.graph.remove(node(model, "Abs"))


@edit
def reads_what_nobody_makes(model):
    node(model, "Mul").replace_input_with(1, ir.Value(name="nowhere", type=ir.TensorType(ir.DataType.FLOAT)))


@edit
def drops_an_initializer(model):
    del model.graph.initializers["bias"]


@edit
def invents_an_operator(model):
    node(model, "Abs").op_type = "Magnitude"


@passes.verify.equality
class SaysNothingOfIt(Transformation):
    """Change results and report no change."""

    def call(self, model: ir.Model) -> PassResult:
        swap_inputs(node(model, "Sub"))
        return PassResult(model, modified=False)


class AnnotatesValues(Annotation):
    """Change a constant in a pass that may only annotate."""

    def call(self, model: ir.Model) -> PassResult:
        model.graph.initializers["one"].const_value = ir.Tensor(np.array(2, np.float32), name="one")
        return PassResult(model, modified=True)


class LooksTooClosely(Analysis):
    """Change the model in a pass that may only look."""

    def analyze(self, model: ir.Model) -> int:
        swap_inputs(node(model, "Sub"))
        return 0


class LeavesANote(Analysis):
    """Leave a remark, which changes no result, in a pass that may only look."""

    def analyze(self, model: ir.Model) -> int:
        model.graph.doc_string = "seen"
        return 0


@passes.verify.tolerance(rtol=1e-4, atol=0)
class Drifts(Transformation):
    """Scale the result by a little, every time."""

    def call(self, model: ir.Model) -> PassResult:
        factor = ir.node("Constant", [], {"value": ir.Tensor(np.array(1 + 2e-5, np.float32))})
        factor.outputs[0].name = f"factor{len(list(model.graph))}"
        model.graph.append(factor)
        product = ir.node("Mul", [model.graph.outputs[1], factor.outputs[0]])
        old = model.graph.outputs[1]
        model.graph.append(product)
        old.name, product.outputs[0].name = f"before{len(list(model.graph))}", "z"
        product.outputs[0].type, product.outputs[0].shape = old.type, old.shape
        model.graph.outputs[1] = product.outputs[0]
        return PassResult(model, modified=True)


FAULTS = [
    Fault("names two values alike", names_two_values_alike, HOST, "wiring"),
    Fault("names a value like an input", names_a_value_like_an_input, HOST, "wiring"),
    Fault("forgets a name", forgets_a_name, HOST, "wiring"),
    Fault("closes a cycle", closes_a_cycle, HOST, "wiring"),
    Fault("leaves a value dangling", leaves_a_value_dangling, HOST, "wiring"),
    Fault("reads what nobody makes", reads_what_nobody_makes, HOST, "wiring"),
    Fault("drops an initializer", drops_an_initializer, HOST, "wiring"),
    Fault("invents an operator", invents_an_operator, HOST, "wiring"),
    Fault("says that nothing changed", SaysNothingOfIt, HOST, "contract"),
    Fault("annotates values", AnnotatesValues, HOST, "contract"),
    Fault("looks too closely", LooksTooClosely, HOST, "contract"),
    Fault("leaves a note", LeavesANote, HOST, "contract", seen_by="contracts"),
    Fault("drifts", Drifts, HOST, "drift", times=12),
]
