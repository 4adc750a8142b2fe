"""The rules of several passes as one: a single worklist, instead of one sweep over the graph after the other."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from onnx_passes.core.base import Pass, Transformation
from onnx_passes.core.build import collect
from onnx_passes.core.claims import Claim
from onnx_passes.core.compose import Group, PassLike
from onnx_passes.core.errors import UsageError
from onnx_passes.core.naming import fold
from onnx_passes.core.options import format_options, internal
from onnx_passes.rewrite.index import RuleIndex
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


class Together(Transformation, RewriteRuleSetPass):
    """Apply the rules of the passes in ``body`` together; each rewrite is held to the claim of the pass it is from.

    Members of a group that are not made of rules are left out.
    """

    takes_body = True
    thorough = False
    passes: ClassVar[Sequence[PassLike]] = ()

    body: tuple[PassLike, ...] = internal(())
    member_options: Mapping[str, object] = internal(default_factory=dict)
    members: tuple[RewriteRuleSetPass, ...] = internal(())

    def __post_init__(self) -> None:
        self.body = tuple(self.body) or tuple(self.passes)
        self.members = tuple(_rule_passes(collect(self.body)))
        # Declared on the class elsewhere, here they depend on the members.
        vars(self).update(
            claims=_weakest(self.members),
            needs=_union(member.needs for member in self.members),
            followed_by=_union(member.followed_by for member in self.members),
        )

    def __str__(self) -> str:
        inside = "" if self.passes else f"({', '.join(map(str, collect(self.body)))})"
        return f"{self.name}{format_options(self)}{inside}"

    def rules(self) -> Sequence[Rule]:
        """Return the rules of all members, in their order."""
        return [
            rule
            for member in self.members
            for rule in _rules_of(_Recipe(member))
            if not member.skipped_rules or fold(rule.name) not in member.skipped_rules
        ]

    def compile(self) -> RuleIndex:
        """Make the rules ready to be looked up, once for all runs of the same rules."""
        return _index_of(tuple(self.rules()))


class _Recipe:
    """The key of a pass's rules: passes of one class with the same options have the same rules."""

    def __init__(self, member: RewriteRuleSetPass) -> None:
        self.member = member
        # What a constructor of its own keeps need not show in the text.
        own = id(member) if type(member).writes_init else 0
        self._key = (type(member), str(member), own)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Recipe) and self._key == other._key


@functools.lru_cache(maxsize=1024)
def _rules_of(recipe: _Recipe) -> tuple[Rule, ...]:
    """Compile the rules of a pass once for all runs: rules have no state."""
    rules = tuple(recipe.member.rules())
    for rule in rules:
        rule.owner = recipe.member
    return rules


@functools.lru_cache(maxsize=64)
def _index_of(rules: tuple[Rule, ...]) -> RuleIndex:
    return RuleIndex(rules)


def _rule_passes(passes: Sequence[Pass], *, of_group: bool = False) -> Iterator[RewriteRuleSetPass]:
    """Yield the passes that are made of rules; others may only come along in a group, and are left out."""
    for pass_ in passes:
        if isinstance(pass_, RewriteRuleSetPass):
            yield pass_
        elif isinstance(pass_, Group):
            yield from _rule_passes(collect(pass_.body), of_group=True)
        elif not of_group:
            raise UsageError(f"pass '{pass_.name}' has no rules to apply together with others")


def _union(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for several in names for name in several))


def _weakest(members: Sequence[Pass]) -> tuple[Claim, ...]:
    claims = [next((c for c in member.claims if c.kind != "structure"), Claim("tolerance")) for member in members]
    for kind in ("metric", "tolerance", "equality"):
        found = [claim for claim in claims if claim.kind == kind]
        if found:
            return (found[0],)
    return ()
