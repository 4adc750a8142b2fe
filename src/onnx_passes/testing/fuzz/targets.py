"""Targets of the fuzzer: a rule with its claim, or an operator with its definition in numpy."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.core.base import Context, Pass
from onnx_passes.core.build import collect
from onnx_passes.core.compose import Group
from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.registry import REGISTRY
from onnx_passes.graph.constants import constant
from onnx_passes.ops.definition import Definition
from onnx_passes.ops.describe import definitions_named
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.passes import RewriteRulePass, RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.together import Together
from onnx_passes.testing.fuzz.hints import Hints
from onnx_passes.verify.comparison.evidence import DEFAULT, Limits, limits_of

_SHAPES = "shape-inference"


@dataclass(frozen=True)
class FuzzTarget:
    """Rule with the claim of its pass: ``limits`` is the tolerance, None for equality."""

    name: str
    rule: Rule
    apply: Callable[[ir.Model], int]
    limits: Limits | None
    fast_math: frozenset[str] = frozenset()
    hints: Hints = field(default_factory=Hints)
    needs_shapes: bool = False


def targets_of(thing: object) -> list[FuzzTarget]:
    """List the rules of a pass, a rule, a name, a group, or rules of onnxscript; an operator is its own rule.

    The name of a rule is ``pass/rule``.
    """
    if isinstance(thing, FuzzTarget):
        return [thing]
    if isinstance(thing, Rule):
        return [FuzzTarget(thing.name, thing, _applying([thing]), DEFAULT)]
    if isinstance(thing, str) and (definitions := definitions_named(thing)):
        return [_of_operator(definition) for definition in definitions]
    if isinstance(thing, str) and "/" in thing and "{" not in thing:
        return [_one_of(targets_of(thing.partition("/")[0]), thing)]
    found: list[FuzzTarget] = []
    for pass_ in collect(thing):  # pyright: ignore[reportArgumentType]
        members = list(_members(pass_))
        if not members:
            raise UsageError(f"'{pass_}' is not made of rules", hint="name a pass made of pattern and rewrite")
        for member in members:
            found.extend(_targets(member))
    return found


def _one_of(targets: Sequence[FuzzTarget], name: str) -> FuzzTarget:
    known = [target.name for target in targets]
    if name not in known:
        hint = did_you_mean(name, known) or f"known: {', '.join(known[:8])}"
        raise UsageError(f"there is no rule '{name}'", hint=hint)
    return targets[known.index(name)]


def registered() -> list[FuzzTarget]:
    """List the rules of all registered passes, without passes that need options."""
    found: list[FuzzTarget] = []
    for entry in REGISTRY.entries():
        cls = REGISTRY.load(entry)
        # Sequences of passes are fuzzed by their members.
        if issubclass(cls, RewriteRuleSetPass) and not issubclass(cls, Together):
            with contextlib.suppress(TypeError):
                found.extend(_targets(cast(Callable[[], RewriteRuleSetPass], cls)()))
    return found


def _members(pass_: Pass) -> Sequence[RewriteRuleSetPass]:
    if isinstance(pass_, Together):
        return pass_.members
    if isinstance(pass_, RewriteRuleSetPass):
        return [pass_]
    if isinstance(pass_, Group):
        return [rules for member in pass_.body if isinstance(member, Pass) for rules in _members(member)]
    return []


def _targets(pass_: RewriteRuleSetPass) -> list[FuzzTarget]:
    rules = pass_.compile().rules
    names = [pass_.name] if isinstance(pass_, RewriteRulePass) else _numbered([f"{pass_.name}/{r.name}" for r in rules])
    return [
        FuzzTarget(
            name,
            rule,
            _applying([rule], functions=pass_.functions),
            _limits(pass_),
            frozenset(pass_.fast_math),
            Hints.of(pass_).about(rule),
            _SHAPES in pass_.needs,
        )
        for name, rule in zip(names, rules, strict=True)
    ]


def _numbered(names: Sequence[str]) -> list[str]:
    """Make names of rules within a pass unique: the second one is ``pass/rule#2``."""
    return [f"{name}#{before + 1}" if (before := names[:at].count(name)) else name for at, name in enumerate(names)]


def _of_operator(definition: Definition) -> FuzzTarget:
    rule = rule_of(definition)
    return FuzzTarget(definition.name, rule, _applying([rule]), None)


def _applying(rules: Sequence[Rule], *, functions: bool = False) -> Callable[[ir.Model], int]:
    return lambda model: rewrite(model, rules, Context(), functions=functions)


def _limits(pass_: Pass) -> Limits | None:
    """Return the tolerance of the claim of a pass; without a claim, the default tolerance."""
    for claim in pass_.claims:
        if claim.kind == "equality":
            return None
        if claim.kind == "tolerance":
            return limits_of(claim, DEFAULT)
    return DEFAULT


def rule_of(definition: Definition) -> Rule:
    """Make a rule that folds an operator of constants in numpy, and otherwise lowers it to standard operators."""

    def rewrite(op: Any, y: ir.Value) -> Any:
        node = y.producer()
        assert node is not None
        call = definition.call(node)
        held = [array for value in node.inputs if (array := constant(value)) is not None]
        if len(held) < len(node.inputs):
            return definition.lower(op, call)
        return op.Identity(definition.compute(held, call.attributes))

    return Rule(_pattern(definition), rewrite, name=definition.name, commute=False)


def _pattern(definition: Definition) -> Callable[..., Any]:
    names = [given.name for given in definition.inputs]

    def pattern(op: Any, *inputs: Any) -> Any:
        build = getattr(op, definition.name)
        return build(*inputs, _domain=definition.domains[0], _allow_other_attributes=True, _outputs=["y"])

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in ("op", *names)])
    setattr(pattern, "__signature__", signature)  # noqa: B010 - functions have no such attribute in their type
    return pattern
