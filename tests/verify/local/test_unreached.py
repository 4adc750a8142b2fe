"""What no sample reaches is run alone; where that is impossible, a step that changed it is not called verified."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verification import Verification
from onnx_passes.passes.convert.convert_float16 import ConvertFloat16
from onnx_passes.report.tables import evidence_text
from onnx_passes.verify.failure import PostconditionError, VerificationError
from tests.planted.planting import text


@passes.verify.equality
class TakesRootsOfSquares(Transformation, RewriteRulePass):
    """Take sqrt(x * x) for x; wrong for negative values."""

    functions = True

    def pattern(self, op, x):
        return op.Sqrt(op.Mul(x, x))

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.equality
class DropsIdentities(Transformation, RewriteRulePass):
    """Take away what does nothing."""

    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return op.Identity(x)


def branches(taken: str, other: str, *, inputs: str = "float[8] x", flag: str = "never") -> str:
    """Write a model with an If, of which the inputs always take the same branch."""
    return text(
        inputs,
        "float[] y",
        f"""
        one = Constant<value = float {{1.0}}>() size = Abs(x) big = Add(size, one) least = ReduceMin<keepdims=0>(big)
        zero = Constant<value = float {{0.0}}>() never = Less(least, zero) always = Not(never)
        y = If ({flag}) <
            then_branch = yes () => (float[] t) {{ {other} }},
            else_branch = no () => (float[] e) {{ {taken} }}
        >
        """,
    )


WRONG = "t0 = Neg(size) t1 = Mul(t0, t0) t = Sqrt(t1)"
SAME = "e = Neg(x)"
LOOP = text(
    "float[8] x",
    "float[] y",
    """
    times = Constant<value = int64 {0}>() size = Abs(x) less = Neg(size)
    y = Loop (times, , less) <
        body = step (int64 i, bool c, float[8] v) => (bool d, float[8] w) {
            d = Identity(c) s = Mul(v, v) r = Sqrt(s) w = Add(r, size)
        }
    >
    """,
)
SEQUENCE = text(
    "float[8] x",
    "float[] y",
    """
    times = Constant<value = int64 {0}>() less = Neg(x) parts = SequenceConstruct(x)
    all = Loop (times, , parts) <
        body = step (int64 i, bool c, seq(float[8]) v) => (bool d, seq(float[8]) w) {
            d = Identity(c) s = Mul(less, less) r = Sqrt(s) w = SequenceInsert(v, r)
        }
    >
    y = ConcatFromSequence <axis = 0> (all)
    """,
)
SCAN = text(
    "float[3,8] x, float[8] start",
    "float[8] y, float[] z",
    """
    y, z = Scan (start, x) <num_scan_inputs = 1,
        body = step (float[8] v, float[8] row) => (float[8] w, float[8] out) {
            none = Constant<value = float {-1.0}>() size = Abs(row) least = ReduceMin<keepdims=0>(size)
            never = Less(least, none) w = Add(row, v)
            out = If (never) <
                then_branch = yes () => (float[8] t) { t0 = Mul(row, row) t = Sqrt(t0) },
                else_branch = no () => (float[8] e) { e = Neg(v) }
            >
        }
    >
    """,
)
NESTED = text(
    "float[8] x",
    "float[] y",
    """
    times = Constant<value = int64 {2}>() size = Abs(x)
    y = Loop (times, , x) <
        body = step (int64 i, bool c, float[8] v) => (bool d, float[8] w) {
            d = Identity(c) none = Constant<value = int64 {-1}>() never = Less(i, none) less = Neg(size)
            w = If (never) <
                then_branch = yes () => (float[8] t) { t0 = Mul(less, less) t1 = Sqrt(t0) t = Add(t1, v) },
                else_branch = no () => (float[8] e) { e = Neg(v) }
            >
        }
    >
    """,
)
IN_A_FUNCTION = text(
    "float[8] x",
    "float[8] y",
    "a = Neg(x) y = local.f(a)",
    domains='"local": 1',
    functions="""<domain: "local", opset_import: ["": 20]> f (v) => (n)
    {
        size = Abs(v) least = ReduceMin<keepdims=0>(size) none = Constant<value = float {-1.0}>()
        never = Less(least, none)
        n = If (never) <then_branch = yes () => (t) { t0 = Mul(v, v) t = Sqrt(t0) },
                        else_branch = no () => (e) { e = Neg(v) }>
    }""",
)


@pytest.mark.parametrize(
    "model",
    [
        branches(SAME, WRONG),
        branches("e0 = Mul(x, x) e = Sqrt(e0)", "t = Neg(x)", flag="always"),
        LOOP,
        SEQUENCE,
        SCAN,
        NESTED,
        IN_A_FUNCTION,
    ],
    ids=["then", "else", "loop", "sequence", "scan", "nested", "function"],
)
def test_fault_where_no_sample_came_is_caught(model):
    with pytest.raises(PostconditionError) as caught:
        apply(ir.from_onnx_text(model), TakesRootsOfSquares)
    assert "which no sample reached" in caught.value.failure.difference
    assert caught.value.failure.application.startswith("number 1 of 1")


@pytest.mark.parametrize("mode", ["each", "every", "final"])
def test_right_change_where_no_sample_came_is_sampled(mode):
    model = ir.from_onnx_text(branches(SAME, "t0 = Neg(size) t1 = Neg(t0) t = Identity(t1)"))
    result = apply(model, DropsIdentities, verify=Verification(mode=mode))
    assert result.steps[0].applications == 1
    assert result.steps[0].evidence.level == "bits:sampled"


def test_branch_that_takes_no_value_of_the_model_runs_on_generated_ones():
    """The branch takes a single row, and the model always has two."""
    branch = "axes = Constant<value = int64[1] {0}>() t0 = Squeeze(pair, axes) t1 = Mul(t0, t0) t = Sqrt(t1)"
    host = branches(SAME, branch).replace("one = ", "pair = Concat<axis=0>(x2, x2) one = ", 1)
    model = ir.from_onnx_text(host.replace("(float[8] x)", "(float[8] x, float[1,8] x2)"))
    pair = next(node.outputs[0] for node in model.graph if node.op_type == "Concat")
    pair.shape, pair.dtype = ir.Shape(["n", 8]), ir.DataType.FLOAT
    with pytest.raises(PostconditionError, match=r"then_branch of If 'y', which no sample reached"):
        apply(model, TakesRootsOfSquares)


IMPOSSIBLE = "axes = Constant<value = int64[1] {0}>() t0 = Squeeze(x, axes) t1 = Neg(t0) t2 = Neg(t1) t = Identity(t2)"


def test_change_that_nothing_can_run_is_unverified():
    model = ir.from_onnx_text(branches(SAME, IMPOSSIBLE))
    step = apply(model, DropsIdentities).steps[0]
    assert step.applications == 1
    assert step.evidence.level == "unverified"
    assert step.evidence.reason.startswith("then_branch of If 'y' is not checked: ")
    assert [(body.name, body.how) for body in step.evidence.bodies] == [("then_branch of If 'y'", "unchecked")]
    with pytest.raises(VerificationError, match="'bits:sampled' is required, the run is unverified"):
        apply(ir.from_onnx_text(branches(SAME, IMPOSSIBLE)), DropsIdentities, verify=Verification(require="sampled"))


def test_another_definition_of_an_operator_that_nothing_can_run_is_unverified():
    pool = "u = Unsqueeze(t0, axes) p = AveragePool<kernel_shape = [2], ceil_mode = 1, strides = [2]>(u) t = Abs(p)"
    impossible = f"axes = Constant<value = int64[1] {{0}}>() t0 = Squeeze(x, axes) {pool}"
    model = ir.from_onnx_text(branches(SAME, impossible))
    model.graph.opset_imports[""] = 18

    class Imports(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            model.graph.opset_imports[""] = self.version
            return PassResult(model, modified=True)

        version: int = 19

    assert [apply(model, Imports(version=version)).steps[0].level for version in (19, 20)] == ["unverified"] * 2
    model.graph.opset_imports[""] = 19
    assert apply(model, Imports(version=20)).steps[0].level != "unverified"


def test_step_that_leaves_it_alone_is_sampled():
    model = ir.from_onnx_text(branches("e0 = Neg(size) e1 = Neg(e0) e = Neg(e1)", IMPOSSIBLE.replace("Neg", "Abs")))
    step = apply(model, DropsIdentities).steps[0]
    assert step.applications == 1
    assert step.evidence.level == "bits:sampled"


@passes.verify.equality
class DropsOutside(DropsIdentities):
    """The same, but not in branches."""

    def check(self, op, x):
        return x.name == "size"


def test_only_the_step_that_changed_it_is_unverified():
    host = branches(SAME, IMPOSSIBLE).replace("Add(size, one)", "Add(kept, one)")
    host = host.replace("big = ", "less = Neg(size) kept = Neg(less) big = ")
    result = apply(ir.from_onnx_text(host), [DropsOutside(), DropsIdentities()])
    assert [step.applications for step in result.steps] == [1, 1]
    assert [step.evidence.level for step in result.steps] == ["bits:sampled", "unverified"]


def test_branch_that_is_folded_away_needs_no_run():
    host = branches(SAME, WRONG).replace("never = Less(least, zero)", "never = Constant<value = bool {0}>()")
    result = apply(ir.from_onnx_text(host), "fold-if")
    assert not any(node.op_type == "If" for node in result.model.graph)
    assert result.steps[0].evidence.level == "bits:sampled"


def test_weights_moved_out_of_a_branch_are_followed():
    host = branches(SAME, "two = Constant<value = float {2.0}>() t = Mul(size, two)")
    result = apply(ir.from_onnx_text(host), "cleanup")
    assert all(step.evidence.level in ("bits:sampled", "unchanged") for step in result.record.leaves())


def edits(change, claim=passes.verify.equality):
    """Make a pass that changes a model in one way that no rule says."""

    class Edits(Transformation):
        """Change a model."""

        def call(self, model: ir.Model) -> PassResult:
            change(model)
            return PassResult(model, modified=True)

    return claim(Edits)


def rename_all(model: ir.Model) -> None:
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if not value.is_graph_output() or value.graph is not model.graph:
                value.name = f"{value.name}_renamed"


def drop_roots(model: ir.Model) -> None:
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Sqrt":
            node.outputs[0].replace_all_uses_with(node.inputs[0].producer().inputs[0], replace_graph_outputs=True)


def swap_branches(model: ir.Model) -> None:
    for node in [node for node in model.graph.all_nodes() if node.op_type == "If"]:
        then, other = (node.attributes[name].as_graph() for name in ("then_branch", "else_branch"))
        node.attributes["then_branch"] = ir.AttrGraph("then_branch", other)
        node.attributes["else_branch"] = ir.AttrGraph("else_branch", then)
        opposite = ir.Node("", "Not", [node.inputs[0]])
        opposite.outputs[0].name = "opposite"
        node.graph.insert_before(node, opposite)
        node.replace_input_with(0, opposite.outputs[0])


def take_other(model: ir.Model) -> None:
    """Put what the branch that samples take computes in the place of an If."""
    for node in [node for node in model.graph if node.op_type == "If"]:
        branch = node.attributes["else_branch"].as_graph()
        nodes, results = list(branch), list(branch.outputs)
        branch.outputs.clear()
        branch.remove(nodes)
        model.graph.insert_before(node, nodes)
        node.outputs[0].replace_all_uses_with(results[0])
        model.graph.remove(node, safe=True)


MIDDLE = branches(SAME, WRONG).replace("y = If", "h = If", 1)
MIDDLE = MIDDLE[: MIDDLE.rindex("}")] + " y = Neg(h) }"


@pytest.mark.parametrize("change", [rename_all, swap_branches])
def test_branch_is_known_by_its_results_where_it_is_renamed_or_moved(change):
    step = apply(ir.from_onnx_text(MIDDLE), edits(change)).steps[0]
    assert step.evidence.level == "bits:sampled"
    assert "alone" in {body.how for body in step.evidence.bodies}


@pytest.mark.parametrize("change", [rename_all, swap_branches])
def test_branch_that_is_changed_as_it_is_renamed_or_moved_is_unverified(change):
    def both(model: ir.Model) -> None:
        drop_roots(model)
        change(model)

    step = apply(ir.from_onnx_text(MIDDLE), edits(both)).steps[0]
    assert step.evidence.level == "unverified"
    assert "computes the same" in step.evidence.reason


@pytest.mark.parametrize("change", [rename_all, swap_branches])
def test_fault_in_a_branch_that_was_renamed_or_moved_before_is_caught(change):
    with pytest.raises(PostconditionError, match="which no sample reached"):
        apply(ir.from_onnx_text(MIDDLE), [edits(change)(), edits(drop_roots)()])


def test_branch_that_is_gone_is_unverified():
    step = apply(ir.from_onnx_text(MIDDLE), edits(take_other)).steps[0]
    assert step.evidence.level == "unverified"
    assert step.evidence.reason.startswith("then_branch of If 'h' is not checked: it is gone")


def test_branch_that_the_model_does_not_take_may_go():
    """Behind the If, only the shape of the other branch fits."""
    other = "axes = Constant<value = int64[1] {0}>() t = Unsqueeze(x, axes)"
    host = MIDDLE.replace(WRONG, other).replace("y = Neg(h)", "square = Expand(x, size88) y = Gemm(square, square, h)")
    host = host.replace("one = ", "size88 = Constant<value = int64[2] {8, 8}>() one = ", 1)
    wide = host.replace("t = Unsqueeze(x, axes)", "t0 = Unsqueeze(x, axes) t = Unsqueeze(t0, axes)")
    assert apply(ir.from_onnx_text(wide), edits(take_other)).steps[0].evidence.level == "bits:sampled"
    assert apply(ir.from_onnx_text(host), edits(take_other)).steps[0].evidence.level == "unverified"


def nested(inner: str) -> str:
    """An If in a branch that no sample takes, too; behind it, only vectors fit."""
    return branches(
        SAME,
        f"""
        h = If (never) <
            then_branch = inside () => (float[] v) {{ {inner} }},
            else_branch = beside () => (float[] u) {{ u = Neg(x) }}
        >
        square = Expand(x, sizes) t = Gemm(square, square, h)
        """,
    ).replace("one = ", "sizes = Constant<value = int64[2] {8, 8}>() one = ", 1)


def take_beside(model: ir.Model) -> None:
    """Take the second branch of the inner If, whatever decides."""
    branch = next(node for node in model.graph if node.op_type == "If").attributes["then_branch"].as_graph()
    inner = next(node for node in branch if node.op_type == "If")
    negated = ir.node("Neg", [next(iter(model.graph.inputs))])
    negated.outputs[0].name = "taken"
    branch.insert_before(inner, negated)
    ir.convenience.replace_all_uses_with(inner.outputs[0], negated.outputs[0])
    branch.remove(inner, safe=True)


@pytest.mark.parametrize(
    ("inner", "level"),
    [
        # No shape that does not broadcast to a matrix: the model runs on no sample that comes here.
        ("axes = Constant<value = int64[2] {0, 1}>() v = Unsqueeze(x, axes)", "bits:sampled"),
        ("v = Abs(x)", "unverified"),
    ],
    ids=["impossible", "possible"],
)
def test_inner_branch_may_go_only_if_the_model_cannot_take_it(inner: str, level: str):
    step = apply(ir.from_onnx_text(nested(inner)), edits(take_beside)).steps[0]
    assert step.evidence.level == level


def test_fault_after_a_change_of_the_interface_is_caught():
    with pytest.raises(PostconditionError, match="which no sample reached"):
        apply(ir.from_onnx_text(branches(SAME, WRONG)), [ConvertFloat16(keep_io=False), TakesRootsOfSquares()])


@pytest.mark.parametrize("keeps", [True, False])
def test_conversion_of_a_branch_is_compared_in_its_type(keeps):
    host = MIDDLE.replace(WRONG, "t0 = Neg(size) t1 = Exp(t0) t = Abs(t1)")
    step = apply(ir.from_onnx_text(host), ConvertFloat16(keep_io=keeps)).steps[0]
    assert step.evidence.level == "tolerance:sampled"
    assert "alone" in {body.how for body in step.evidence.bodies}


def test_fault_of_a_conversion_in_a_branch_is_no_evidence():
    class Drops(ConvertFloat16):
        """Convert, and drop something."""

        def run(self, model, context):
            drop_roots(model)
            return super().run(model, context)

    with pytest.raises(PostconditionError, match="which no sample reached"):
        apply(ir.from_onnx_text(MIDDLE), Drops(keep_io=True))
    step = apply(ir.from_onnx_text(MIDDLE), Drops(keep_io=False)).steps[0]
    assert step.evidence.level == "unverified"
    assert "after a change of the interface" in step.evidence.reason


def test_function_that_only_a_branch_calls_which_nothing_can_run_is_unverified():
    host = branches(SAME, IMPOSSIBLE.replace("t1 = Neg(t0) t2 = Neg(t1)", "t2 = local.f(t0)"))
    host = host.replace('"": 20', '"": 20, "local": 1') + (
        '<domain: "local", opset_import: ["": 20]> f (v) => (w) { n = Neg(v) w = Neg(n) }'
    )
    DropsIdentities.functions = True
    step = apply(ir.from_onnx_text(host), DropsIdentities).steps[0]
    assert (step.applications, step.evidence.level) == (1, "unverified")


def test_calls_that_go_leave_other_calls_as_they_are():
    host = IN_A_FUNCTION.replace("y = local.f(a)", "unread = local.f(x) y = local.f(a)")
    result = apply(ir.from_onnx_text(host), "remove-unused-nodes")
    assert result.steps[0].evidence.level == "bits:sampled"


@passes.verify.tolerance
class Reassociates(Transformation, RewriteRulePass):
    """Take a + (b + c) for (a + b) + c."""

    right = True

    def pattern(self, op, a, b, c):
        return op.Add(op.Add(a, b), c)

    def rewrite(self, op, a, b, c):
        return op.Add(a, op.Max(op.Add(b, c) if self.right else b))


@passes.verify.tolerance
class DropsTerm(Reassociates):
    """The same, without the last term."""

    right = False


CANCELS = branches(
    SAME, "huge = Constant<value = float {1000000.0}>() t0 = Add(huge, x) t1 = Add(t0, size) t = Sub(t1, huge)"
)


def test_rounding_in_a_branch_is_no_fault():
    assert apply(ir.from_onnx_text(CANCELS), Reassociates).steps[0].evidence.level != "unverified"
    with pytest.raises(PostconditionError, match="which no sample reached"):
        apply(ir.from_onnx_text(CANCELS), DropsTerm)


@passes.verify.tolerance
class Scales(DropsIdentities):
    """Scale by a little."""

    def rewrite(self, op, x):
        return op.Mul(x, op.Constant(value_float=1.000001))


def test_rounding_in_a_branch_is_within_tolerance_and_not_equal():
    model = ir.from_onnx_text(branches(SAME, "t0 = Neg(size) t1 = Neg(t0) t = Identity(t1)"))
    assert apply(model, Scales).steps[0].evidence.level == "tolerance:sampled"


def test_proved_rewrite_of_what_nothing_can_run_is_verified():
    branch = "axes = Constant<value = int64[1] {0}>() t0 = Squeeze(x, axes) t = Identity(t0)"
    host = (
        branches(SAME, branch).replace("y = If", "h = If", 1).replace("t = Identity(t0)", "i = Identity(t0) t = Abs(i)")
    )
    host = host[: host.rindex("}")] + " y = Neg(h) }"
    step = apply(ir.from_onnx_text(host), "eliminate-identity").steps[0]
    assert step.evidence.bodies[0].how == "unchecked"
    assert step.level == "bits:proved-here"


def test_evidence_of_bodies_is_written():
    model = ir.from_onnx_text(branches(SAME, "t0 = Neg(size) t1 = Neg(t0) t = Identity(t1)"))
    step = apply(model, DropsIdentities).steps[0]
    expected = {"name": "then_branch of If 'y'", "how": "alone", "runs": 3}
    found = step.to_json()["evidence"]["bodies"]
    assert [body | {"runs": 3} for body in found] == [expected]
    assert "1 subgraph alone" in evidence_text(step)


def test_branch_that_a_step_adds_is_unverified():
    """Nothing was there before that the branch which no sample takes could be compared with."""

    def add_branch(model: ir.Model) -> None:
        other = ir.from_onnx_text(branches(SAME, WRONG))
        model.graph = other.graph

    step = apply(ir.from_onnx_text(text("float[8] x", "float[] y", "y = Neg(x)")), edits(add_branch)).steps[0]
    assert step.evidence.level == "unverified"


def read_other(model: ir.Model) -> None:
    """Let what reads an If read the branch that samples take."""
    take = [node for node in model.graph if node.op_type == "If"]
    for node in take:
        same = ir.Node("", "Neg", [model.graph.inputs[0]])
        same.outputs[0].name = "same"
        model.graph.insert_before(node, same)
        node.outputs[0].replace_all_uses_with(same.outputs[0])


def test_branch_that_nothing_reads_any_more_is_missed():
    """On the samples, the same is read as before."""
    with pytest.raises(PostconditionError, match="with branches taken that no sample takes"):
        apply(ir.from_onnx_text(MIDDLE), edits(read_other))
    result = apply(
        ir.from_onnx_text(MIDDLE), [edits(read_other)(), "remove-unused-nodes"], verify=Verification(mode="final")
    )
    assert [step.evidence.level for step in result.steps] == ["unverified", "bits:sampled"]


@passes.verify.equality
class DropsRelu(Transformation, RewriteRulePass):
    """Take x for Relu(x)."""

    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        return op.Identity(x)


def test_fault_in_what_reads_an_untaken_branch_is_caught():
    """What the samples make of the If is positive, the other branch returns negative numbers."""
    host = MIDDLE.replace(SAME, "e = Abs(x)").replace(WRONG, "t = Neg(size)").replace("y = Neg(h)", "y = Relu(h)")
    with pytest.raises(PostconditionError, match=r"with branches taken that no sample takes \(then_branch of h\)"):
        apply(ir.from_onnx_text(host), DropsRelu)


def test_overflow_of_a_type_in_a_branch_is_no_evidence():
    step = apply(ir.from_onnx_text(MIDDLE), ConvertFloat16(keep_io=True)).steps[0]
    assert step.evidence.level == "unverified"
    assert "expected 1000.0, found inf" in step.evidence.reason


def test_fault_of_a_step_that_says_it_changes_nothing_is_caught():
    class Silent(Transformation):
        """Change a branch, and do not say so."""

        def call(self, model: ir.Model) -> PassResult:
            drop_roots(model)
            return PassResult(model, modified=False)

    host = MIDDLE.replace("y = Neg(h)", "n = Neg(h) m = Neg(n) y = Neg(m)")
    with pytest.raises(PostconditionError, match="which no sample reached"):
        apply(ir.from_onnx_text(host), [DropsOutside(), Silent(), DropsIdentities()])
    with pytest.raises(PostconditionError, match="which no sample reached"):
        apply(ir.from_onnx_text(host), [DropsIdentities(), Silent()])
