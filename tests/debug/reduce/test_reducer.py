from __future__ import annotations

import sys

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes import PassResult, RewriteRulePass, Transformation, passes
from onnx_passes.core.compose import Group
from onnx_passes.core.errors import UsageError
from onnx_passes.core.plan import plan
from onnx_passes.debug.reduce.interesting import fails_by_command, fails_by_pipeline, kind_of_failure, usable_samples
from onnx_passes.debug.reduce.reducer import minimise, reduce
from onnx_passes.debug.reduce.task import reduce as reduce_task
from onnx_passes.debug.reduce.task import reduce_failure
from onnx_passes.graph.constants import constant
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.run.execute import Executor
from tests.helpers.random_models import random_model
from tests.passes.tools import model_of


def haystack(needle: str, *, nodes: int = 40, constants: str = "", declared: str = "float[2,3] z") -> ir.Model:
    """Return a model of unary and binary nodes with side branches, and the needle ``y = …(x)`` in its middle."""
    lines: list[str] = []

    def chain(first: str, last: str, length: int, operators: tuple[str, ...]) -> None:
        for number in range(length):
            source = first if number == 0 else f"{last}_{number - 1}"
            target = last if number == length - 1 else f"{last}_{number}"
            operator = operators[number % len(operators)]
            lines.append(f"{target} = {operator}({source}{', b' if operator == 'Mul' else ''})")

    chain("a", "x", nodes // 4, ("Neg", "Tanh", "Mul", "Abs", "Sigmoid", "Neg"))
    chain("x", "side", nodes // 4, ("Sigmoid", "Mul", "Neg"))
    lines.append(needle)
    chain("y", "z", nodes // 4, ("Neg", "Identity", "Abs"))
    chain("b", "w", nodes // 4, ("Abs", "Tanh"))
    body = "\n".join(lines)
    text = f"""
    <ir_version: 10, opset_import: ["": 20]>
    hay (float[2,3] a, float[2,3] b) => ({declared}, float[2,3] side, float[2,3] w) <{constants}> {{ {body} }}"""
    model = ir.from_onnx_text(text)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


class Spoil(Transformation):
    """Spoils every node that it is made for."""

    def call(self, model: ir.Model) -> PassResult:
        spoilt = [self.spoil(node, model) for node in list(model.graph.all_nodes())]
        return PassResult(model, modified=any(spoilt))

    def spoil(self, node: ir.Node, model: ir.Model) -> bool:
        raise NotImplementedError


class WrongAxis(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Softmax" or "axis" not in node.attributes:
            return False
        node.attributes["axis"] = ir.AttrInt64("axis", 0)
        return True


class DroppedBias(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Gemm" or len(node.inputs) < 3:
            return False
        node.resize_inputs(2)
        return True


class OffByOne(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Slice":
            return False
        for index in (1, 2):
            value = node.inputs[index]
            shifted = ir.Value(
                name=f"{value.name}_shifted",
                const_value=ir.Tensor(constant(value) - 1),
                type=ir.TensorType(ir.DataType.INT64),
                shape=ir.Shape([1]),
            )
            model.graph.initializers.add(shifted)
            node.replace_input_with(index, shifted)
        return True


class WrongInBranches(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Add" or node.graph is model.graph:
            return False
        node.op_type = "Sub"
        return True


class WrongShape(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Flatten":
            return False
        node.attributes["axis"] = ir.AttrInt64("axis", 0)
        for value in (*model.graph.outputs, *node.outputs):
            value.shape = None
        return True


class WrongType(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Cast" or node.attributes["to"].as_int() != ir.DataType.FLOAT.value:
            return False
        node.attributes["to"] = ir.AttrInt64("to", ir.DataType.DOUBLE.value)
        waiting = list(node.outputs)
        while waiting:
            value = waiting.pop()
            value.type = ir.TensorType(ir.DataType.DOUBLE)
            waiting.extend(output for user in value.consumers() for output in user.outputs)
        return True


class WrongForNaN(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Max(x, y)

    def rewrite(self, op, x, y):
        return op.Where(op.Greater(x, y), x, y)


@passes.verify.equality
class WrongSignOfZero(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Add(x, y)

    def check(self, op, x, y):
        zero = constant(y)
        return zero is not None and not zero.any()

    def rewrite(self, op, x, y):
        return op.Identity(x)


class WrongForLarge(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        zero, most = op.Constant(value_float=0.0), op.Constant(value_float=100.0)
        return op.Clip(x, zero, most)


class Crash(Spoil):
    def spoil(self, node, model):
        if node.op_type == "Erf" and node.inputs[0].producer() is not None:
            raise ZeroDivisionError(node.inputs[0].producer().op_type)
        return False


class WrongFold(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Mul" or any(constant(value) is None for value in node.inputs):
            return False
        node.op_type = "Add"
        return True


class MergesTooMuch(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        first, *others = [node for node in model.graph if node.op_type == "LeakyRelu"] or [None]
        for other in others:
            if other.attributes["alpha"].as_float() != first.attributes["alpha"].as_float():
                other.attributes["alpha"] = first.attributes["alpha"]
                return PassResult(model, modified=True)
        return PassResult(model, modified=False)


class ForgetsForks(Spoil):
    def spoil(self, node, model):
        users = node.outputs[0].uses()
        if node.op_type != "Exp" or len(users) < 2:
            return False
        users[1].node.replace_input_with(users[1].idx, node.inputs[0])
        return True


class Unloadable(Spoil):
    def spoil(self, node, model):
        if node.op_type != "Concat":
            return False
        node.attributes["axis"] = ir.AttrInt64("axis", 9)
        return True


IF = """
condition = Greater(total, zero)
y = If (condition) <
    then_branch = then () => (float[2,3] then_out) {
        t1 = Neg(x) t2 = Tanh(t1) t3 = Add(t2, b) t4 = Abs(t3) then_out = Neg(t4) },
    else_branch = otherwise () => (float[2,3] else_out) {
        e1 = Neg(x) e2 = Abs(e1) else_out = Sigmoid(e2) }
>"""
CASES = {
    "axis": (WrongAxis, haystack("y = Softmax <axis = 1> (x)")),
    "bias": (
        DroppedBias,
        haystack(
            "y = Gemm(x, w0, b0)", nodes=80, constants="float[3,3] w0 = {1,0,2,0,1,0,3,0,1}, float[3] b0 = {1,2,3}"
        ),
    ),
    "slice": (
        OffByOne,
        haystack(
            "long = Concat <axis = 1> (x, b) y = Slice(long, starts, ends, axes)",
            constants="int64[1] starts = {1}, int64[1] ends = {4}, int64[1] axes = {1}",
        ),
    ),
    "branch": (
        WrongInBranches,
        haystack(f"total = ReduceMax <keepdims = 0> (x) {IF}", constants="float zero = {-9.0}", nodes=60),
    ),
    "shape": (WrongShape, haystack("y = Flatten <axis = 1> (x)")),
    "type": (
        WrongType,
        haystack("i = Cast <to = 7> (x) y = Cast <to = 1> (i)"),
    ),
    "fold": (
        WrongFold,
        haystack(
            "c1 = Constant <value_floats = [2.0, 4.0, 5.0]> () c3 = Mul(c1, k) c4 = Abs(c3) y = Mul(x, c4)",
            constants="float[3] k = {1, 5, 7}",
            nodes=120,
        ),
    ),
    "merge": (
        MergesTooMuch,
        haystack(
            "p = LeakyRelu <alpha = 0.1> (a) m = Abs(x) k = Neg(m) q = LeakyRelu <alpha = 0.2> (k) y = Add(p, q)",
            nodes=200,
        ),
    ),
    "fork": (ForgetsForks, haystack("e = Exp(x) f = Abs(e) g = Neg(e) y = Add(f, g)")),
    "unloadable": (Unloadable, haystack("c = Concat <axis = 1> (x, b) y = ReduceSum(c)", declared="float[1,1] z")),
}

KINDS = {"shape": "shape differs", "type": "dtype differs", "unloadable": "no longer runs"}


def assert_reduced(pass_, model, samples, *, most: int = 5):
    fails = fails_by_pipeline(pass_)
    result = reduce(model, samples, fails)
    assert result.nodes_before == sum(1 for _ in model.graph.all_nodes())
    assert result.nodes_after <= most, ir.to_onnx_text(result.model)
    again = fails_by_pipeline(pass_).observe(result.model, result.samples)
    assert again is not None
    assert again.symptom == fails.symptom
    onnx.checker.check_model(ir.to_proto(result.model), full_check=True)
    ready = Executor().prepare(result.model)
    for sample in result.samples:
        ready.run(sample)
    return result, again.symptom


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_pass_is_reduced_to_a_few_nodes(name):
    pass_, model = CASES[name]
    result, symptom = assert_reduced(pass_(), model, usable_samples(model))
    assert len(result.samples) == 1
    assert symptom.kind == KINDS.get(name, "values differ")


def test_data_are_reduced_to_small_numbers():
    pass_, model = CASES["bias"]
    result, _ = assert_reduced(pass_(), model, usable_samples(model), most=1)
    assert {tuple(value.shape) for value in result.model.graph.initializers.values()} <= {(1,), (1, 1), ()}
    numbers = {float(number) for sample in result.samples for array in sample.values() for number in array.flat}
    assert numbers <= {0.0, 1.0}


def test_a_difference_in_nan_stays_one():
    model = haystack("c = Abs(a) y = Max(b, c)")
    samples = usable_samples(model)
    samples[1]["b"] = np.array([[1, np.nan, 2], [3, 4, 5]], np.float32)
    result, symptom = assert_reduced(WrongForNaN(), model, samples)
    assert symptom.kind == "NaN differs"
    assert result.nodes_after == 1
    assert any(np.isnan(array).any() for array in result.samples[0].values())


def test_a_difference_in_the_sign_of_zero_stays_one():
    model = haystack("n = Neg(b) y = Add(n, nothing)", constants="float nothing = {0.0}")
    samples = [{"a": np.ones((2, 3), np.float32), "b": np.array([[1, 2, 0], [3, 4, 5]], np.float32)}]
    _, symptom = assert_reduced(WrongSignOfZero(), model, samples, most=2)
    assert symptom.kind == "signed zeros differ"
    assert symptom.rule == "WrongSignOfZero"


def test_the_one_sample_that_fails_is_found():
    model = haystack("s = Mul(a, b) y = Relu(s)")
    samples = [{"a": np.full((2, 3), i, np.float32), "b": np.ones((2, 3), np.float32)} for i in range(12)]
    samples[10]["a"][1, 2] = 400.0
    result, _ = assert_reduced(WrongForLarge(), model, samples, most=2)
    assert len(result.samples) == 1
    assert max(array.max() for array in result.samples[0].values()) > 100


def test_a_crash_keeps_its_exception():
    model = haystack("e = Tanh(x) y = Erf(e)")
    _, symptom = assert_reduced(Crash(), model, usable_samples(model), most=2)
    assert symptom.kind == "ZeroDivisionError raised"


def test_a_crash_on_a_model_that_cannot_run_is_reduced_without_data():
    model = ir.from_onnx_text(
        """
        <ir_version: 10, opset_import: ["": 20, "custom": 1]>
        odd (float[2] a) => (float[2] z) <float[2] m, float[2] n, float[2] o, float[2] p, float[2] q> {
            m = custom.Unknown(a) n = Neg(m) o = Tanh(n) p = Erf(o) q = Abs(p) z = Neg(q) }"""
    )
    assert usable_samples(model) == []
    result = reduce(model, [], fails_by_pipeline(Crash()))
    assert [node.op_type for node in result.model.graph] == ["Tanh", "Erf"]
    assert result.samples == []


def test_constants_stay_constants():
    pass_, model = CASES["fold"]
    result, _ = assert_reduced(pass_(), model, usable_samples(model), most=1)
    assert [node.op_type for node in result.model.graph] == ["Mul"]
    assert not result.model.graph.inputs


def test_branches_are_left_when_they_do_not_matter():
    model = haystack(
        f"total = ReduceMax <keepdims = 0> (x) {IF.replace('Neg(x)', 'Softmax(x)', 1)}", constants="float zero = {-9.0}"
    )

    class AnySoftmax(Spoil):
        def spoil(self, node, model):
            if node.op_type != "Softmax":
                return False
            node.op_type = "LogSoftmax"
            return True

    result, _ = assert_reduced(AnySoftmax(), model, usable_samples(model), most=1)
    assert [node.op_type for node in result.model.graph] == ["Softmax"]


def test_functions_are_inlined_when_they_do_not_matter():
    model = ir.from_onnx_text(
        """
        <ir_version: 10, opset_import: ["": 20, "local": 1]>
        call (float[2,3] a) => (float[2,3] z) { x = Neg(a) y = local.f(x) z = Abs(y) }
        <domain: "local", opset_import: ["": 20]>
        f (x) => (y) { s = Softmax <axis = 1> (x) t = Neg(s) y = Tanh(t) }"""
    )

    class EverywhereWrong(Spoil):
        def call(self, model):
            graphs = [model.graph, *(function.graph for function in model.functions.values())]
            found = [node for graph in graphs for node in graph if node.op_type == "Softmax"]
            for node in found:
                node.attributes["axis"] = ir.AttrInt64("axis", 0)
            return PassResult(model, modified=bool(found))

    fails = fails_by_pipeline(EverywhereWrong())
    result = reduce(model, usable_samples(model), fails)
    assert not result.model.functions
    assert [node.op_type for node in result.model.graph] == ["Softmax"]


def test_functions_are_reduced_where_they_matter():
    body = " ".join(f"x{i + 1} = {('Neg', 'Tanh')[i % 2]}(x{i})" for i in range(10))
    model = ir.from_onnx_text(
        f"""
        <ir_version: 10, opset_import: ["": 20, "local": 1]>
        call (float[2,3] a) => (float[2,3] z) {{ x = Neg(a) y = local.f(x) z = Abs(y) }}
        <domain: "local", opset_import: ["": 20]>
        f (x0) => (y) {{ {body} s = Softmax(x10) t = Neg(s) y = Tanh(t) }}"""
    )

    class OnlyInFunctions(Transformation):
        def call(self, model):
            found = [n for function in model.functions.values() for n in function if n.op_type == "Softmax"]
            for node in found:
                node.op_type = "LogSoftmax"
            return PassResult(model, modified=bool(found))

    result = reduce(model, usable_samples(model), fails_by_pipeline(OnlyInFunctions()))
    assert result.nodes_before == 16
    assert result.nodes_after <= 3
    assert [function.name for function in result.model.functions.values()] == ["f"]


def test_dynamic_dimensions_survive_where_they_matter():
    class OnlyDynamic(Spoil):
        def spoil(self, node, model):
            shape = node.inputs[0].shape
            if node.op_type != "Neg" or shape is None or shape.is_static():
                return False
            node.op_type = "Identity"
            return True

    lines = " ".join(f"x{i + 1} = Tanh(x{i})" for i in range(20))
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 20]> dynamic (float[N,4] x0) => (float[N,4] z)
        <float[N,4] x20> {{ {lines} y = Neg(x20) z = Tanh(y) }}"""
    )
    result = reduce(model, usable_samples(model), fails_by_pipeline(OnlyDynamic()))
    assert [node.op_type for node in result.model.graph] == ["Neg"]
    assert not result.model.graph.inputs[0].shape.is_static()


def test_a_default_that_can_be_overridden_stays_one():
    lines = " ".join(f"x{i + 1} = Tanh(x{i})" for i in range(20))
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 20]>
        defaults (float[2] x0, float[2] weight = {{1.0, 2.0}}) => (float[2] z)
        {{ {lines} y = Mul(x20, weight) z = Tanh(y) }}"""
    )

    class TakesDefaultForConstant(Spoil):
        def spoil(self, node, model):
            if node.op_type != "Mul" or node.inputs[1].const_value is None or not node.inputs[1].is_graph_input():
                return False
            node.op_type = "Add"
            return True

    result = reduce(model, usable_samples(model), fails_by_pipeline(TakesDefaultForConstant()))
    assert [node.op_type for node in result.model.graph] == ["Mul"]
    assert "weight" in result.model.graph.initializers
    assert "weight" in [value.name for value in result.model.graph.inputs]


def test_types_that_numpy_does_not_know_are_kept():
    lines = " ".join(f"x{i + 1} = Neg(x{i})" for i in range(20))
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 20]> brain (bfloat16[3] x0) => (float[3] z)
        {{ {lines} y = Neg(x20) z = Cast <to = 1> (y) }}"""
    )

    class LastNeg(Spoil):
        def spoil(self, node, model):
            if node.op_type != "Neg" or node.outputs[0].uses()[0].node.op_type != "Cast":
                return False
            node.op_type = "Identity"
            return True

    samples = usable_samples(model)
    result = reduce(model, samples, fails_by_pipeline(LastNeg()))
    assert result.nodes_after <= 3


def test_a_pipeline_is_reduced_to_the_pass_that_fails():
    pass_, model = CASES["axis"]
    group = Group(label="group", body=("cleanup", pass_(), "cleanup"))
    for pipeline in (["cleanup", pass_(), "cleanup"], group):
        failure = reduce_failure(fails_by_pipeline(plan(pipeline)), model, usable_samples(model))
        assert failure.pipeline == "wrong-axis"
        assert failure.reduction.nodes_after == 1
        assert failure.symptom.kind == "values differ"


def test_the_model_is_taken_as_it_was_before_the_pass_that_fails():
    class Hides(Spoil):
        def spoil(self, node, model):
            if node.op_type != "Erf" or node.name == "hidden":
                return False
            node.name = "hidden"
            return True

    class BreaksHidden(Spoil):
        def spoil(self, node, model):
            if node.name != "hidden" or node.op_type != "Erf" or "hidden" in model.metadata_props:
                return False
            node.op_type = "Tanh"
            return True

    class Shows(Spoil):
        def call(self, model):
            model.metadata_props["hidden"] = "yes"
            return PassResult(model, modified=True)

    model = haystack("y = Erf(x)")
    failure = reduce_failure(
        fails_by_pipeline(plan(["cleanup", Hides(), BreaksHidden(), Shows()])), model, usable_samples(model)
    )
    assert failure.pipeline == "breaks-hidden"
    assert [node.name for node in failure.reduction.model.graph] == ["hidden"]


def test_nothing_to_reduce_is_said():
    model = haystack("y = Erf(x)")
    with pytest.raises(UsageError, match="no failure to reduce"):
        reduce(model, usable_samples(model), fails_by_pipeline(WrongAxis()))
    with pytest.raises(UsageError, match="'wrong-axis' does not fail"):
        reduce_failure(fails_by_pipeline(plan(WrongAxis())), model, usable_samples(model))


def test_any_predicate_will_do_and_sees_only_valid_models():
    model = haystack("y = Erf(x)")
    before = ir.to_proto(model).SerializeToString()
    seen = []

    def has_erf_after_tanh(candidate, samples):
        onnx.checker.check_model(ir.to_proto(candidate), full_check=True)
        Executor().prepare(candidate).run(samples[0])
        seen.append(candidate)
        return any(node.op_type == "Erf" for node in candidate.graph)

    result = reduce(model, usable_samples(model), has_erf_after_tanh)
    assert [node.op_type for node in result.model.graph] == ["Erf"]
    assert result.tests >= len(seen) > 1
    assert ir.to_proto(model).SerializeToString() == before


def test_time_is_limited():
    pass_, model = CASES["axis"]
    result = reduce(model, usable_samples(model), fails_by_pipeline(pass_()), most_seconds=0)
    assert result.nodes_after == result.nodes_before
    assert result.tests == 1


def test_a_command_decides(tmp_path):
    model = haystack("y = Erf(x)")
    script = tmp_path / "check.py"
    script.write_text(
        "import sys, onnx, numpy\n"
        "numpy.load(sys.argv[1].replace('model.onnx', 'inputs-0.npz'))\n"
        "sys.exit(7 if any(n.op_type == 'Erf' for n in onnx.load(sys.argv[1]).graph.node) else 0)\n"
    )
    samples = usable_samples(model)[:1]
    assert fails_by_command(f"{sys.executable} {script} {{}}")(model, samples)
    assert not fails_by_command(f"{sys.executable} {script}")(haystack("y = Exp(x)"), samples)
    assert not fails_by_command("sleep 5; false", timeout=0.1)(model, samples)


@given(seed=st.integers(0, 10_000), nodes=st.integers(10, 60), fault=st.sampled_from(["Add", "Mul", "Tanh", "Concat"]))
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_is_reduced_still_fails_and_is_valid(seed, nodes, fault):
    replacement = {"Add": "Sub", "Mul": "Add", "Tanh": "Sigmoid", "Concat": "Concat"}

    class Planted(Spoil):
        def spoil(self, node, model):
            if node.op_type != fault:
                return False
            node.op_type = replacement[fault]
            if fault == "Concat":
                swapped = list(reversed(node.inputs))
                for index, value in enumerate(swapped):
                    node.replace_input_with(index, value)
            return True

    model = random_model(seed, nodes=nodes)
    samples = usable_samples(model)
    if not samples or fails_by_pipeline(Planted()).observe(model, samples) is None:
        return
    assert_reduced(Planted(), model, samples)


@pytest.mark.parametrize(
    ("expected", "found", "kind"),
    [
        ([1, 2, 3], [1, 2, 4], "values differ"),
        ([1, np.nan, 3], [1, 2, 3], "NaN differs"),
        ([1, np.inf, 3], [1, 2, 3], "infinities differ"),
        ([1, np.inf, 3], [1, 2, 4], "values differ"),
        ([0.0, 1, 2], [-0.0, 1, 2], "signed zeros differ"),
        ([1, 2, 3], [1, 2], "shape differs"),
    ],
)
def test_kinds_are_told_from_what_reports_say(expected, found, kind):
    result = compare({"z": np.array(expected, np.float32)}, {"z": np.array(found, np.float32)})
    assert kind_of_failure("equality", result.first.message()) == kind


@given(needed=st.sets(st.integers(0, 99), min_size=1, max_size=4))
def test_minimising_keeps_exactly_what_is_needed(needed):
    tests = 0

    def holds(items):
        nonlocal tests
        tests += 1
        return needed <= set(items)

    assert set(minimise(list(range(100)), holds)) == needed
    assert tests <= 250


def test_a_fault_that_only_nan_shows_is_reduced() -> None:
    @passes.verify.equality
    class LosesNan(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Neg(x)

        def rewrite(self, op, x):
            zero, one = np.zeros((), np.float32), np.full((), -1, np.float32)
            return op.Where(op.IsNaN(x), zero, op.Mul(x, one))

    text = "g (float[4] x) => (float[4] z) { a = Neg(x) b = Abs(a) z = Sigmoid(b) }"
    found = reduce_task(model_of(text), [LosesNan()])
    assert any(np.isnan(array).any() for sample in found.samples for array in sample.values())
    assert found.reduction.nodes_after == 1
