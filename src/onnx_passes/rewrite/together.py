"""The rules of several passes as one: a single worklist, instead of one sweep over the graph after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from onnx_passes.core.base import Pass, Transformation
from onnx_passes.core.build import collect
from onnx_passes.core.claims import Claim
from onnx_passes.core.compose import ComposePass, PassLike
from onnx_passes.core.errors import UsageError
from onnx_passes.core.options import internal
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


class Together(Transformation, RewriteRuleSetPass):
    """Apply the rules of the passes in ``body`` together; each rewrite is held to the claim of the pass it is from."""

    takes_body = True
    passes: ClassVar[Sequence[PassLike]] = ()

    body: tuple[PassLike, ...] = internal(())
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
        return self.name if self.passes else f"{self.name}({', '.join(map(str, collect(self.body)))})"

    def rules(self) -> Sequence[Rule]:
        """Return the rules of all members, in their order."""
        rules: list[Rule] = []
        for member in self.members:
            for rule in member.rules():
                rule.owner = member
                rules.append(rule)
        return rules


def _rule_passes(passes: Sequence[Pass]) -> Iterator[RewriteRuleSetPass]:
    for pass_ in passes:
        if isinstance(pass_, RewriteRuleSetPass):
            yield pass_
        elif isinstance(pass_, ComposePass) and pass_.at_most == 1:
            yield from _rule_passes(collect(pass_.body))
        else:
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
