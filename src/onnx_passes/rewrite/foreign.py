"""Rules of onnxscript, run by our driver: ``RewriteRule``, ``RewriteRuleSet`` and rule classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from onnx_passes.core.base import Pass, Transformation
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.foreign import ForeignPass
from onnx_passes.graph.traits import is_commutative
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import is_of_onnxscript, source_of

if TYPE_CHECKING:
    from onnxscript.rewriter import pattern as onnxscript_pattern


def from_onnxscript(rule: onnxscript_pattern.RewriteRule, *, commute: bool = False) -> Rule:
    """Compile a rule of onnxscript for our driver."""
    from onnxscript.rewriter import pattern as onnxscript_pattern

    from onnx_passes.rewrite.onnxscript_patterns import graph_of

    if rule.as_function:
        raise RegistrationError(
            f"rule '{rule}' moves its match into a function, which the driver does not do",
            hint="run it with onnxscript's own 'apply_to_model'",
        )
    parts = cast(Any, rule)
    if type(parts._matcher) is not onnxscript_pattern.SimplePatternMatcher:
        raise RegistrationError(
            f"rule '{rule}' has a matcher of its own, {type(parts._matcher).__name__}, which the driver cannot use",
            hint="run it with onnxscript's own 'apply_to_model'",
        )
    replacement = parts._replacement_pattern._function
    return Rule(
        graph_of(parts._target_pattern),
        replacement,
        parts._condition_function,
        name=rule.name or "anonymous",
        commute=commute,
        forks="exclusive" if rule.remove_nodes else "duplicate",
        source=source_of(replacement),
        setup=rule.graph_pre_visitor,
        cleanup=rule.graph_post_visitor,
    )


def adapt(thing: object, name: str | None = None) -> type[Pass] | None:
    """Make a pass class of a foreign object; None if its kind is not known.

    Known kinds are passes of onnx_ir (classes and objects), rules, rule sets and rule classes of onnxscript, our rules,
    and lists of rules.
    """
    if isinstance(thing, type) and issubclass(thing, ir.passes.PassBase) and not issubclass(thing, Pass):
        return _foreign_pass(name or thing.__name__, thing, thing)
    if isinstance(thing, ir.passes.PassBase):
        return _foreign_pass(_named(thing, name), lambda: thing, thing)
    rules = _rules_in(other := cast(object, thing))
    return None if rules is None else _rule_pass(_named(other, name), rules, other)


def _rules_in(thing: object) -> list[Rule] | None:
    """Compile the rules in an object; None if it does not consist of rules."""
    if isinstance(thing, Rule):
        return [thing]
    if isinstance(thing, list | tuple):
        parts = [_rules_in(item) for item in cast(Iterable[object], thing)]
        if parts and all(part is not None for part in parts):
            return [rule for part in parts for rule in part or ()]
        return None
    return _rules_of_onnxscript(thing) if is_of_onnxscript(thing) else None


def _rules_of_onnxscript(thing: object) -> list[Rule] | None:
    from onnxscript.rewriter import pattern as onnxscript_pattern

    if isinstance(thing, onnxscript_pattern.RewriteRule):
        return [from_onnxscript(thing)]
    if isinstance(thing, onnxscript_pattern.RewriteRuleSet):
        return [from_onnxscript(rule, commute=commute) for rule, commute in _without_copies(thing.rules)]
    if isinstance(thing, type) and issubclass(thing, onnxscript_pattern.RewriteRuleClassBase):
        return [from_onnxscript(_rule_of(cast(Any, thing)))]
    return None


def _rule_of(cls: Any) -> onnxscript_pattern.RewriteRule:
    try:
        return cls.rule()
    except TypeError as error:
        raise RegistrationError(
            f"rule class '{cls.__name__}' cannot be set up: {error}",
            hint=f"register {cls.__name__}.rule(…) with its arguments",
        ) from error


def _without_copies(
    rules: Sequence[onnxscript_pattern.RewriteRule],
) -> list[tuple[onnxscript_pattern.RewriteRule, bool]]:
    """Undo ``commute=True`` of a rule set: keep one of the copies of a rule, to be matched in any order.

    Copies share the object that holds the rewrite, and there is one for each way to swap inputs.
    """
    families: dict[int, list[onnxscript_pattern.RewriteRule]] = {}
    for rule in rules:
        families.setdefault(id(cast(Any, rule)._replacement_pattern), []).append(rule)
    kept: list[tuple[onnxscript_pattern.RewriteRule, bool]] = []
    for family in families.values():
        swappable = [is_commutative(str(node.domain), node.op_type) for node in cast(Any, family[0])._target_pattern]
        copies = 2 ** sum(swappable)
        if len(family) == copies > 1:
            kept.append((family[0], True))
        else:
            kept.extend((rule, False) for rule in family)
    return kept


def _named(thing: object, name: str | None) -> str:
    name = name or getattr(thing, "name", None) or getattr(thing, "__name__", None)
    if not isinstance(name, str) or not name:
        raise RegistrationError(
            f"a {type(thing).__name__} has no name of its own", hint='write passes.register("a-name")(…)'
        )
    return name


def _camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^0-9A-Za-z]+", name))


def _rule_pass(name: str, rules: Sequence[Rule], origin: object) -> type[Pass]:
    def rules_of_pass(self: RewriteRuleSetPass) -> Sequence[Rule]:
        return rules

    made = _make_class(name, (Transformation, RewriteRuleSetPass), {"rules": rules_of_pass}, origin)
    if not isinstance(origin, type):
        # An object is from the module that made it, not from that of its class.
        made.__module__ = getattr(rules[0].rewrite.function, "__module__", None) or made.__module__
    return made


def _foreign_pass(name: str, make: Any, origin: object) -> type[Pass]:
    def post_init(self: ForeignPass) -> None:
        self.inner = make()

    body = {"__post_init__": post_init, "name": Pass.name}
    return _make_class(name.removesuffix("Pass"), (ForeignPass,), body, origin)


def _make_class(name: str, bases: tuple[type, ...], body: dict[str, Any], origin: object) -> type[Pass]:
    body = {
        **body,
        "__module__": getattr(origin, "__module__", __name__),
        "__doc__": getattr(origin, "__doc__", None),
    }
    return cast(type[Pass], type(_camel(name), bases, body))
