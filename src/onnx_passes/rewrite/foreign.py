"""Rules of onnxscript, run by our driver: ``RewriteRule``, ``RewriteRuleSet`` and rule classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import onnx_ir as ir
from onnxscript.rewriter import pattern as onnxscript_pattern

from onnx_passes.core.base import Pass, Transformation
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.foreign import ForeignPass
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule, source_of


def from_onnxscript(rule: onnxscript_pattern.RewriteRule) -> Rule:
    """Compile a rule of onnxscript for our driver."""
    if rule.as_function:
        raise RegistrationError(
            f"rule '{rule}' moves its match into a function, which the driver does not do",
            hint="run it with onnxscript's own 'apply_to_model'",
        )
    replacement = cast(Any, rule)._replacement_pattern._function
    condition = cast(Any, rule)._condition_function
    return Rule(
        cast(Any, rule)._target_pattern,
        replacement,
        condition,
        name=rule.name or "anonymous",
        commute=False,
        forks="exclusive" if rule.remove_nodes else "duplicate",
        source=source_of(replacement),
        setup=rule.graph_pre_visitor,
        cleanup=rule.graph_post_visitor,
    )


def adapt(thing: object, name: str | None = None) -> type[Pass] | None:
    """Make a pass class of something foreign, or return nothing if it is none of the known kinds.

    Known are passes of onnx_ir (classes and objects) and rules, rule sets, rule classes and lists of rules of
    onnxscript.
    """
    if isinstance(thing, type):
        if issubclass(thing, onnxscript_pattern.RewriteRuleClassBase):
            return _rule_pass(name or thing.__name__, [cast(Any, thing).rule()], thing)
        if issubclass(thing, ir.passes.PassBase) and not issubclass(thing, Pass):
            return _foreign_pass(name or thing.__name__, thing, thing)
        return None
    if isinstance(thing, ir.passes.PassBase):
        return _foreign_pass(_named(thing, name), lambda: thing, thing)
    rules = _rules_in(thing)
    return None if rules is None else _rule_pass(_named(thing, name), rules, thing)


def _rules_in(thing: object) -> Sequence[onnxscript_pattern.RewriteRule] | None:
    if isinstance(thing, onnxscript_pattern.RewriteRule):
        return [thing]
    if isinstance(thing, onnxscript_pattern.RewriteRuleSet):
        return list(thing.rules)
    if isinstance(thing, list | tuple):
        items = list(cast(Iterable[object], thing))
        if items and all(isinstance(item, onnxscript_pattern.RewriteRule) for item in items):
            return cast(Sequence[onnxscript_pattern.RewriteRule], items)
    return None


def _named(thing: object, name: str | None) -> str:
    name = name or getattr(thing, "name", None)
    if not isinstance(name, str) or not name:
        raise RegistrationError(
            f"a {type(thing).__name__} has no name of its own", hint='write passes.register("a-name")(…)'
        )
    return name


def _camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.replace("_", "-").split("-"))


def _rule_pass(name: str, rules: Sequence[onnxscript_pattern.RewriteRule], origin: object) -> type[Pass]:
    compiled = [from_onnxscript(rule) for rule in rules]

    def rules_of_pass(self: RewriteRuleSetPass) -> Sequence[Rule]:
        return compiled

    return _make_class(name, (Transformation, RewriteRuleSetPass), {"rules": rules_of_pass}, origin)


def _foreign_pass(name: str, make: Any, origin: object) -> type[Pass]:
    def post_init(self: ForeignPass) -> None:
        self.inner = make()

    return _make_class(name.removesuffix("Pass"), (ForeignPass,), {"__post_init__": post_init, "name": None}, origin)


def _make_class(name: str, bases: tuple[type, ...], body: dict[str, Any], origin: object) -> type[Pass]:
    class_name = _camel(name)
    body = {
        **body,
        "__module__": getattr(origin, "__module__", __name__),
        "__doc__": getattr(origin, "__doc__", None),
    }
    if "name" in body:
        body["name"] = Pass.name
    return cast(type[Pass], type(class_name, bases, body))
