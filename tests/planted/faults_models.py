"""Passes that go wrong in unusual places: branches, functions, shared weights, dynamic sizes, rare data."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import PassResult, RewriteRulePass, Transformation, passes
from tests.planted.faults_floats import BelievesInSelfEquality, SubtractsToNothing
from tests.planted.planting import Fault, edit, node, rows, swap_inputs, text

BRANCHES = text(
    "float[4] x, bool which",
    "float[4] y",
    """
    a = Neg(x) b = Abs(a) c = Add(b, one)
    d = If (which) <
        then_branch = yes () => (float[4] t) { t0 = Sub(c, x) t1 = Mul(t0, c) t = Neg(t1) },
        else_branch = no () => (float[4] e) { e0 = Div(c, x) e1 = Mul(e0, e0) e = Abs(e1) }
    >
    y = Sub(d, x)
    """,
    initializers="float one = {1.0}",
)
FUNCTION = text(
    "float[4] x",
    "float[4] y",
    "a = Neg(x) b = Abs(a) c = local.part(a, b) d = Add(c, x) e = local.part(d, a) f = Neg(e) g = Abs(f) y = Sub(g, x)",
    domains='"local": 1',
    functions='<domain: "local", opset_import: ["": 20]> part (v, w) => (r) { s = Sub(v, w) t = Mul(s, v) r = Neg(t) }',
)
LARGE = text(
    "float[2,40] x",
    "float[2,40] y, float[2,40] z",
    """
    size = Constant<value_ints = [40, 40]>() half = ConstantOfShape<value = float[1] {0.5}>(size)
    a = Neg(x) b = MatMul(a, half) c = Relu(b) d = MatMul(c, half) y = Abs(d)
    e = Add(d, x) f = MatMul(e, half) g = Tanh(f) z = Neg(g)
    """,
)
DYNAMIC = text(
    "float[N,M] x",
    "float[] y",
    """
    a = Neg(x) s = Shape(a) n = Gather(s, zero) m = Gather(s, one)
    all = Mul(n, m) flat = Reshape(a, all) b = Abs(flat) swapped = Concat<axis=0>(m, n)
    c = Reshape(b, swapped) y = Neg(c)
    """,
    initializers="int64[1] zero = {0}, int64[1] one = {1}",
)
OVERRIDABLE = text(
    "float[3] x, float scale",
    "float[3] y",
    "a = Neg(x) b = Abs(a) c = Mul(b, scale) d = Add(c, x) e = Mul(d, scale) f = Relu(e) g = Neg(f) y = Sub(g, x)",
    initializers="float scale = {1.0}",
)
LOOKUP = text(
    "float[5,2] x, int64[3] i",
    "float[3,2] y",
    "a = Neg(x) b = Abs(a) c = Gather<axis=0>(b, i) d = Add(c, one) e = Mul(d, d) f = Sqrt(e) g = Neg(f) y = Abs(g)",
    initializers="float one = {1.0}",
)
MIXED = text(
    "float[3,3] x, float[3,3] z, int64[3] i",
    "float[] y",
    """
    a = Neg(x) b = Concat<axis=0>(a, z) c = MatMul(b, x) d = Gather<axis=1>(c, i)
    e = Softmax<axis=0>(d) f = Sub(e, c) g = ReduceSum<keepdims=1>(f, axes) y = Mul(g, f)
    """,
    initializers="int64[1] axes = {1}",
)
SQUARE = MIXED.replace("Concat<axis=0>(a, z)", "Add(a, z)")


@edit
def swaps_in_else_branch(model):
    swap_inputs(node(model, "If").attributes["else_branch"].as_graph()[0])


@edit
def swaps_in_then_branch(model):
    swap_inputs(node(model, "If").attributes["then_branch"].as_graph()[0])


@edit
def swaps_in_function(model):
    swap_inputs(next(iter(model.functions.values()))[0])


@edit
def swaps_arguments_of_function(model):
    swap_inputs([node for node in model.graph if node.domain == "local"][-1])


def fold(model: ir.Model, array: np.ndarray) -> ir.Value:
    """Replace the large constant by an initializer."""
    old = node(model, "ConstantOfShape").outputs[0]
    value = ir.Value(
        name="folded", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(array.shape), const_value=ir.Tensor(array)
    )
    model.graph.register_initializer(value)
    old.replace_all_uses_with(value)
    model.graph.remove(old.producer(), safe=True)
    return value


@edit
def folds_one_element_wrongly(model):
    array = np.full((40, 40), 0.5, np.float32)
    array[23, 17] = 0.5 + 2**-12
    fold(model, array)


@passes.verify.equality
class ChangesSharedWeightsInPlace(Transformation):
    """Fold a constant rightly the first time, and scale it where it lies, for all who share it, the second."""

    def call(self, model: ir.Model) -> PassResult:
        held = model.graph.initializers.get("folded")
        if held is None:
            fold(model, np.full((40, 40), 0.5, np.float32))
        else:
            held.const_value.numpy()[:] *= 2
        return PassResult(model, modified=True)


@edit
def mixes_up_dynamic_sizes(model):
    first, second = [n for n in model.graph if n.op_type == "Gather"]
    first.outputs[0].replace_all_uses_with(second.outputs[0])


@passes.verify.equality
class RemovesOnesThatAreDefaults(Transformation, RewriteRulePass):
    """Take the default of an input for a constant."""

    def pattern(self, op, x, factor):
        return op.Mul(x, factor)

    def check(self, op, x, factor):
        held = factor.const_value
        return held is not None and held.numpy().ndim == 0 and held.numpy() == 1

    def rewrite(self, op, x, factor):
        return op.Identity(x)


@passes.verify.equality
class GathersByComparison(Transformation, RewriteRulePass):
    """Look up with a product of a mask; what counts from the end is never found."""

    def pattern(self, op, x, i):
        return op.Gather(x, i, axis=0)

    def check(self, op, x, i):
        return i.is_graph_input()

    def rewrite(self, op, x, i):
        return op.Gather(x, op.Max(i, 0), axis=0)


def exchange(op_type: str):
    def swap(model):
        swap_inputs(node(model, op_type))

    swap.__name__ = f"exchanges_inputs_of_{op_type}"
    return edit(swap)


def reattribute(op_type: str, key: str, value: int | None):
    def change(model):
        found = node(model, op_type)
        if value is None:
            del found.attributes[key]
        else:
            found.attributes[key] = ir.AttrInt64(key, value)

    change.__name__ = f"sets_{key}_of_{op_type}"
    return edit(change)


@edit
def reads_an_older_standard(model):
    model.graph.opset_imports[""] = 12


@edit
def truncates_weights(model):
    for value in model.graph.initializers.values():
        array = value.const_value.numpy()
        value.const_value = ir.Tensor(array.astype(np.float16).astype(np.float32), name=value.name)


OLD = text(
    "float[2,3,4] x",
    "float[2,3,4] y",
    "a = Neg(x) b = Abs(a) c = Add(b, x) d = Softmax<axis=1>(c) e = Mul(d, x) f = Neg(e) g = Abs(f) y = Sub(g, x)",
    opset=13,
)
WEIGHTS = text(
    "float[2,3] x",
    "float[2,3] y",
    "a = Neg(x) b = Mul(a, w) c = Add(b, x) d = Relu(c) e = Mul(d, w) f = Neg(e) g = Abs(f) y = Sub(g, x)",
    initializers="float[3] w = {0.1, 0.7, 3.3}",
)
SPECIAL = ({"x": np.array([1, -2, np.nan, np.inf, 0, -np.inf], np.float32)},)

FAULTS = [
    Fault("wrong in the branch taken seldom", swaps_in_else_branch, BRANCHES, "subgraph"),
    Fault("wrong in the other branch", swaps_in_then_branch, BRANCHES, "subgraph"),
    Fault("wrong in a function body", swaps_in_function, FUNCTION, "function"),
    Fault("wrong in a call", swaps_arguments_of_function, FUNCTION, "function"),
    Fault("folds one element of many wrongly", folds_one_element_wrongly, LARGE, "constant folding"),
    Fault("changes shared weights in place", ChangesSharedWeightsInPlace, LARGE, "weights", times=2, seen_by="writing"),
    Fault("mixes up dynamic sizes", mixes_up_dynamic_sizes, DYNAMIC, "dynamic sizes"),
    Fault("swaps inputs of MatMul", exchange("MatMul"), SQUARE, "swapped inputs"),
    Fault("swaps inputs of Concat", exchange("Concat"), MIXED, "swapped inputs"),
    Fault("Concat along another axis", reattribute("Concat", "axis", 1), MIXED, "axes"),
    Fault("Softmax along another axis", reattribute("Softmax", "axis", 1), SQUARE, "axes"),
    Fault("Softmax along the default axis", reattribute("Softmax", "axis", None), SQUARE, "axes"),
    Fault("Gather along another axis", reattribute("Gather", "axis", 0), SQUARE, "axes"),
    Fault("keepdims lost, hidden by broadcasting", reattribute("ReduceSum", "keepdims", 0), SQUARE, "broadcast"),
    Fault("weights through half precision", truncates_weights, WEIGHTS, "weights"),
    Fault("reads an older standard", reads_an_older_standard, OLD, "opset"),
    Fault(
        "default of an input taken for a constant",
        RemovesOnesThatAreDefaults,
        OVERRIDABLE,
        "overridable",
        samples=({"x": np.array([1, 2, 3], np.float32), "scale": np.array(2, np.float32)},),
    ),
    Fault(
        "NaN given equals itself",
        BelievesInSelfEquality,
        rows("float[6] x", "a@ = Neg(x) b@ = Equal(a@, a@) y@ = Not(b@)", count=3, result="bool[] y@"),
        "NaN",
        samples=SPECIAL,
    ),
    Fault(
        "infinity given minus itself",
        SubtractsToNothing,
        rows("float[6] x", "a@ = Neg(x) b@ = Sub(a@, a@) y@ = Add(b@, x)", count=3),
        "infinity",
        samples=SPECIAL,
    ),
    Fault(
        "index given from the end",
        GathersByComparison,
        LOOKUP,
        "indices",
        samples=({"x": np.arange(10, dtype=np.float32).reshape(5, 2), "i": np.array([0, -1, 2])},),
    ),
]
