"""Wrong passes that hope to be excused at ties: none is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.base import Pass
from onnx_passes.verify.failure import PostconditionError, VerificationError

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
MODEL = f"""{HEAD}
g (float[4,8] x) => (float[4,8] y, float[4,8] h)
<float s = {{0.1}}, float two = {{2}}, float half = {{0.5}}, float[8,8] w, float[8] b>
{{
    a = Div (x, s)
    r = Round (a)
    c = Mul (r, s)
    d = MatMul (c, w)
    e = Add (d, b)
    t = Mul (e, two)
    h = Mul (t, half)
    n = Div (h, s)
    m = Round (n)
    y = Mul (m, s)
}}
"""


def network(scale: float = 1.0) -> ir.Model:
    rng = np.random.default_rng(0)
    weights, bias = rng.normal(size=(8, 8)) * scale, rng.normal(size=8)
    text = MODEL
    for name, shape, array in (("w", "[8,8]", weights), ("b", "[8]", bias)):
        numbers = ", ".join(str(float(np.float32(number))) for number in array.reshape(-1))
        text = text.replace(f"float{shape} {name}", f"float{shape} {name} = {{{numbers}}}")
    return ir.from_onnx_text(text)


def weights(name: str, change: Callable[[np.ndarray], None]) -> Callable[[ir.Model], None]:
    """Change elements of a weight, in a tensor of its own."""

    def edit(model: ir.Model) -> None:
        value = model.graph.initializers[name]
        array = value.const_value.numpy().copy()
        change(array)
        value.const_value = ir.tensor(array, name=name)

    return edit


class Edit(Transformation):
    """Change a model in a way that nobody announces."""

    def call(self, model: ir.Model) -> PassResult:
        type(self).edit(model)
        return PassResult(model, modified=True)


@passes.verify.tolerance
class Honest(Transformation, RewriteRulePass):
    """Leave out ``2 x / 2``."""

    def pattern(self, op, d, two, half):
        return op.Mul(op.Mul(d, two), half)

    def check(self, op, d, two, half):
        return two.name == "two"

    def rewrite(self, op, d, two, half):
        return op.Identity(d)


def equal(edit: Callable[[ir.Model], None]) -> Pass:
    return passes.verify.equality(type("ClaimsEquality", (Edit,), {"edit": staticmethod(edit)}))()


def tolerant(edit: Callable[[ir.Model], None]) -> Pass:
    return passes.verify.tolerance(type("ClaimsTolerance", (Edit,), {"edit": staticmethod(edit)}))()


def rule(pattern, rewrite, check=None) -> Pass:
    """A rule that claims a tolerance, and whose rewrites are looked at where they stand."""
    members = {"pattern": pattern, "rewrite": rewrite} | ({} if check is None else {"check": check})
    return passes.verify.tolerance(type("ClaimsTolerance", (Transformation, RewriteRulePass), members))()


def scale_channel(array: np.ndarray) -> None:
    array[:, 3] *= 1.05


def nudge(array: np.ndarray) -> None:
    array *= np.float32(1 + 1e-6)


def drop(array: np.ndarray) -> None:
    array[:] = 0


def group(*members: Pass | str):
    from onnx_passes.core.compose import ComposePass

    return type("Several", (ComposePass,), {"passes": tuple(members), "exhaustive": False})()


BIAS_DROPPED = rule(
    lambda self, op, x, c: op.Add(x, c), lambda self, op, x, c: op.Identity(x), lambda self, op, x, c: c.name == "b"
)
SMALLER_BIAS = rule(
    lambda self, op, x, c: op.Add(x, c),
    lambda self, op, x, c: op.Add(x, c.const_value.numpy() * np.float32(0.98)),
    lambda self, op, x, c: c.name == "b",
)
HALF_UP = rule(
    lambda self, op, x: op.Round(x), lambda self, op, x: op.Floor(op.Add(x, np.float32(0.5))), lambda self, op, x: True
)
NOT_ROUNDED = rule(lambda self, op, x: op.Round(x), lambda self, op, x: op.Identity(x))
ONE_LEVEL_UP = rule(
    lambda self, op, x: op.Round(x),
    lambda self, op, x: op.Floor(op.Add(x, np.float32(0.5001))),
)
ILL_CONDITIONED = rule(
    lambda self, op, x, s: op.Div(x, s),
    lambda self, op, x, s: op.Sub(op.Add(op.Mul(x, np.float32(10)), np.float32(3e4)), np.float32(3e4)),
    lambda self, op, x, s: x.name == "x",
)
SCALE_OFF = rule(
    lambda self, op, x, s: op.Div(x, s),
    lambda self, op, x, s: op.Mul(x, np.float32(10.0005)),
    lambda self, op, x, s: True,
)
NOT_A_NUMBER = rule(
    lambda self, op, x: op.Round(x),
    lambda self, op, x: op.Where(op.Less(op.Abs(x), np.float32(9)), op.Floor(x), np.float32(np.nan)),
)
OTHER_OUTPUT_SCALE = rule(
    lambda self, op, x, s: op.Mul(x, s),
    lambda self, op, x, s: op.Mul(op.Cast(op.Cast(x, to=7), to=1), np.float32(0.1001)),
    lambda self, op, x, s: s.name == "s",
)


def slightly_smaller_bias() -> Pass:
    """Make a bias smaller by a part that hardly shows."""
    seen: list[int] = []

    def check(self, op, x, c):
        return c.const_value is not None and c.const_value.size == 8 and not seen

    def rewrite(self, op, x, c):
        seen.append(1)
        return op.Add(x, c.const_value.numpy() * np.float32(0.95))

    return rule(lambda self, op, x, c: op.Add(x, c), rewrite, check)


ATTACKS = {
    "an equality step behind a tolerance step of its group": group(equal(weights("w", scale_channel)), Honest()),
    "an equality step before a check that is asked for": group(equal(weights("w", nudge)), "verify"),
    "a step that nobody can look at": group(tolerant(weights("b", drop)), Honest()),
    "a bias that is dropped": BIAS_DROPPED,
    "a bias that is dropped in a group": group(Honest(), BIAS_DROPPED),
    "a bias that is 2 % too small": SMALLER_BIAS,
    "ties rounded up": HALF_UP,
    "levels that are chosen too early": ONE_LEVEL_UP,
    "no rounding at all": NOT_ROUNDED,
    "digits lost on the way": ILL_CONDITIONED,
    "a scale off by more than rounding": SCALE_OFF,
    "NaN between levels": NOT_A_NUMBER,
    "an output scaled otherwise": OTHER_OUTPUT_SCALE,
    "twelve small steps": group(*[slightly_smaller_bias() for _ in range(12)]),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_fails(attack: str):
    ties = np.arange(-16, 16, dtype=np.float32).reshape(4, 8) * np.float32(0.05)
    with pytest.raises((PostconditionError, VerificationError)):
        apply(network(), ATTACKS[attack], verify=Verification(inputs=[{"x": ties}, {"x": ties * np.float32(1.37)}]))
