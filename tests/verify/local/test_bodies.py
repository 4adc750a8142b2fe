"""Graphs inside models, reached by samples or not: wrong rewrites in them are caught, right ones pass."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import Pass, RewriteRulePass, Transformation, apply, passes
from onnx_passes.verify.failure import PostconditionError
from tests.planted.planting import text

T = "float[4,4]"
BIAS = f"{T} bias = {{{', '.join(f'{0.3 + i / 10:.1f}' for i in range(16))}}}"
BEFORE = """
    size = Abs(x) less = Neg(x) least = ReduceMin<keepdims = 0>(size)
    none = Constant<value = float {-1.0}>() zero = Constant<value = int64 {0}>() three = Constant<value = int64 {3}>()
    never = Less(least, none) always = Not(never)
"""
FUNCTION_BEFORE = (
    "s1 = Abs(v) l1 = ReduceMin<keepdims = 0>(s1) n1 = Constant<value = float {-1.0}>() never = Less(l1, n1)"
)
LOOP = f"body = step (int64 i, bool c, {T} v) => (bool d, {T} w)"


def work(source: str, result: str, bias: str = "bias") -> str:
    """Write what is rewritten: a bias, an axis, an index."""
    return (
        f"u = Sub({source}, {bias}) s = Softmax<axis = 0>(u) at = Constant<value = int64[4,1] {{1, 2, 0, 1}}>()"
        f" g = GatherElements<axis = 1>(s, at) m = Mul(g, u) {result} = Add(m, {source})"
    )


def branches(then: str, other: str, condition: str = "never", name: str = "y") -> str:
    """Write an If, whose branches compute ``t_y`` and ``e_y`` for the name ``y``."""
    return (
        f"{name} = If ({condition}) <then_branch = yes_{name} () => (float[] t_{name}) {{ {then} }},"
        f" else_branch = no_{name} () => (float[] e_{name}) {{ {other} }}>"
    )


def model(body: str, *functions: str) -> str:
    """Write a model around nodes that compute ``y``."""
    written = "".join(f'<domain: "local", opset_import: ["": 20, "local": 1]> {function}' for function in functions)
    return text(f"{T} x", "float[] y", BEFORE + body, initializers=BIAS, functions=written, domains='"local": 1')


INNER = branches(work("less", "t_q"), "e_q = Neg(x)", name="q")
DEEP = branches(work("own", "t_r"), "e_r = Neg(own)", name="r")
IN_FUNCTION = f"f (v, b) => (y) {{ {FUNCTION_BEFORE} {branches(work('v', 't_y', 'b'), 'e_y = Neg(v)')} }}"
CONDITIONAL = branches(work("v", "t_w"), "e_w = Neg(v)", "late", name="w")
ROWS = f"body = step ({T} v, {T} row) => ({T} w, {T} out)"
MAPPED = f"body = step ({T} v, {T} q) => ({T} w) {{ vq = Add(v, q) {work('vq', 'w')} }}"

MODELS = {
    "then": (model(branches(work("less", "t_y"), "e_y = Neg(x)")), {"alone"}),
    "else": (model(branches("t_y = Neg(x)", work("less", "e_y"), "always")), {"alone"}),
    "taken": (model(branches(work("less", "t_y"), "e_y = Neg(x)", "always")), {"reached"}),
    "inner": (model(branches(f"{INNER} t_y = Abs(q)", "e_y = Neg(x)", "always")), {"reached", "alone"}),
    "inner of untaken": (model(branches(f"{INNER} t_y = Abs(q)", "e_y = Neg(x)")), {"alone"}),
    "captures of captures": (
        model(
            branches(
                f"own = Exp(less) {branches(f'{DEEP} t_q = Neg(r)', 'e_q = Neg(own)', name='q')} t_y = Abs(q)",
                "e_y = Neg(x)",
            )
        ),
        {"alone"},
    ),
    "loop without a turn": (
        model(f"y = Loop (zero, , less) <{LOOP} {{ d = Identity(c) k = MatMul(v, bias) {work('k', 'w')} }}>"),
        {"alone"},
    ),
    "loop that is false": (
        model(f"y = Loop (three, never, less) <{LOOP} {{ d = Identity(c) {work('v', 'w')} }}>"),
        {"alone"},
    ),
    "loop": (
        model(f"y = Loop (three, , less) <{LOOP} {{ d = Identity(c) {work('v', 'w')} }}>"),
        {"reached"},
    ),
    "branch of a later turn": (
        model(
            f"y = Loop (three, , less) <{LOOP} {{ d = Identity(c) one = Constant<value = int64 {{1}}>()"
            f" late = Greater(i, one) {CONDITIONAL} }}>"
        ),
        {"reached"},
    ),
    "branch of no turn": (
        model(
            f"y = Loop (three, , less) <{LOOP} {{ d = Identity(c) five = Constant<value = int64 {{5}}>()"
            f" late = Greater(i, five) {CONDITIONAL} }}>"
        ),
        {"reached", "alone"},
    ),
    "scan in a branch": (
        model(
            branches(
                f"x3 = Reshape(x, shape) t_y, z = Scan (less, x3) <num_scan_inputs = 1,"
                f" {ROWS} {{ k = Add(v, row) {work('k', 'w')} out = Neg(w) }}>",
                "e_y = Neg(x)",
            ).replace("y = If", "shape = Constant<value = int64[3] {1, 4, 4}>() y = If", 1)
        ),
        {"alone"},
    ),
    "map of an empty sequence": (
        model(
            f"none0 = SequenceEmpty<dtype = 1>() all = SequenceMap(none0, less) <{MAPPED}>"
            " n = SequenceLength(all) f = Cast<to = 1>(n) y = Add(less, f)"
        ),
        {"drawn"},
    ),
    "map": (
        model(
            f"parts = SequenceConstruct(less, x) all = SequenceMap(parts, less) <{MAPPED}>"
            " y = ConcatFromSequence<axis = 0>(all)"
        ),
        {"reached"},
    ),
    "branch of a function": (model("y = local.f(less, bias)", IN_FUNCTION), {"reached", "alone"}),
    "branch of a function, twice": (
        model("h = local.f(less, bias) y = local.f(h, bias)", IN_FUNCTION),
        {"reached", "alone"},
    ),
    "branch of a function in a function": (
        model("y = local.g(less, bias)", IN_FUNCTION, "g (v, b) => (z) { n = Neg(v) z = local.f(n, b) }"),
        {"reached", "alone"},
    ),
    "branch of a function that a branch calls": (
        model(branches("t_y = local.f(less, bias)", "e_y = Neg(x)"), IN_FUNCTION),
        {"alone"},
    ),
    "loop of a function": (
        model(
            "y = local.f(less, bias)",
            "f (a, b) => (y) { zero = Constant<value = int64 {0}>()"
            f" y = Loop (zero, , a) <{LOOP} {{ d = Identity(c) {work('v', 'w', 'b')} }}> }}",
        ),
        {"reached", "alone"},
    ),
    "function that a branch calls": (
        model(branches("t_y = local.f(less, bias)", "e_y = Neg(x)"), f"f (v, b) => (z) {{ {work('v', 'z', 'b')} }}"),
        {"alone"},
    ),
    "value that a branch captures": (model(f"{work('less', 'k')} {branches('t_y = Neg(k)', 'e_y = Neg(x)')}"), set()),
    "value that a branch of a branch captures": (
        model(
            f"{work('less', 'k')} "
            + branches(f"{branches('t_q = Neg(k)', 'e_q = Neg(x)', name='q')} t_y = Neg(q)", "e_y = Neg(x)")
        ),
        set(),
    ),
    "value that a loop captures": (
        model(f"{work('less', 'k')} y = Loop (zero, , less) <{LOOP} {{ d = Identity(c) w = Add(v, k) }}>"),
        set(),
    ),
}


def rewriting(name: str, **methods: object) -> type[Pass]:
    """Make a pass of a rule, for functions, too, that promises equality."""
    rule = type(name, (Transformation, RewriteRulePass), {"functions": True, "__doc__": f"{name}.", **methods})
    return passes.verify.equality(rule)


def _bias(self, op, x, c):
    return op.Sub(x, c)


def _axis(self, op, x):
    return op.Softmax(x, axis=0)


def _index(self, op, x, i):
    return op.GatherElements(x, i, axis=1)


RIGHT = [
    rewriting("AddsNegative", pattern=_bias, rewrite=lambda self, op, x, c: op.Add(x, op.Neg(c))),
    rewriting("CountsFromTheEnd", pattern=_axis, rewrite=lambda self, op, x: op.Softmax(x, axis=-2)),
    rewriting("LastAxis", pattern=_index, rewrite=lambda self, op, x, i: op.GatherElements(x, i, axis=-1)),
]
WRONG = {
    "bias": rewriting("DropsBias", pattern=_bias, rewrite=lambda self, op, x, c: op.Identity(x)),
    "axis": rewriting("TakesAnotherAxis", pattern=_axis, rewrite=lambda self, op, x: op.Softmax(x, axis=1)),
    "index": rewriting(
        "OffByOne",
        pattern=_index,
        rewrite=lambda self, op, x, i: op.GatherElements(x, op.Neg(op.BitwiseNot(i)), axis=-1),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_right_rewrite_passes_and_evidence_says_how(name):
    written, expected = MODELS[name]
    result = apply(ir.from_onnx_text(written), [rule() for rule in RIGHT])
    assert [step.applications for step in result.steps] == [1, 1, 1]
    for step in result.steps:
        assert step.evidence.level == "bits:sampled"
        assert {body.how for body in step.evidence.bodies} == expected


# All faults in some models; loops run in processes of their own, which takes longer.
ALL = ("then", "inner of untaken", "captures of captures", "branch of a function", "value that a branch captures")
FAULTS = [(name, fault) for name in ALL for fault in WRONG]
FAULTS += [(name, list(WRONG)[at % 3]) for at, name in enumerate(MODELS) if name not in ALL]


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_wrong_rewrite_is_caught(name, fault):
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(MODELS[name][0]), WRONG[fault])


@pytest.mark.parametrize("turns", ["zero", "one"])
def test_fault_of_later_turns_of_a_loop_is_caught(turns):
    """In the first turn, nothing is to be seen of it."""

    @passes.verify.equality
    class TakesTurnForItsDouble(Transformation, RewriteRulePass):
        def pattern(self, op, i):
            return op.Add(i, i)

        def rewrite(self, op, i):
            return op.Identity(i)

    one = "one = Constant<value = int64 {1}>()"
    body = "{ d = Identity(c) j = Add(i, i) f = Cast<to = 1>(j) w = Add(v, f) }"
    with pytest.raises(PostconditionError, match=r"body of Loop 'y', which no sample reached, alone"):
        apply(ir.from_onnx_text(model(f"{one} y = Loop ({turns}, , less) <{LOOP} {body}>")), TakesTurnForItsDouble)


def test_loop_without_a_turn_may_be_inlined():
    result = apply(ir.from_onnx_text(MODELS["loop of a function"][0]), "inline-functions")
    assert result.steps[0].evidence.level == "bits:sampled"
