"""Fuse elementwise operators around thresholds into these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.options import option
from onnx_passes.datatypes.types import integer_ends, smallest_for_values
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.thresholds.conversion import End, Semantics, convert_all, promise_of_semantics
from onnx_passes.passes.thresholds.examples import SCALED, examples
from onnx_passes.passes.thresholds.levels import levels_of
from onnx_passes.passes.thresholds.nodes import COUNTING_DOMAINS, Thresholds, is_thresholds, level_values
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule

_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}


@passes.verify.tolerance
@passes.register(tags=("thresholds", "quantized"))
class FuseThresholds(Transformation, RewriteRuleSetPass):
    """Fuse elementwise operators before thresholds into them, and constants after them into their levels.

    Rewrites: ``MultiThreshold(Relu(q * s + b), T)`` → ``MultiThreshold(q, T')``, searched as infer-thresholds does;
              ``MultiThreshold(q, T) + c`` → ``MultiThreshold(q, T, out_bias=c)``, and ``* c`` → ``out_scale=c``.
    Refuses:  the cases that infer-thresholds refuses; constants after thresholds that vary by channel, are not positive
              factors, change the rounding of levels, or make levels non-integers (unless ``scales`` is set).
    Exactness: as for infer-thresholds, with either ``semantics``; constants after thresholds are fused exactly.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
        ("y = Add (m, c)", "y = Sub (m, c)", "y = Mul (m, s)", "y = Div (m, s)"), counting=SCALED, weighted=()
    )
    fast_math = ("nnan", "nsz")

    semantics: Semantics = option("exact", "whether thresholds are those of real numbers, or of the float computation")
    scales: bool = option(False, "also fuse constants that make levels non-integers")

    def __post_init__(self) -> None:
        """Claim equality if thresholds are those of the float computation."""
        promise_of_semantics(self, self.semantics)

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Search new thresholds first, then apply the rules for constants after them."""
        with Editor(model, context) as editor:
            nodes = [node for node in model.graph if is_thresholds(node)]
            convert_all(model, editor, nodes, _beginning, self.semantics)
        return PassResult(model, super().run(model, context).modified or editor.applied > 0)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator after thresholds, in each domain."""
        return [
            Rule(
                _pattern(operator, domain),
                _absorb(operator),
                _check(operator, scales=self.scales),
                name=f"{operator} behind {domain}",
            )
            for operator in _COMPUTE
            for domain in COUNTING_DOMAINS
        ]


def _beginning(node: ir.Node) -> End | str:
    levels = levels_of(node)
    return levels if isinstance(levels, str) else End(node, levels, shortest=2)


def _pattern(operator: str, domain: str) -> Callable[..., Var]:
    def pattern(op: Op, x: Var, t: Var, c: Var) -> Var:
        return getattr(op, operator)(op.MultiThreshold(x, t, _domain=domain, _outputs=["m"]), c, _outputs=["y"])

    return pattern


def _check(operator: str, *, scales: bool) -> Callable[..., Refusal | bool]:
    def check(match: Match, x: ir.Value, c: ir.Value, m: ir.Value, y: ir.Value) -> Refusal | bool:
        number, found = constant(c), _read(m)
        if number is None or number.size != 1:
            return no("the other operand is not a single constant", at=c)
        if isinstance(found, str):
            return no(found, at=m)
        if number.ndim > (rank(x) or 0):
            return no("the constant changes the rank of the result", at=c)
        absorbed = _absorbed(found, operator, number)
        if absorbed is None:
            return no("the factor is not positive, or the levels would be rounded differently", at=y)
        if not scales and integer_ends(level_values(*absorbed, found.rows.shape[1])) is None:
            return no("the levels would not be integers", at=y)
        return yes

    return check


def _absorb(operator: str) -> Callable[..., ir.Value]:
    def rewrite(op: Builder, x: ir.Value, t: ir.Value, c: ir.Value, m: ir.Value, y: ir.Value) -> ir.Value:
        number, found, node = constant(c), _read(m), m.producer()
        assert number is not None
        assert node is not None
        assert isinstance(found, Thresholds)
        absorbed = _absorbed(found, operator, number)
        assert absorbed is not None
        scale, bias = absorbed
        datatype = str(smallest_for_values(level_values(scale, bias, found.rows.shape[1])))
        given = {**node.attributes, "out_scale": scale, "out_bias": bias, "out_dtype": datatype}
        result = op.MultiThreshold(x, t, _domain=node.domain, **given)
        result.type, result.shape = y.type, y.shape
        return result

    return rewrite


def _read(m: ir.Value) -> Thresholds | str:
    node = m.producer()
    assert node is not None
    return Thresholds.of(node)


def _absorbed(found: Thresholds, operator: str, number: np.ndarray) -> tuple[float, float] | None:
    """Return the scale and bias that give the exact results of an operator on the levels; None if there are none."""
    c = np.float32(number.reshape(-1)[0])
    compute = _COMPUTE[operator]
    is_factor = operator in ("Mul", "Div")
    if not np.isfinite(c) or (is_factor and c <= 0):
        return None
    with np.errstate(over="ignore", under="ignore"):
        wanted = compute(found.levels(), c)
        scale = np.float32(compute(np.float32(found.scale), c) if is_factor else found.scale)
        bias = np.float32(compute(np.float32(found.bias), c))
    same = level_values(float(scale), float(bias), found.rows.shape[1]).tobytes() == wanted.tobytes()
    return (float(scale), float(bias)) if same else None
