"""The dependency plan: requested passes, their prerequisites and their follow-up passes, in a stable order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from onnx_passes.core.base import ALL, Pass
from onnx_passes.core.build import PassBuilder
from onnx_passes.core.claims import ClaimKind
from onnx_passes.core.compose import ComposePass, PassLike
from onnx_passes.core.defaults import Defaults, refuse_unused, resolve_names
from onnx_passes.core.errors import PlanError
from onnx_passes.core.naming import fold

Reason = Literal["requested", "needed", "follows", "member"]


@dataclass(frozen=True)
class Why:
    """Reason why a step is in the plan."""

    reason: Reason
    by: str = ""

    def __str__(self) -> str:
        return {
            "requested": "requested",
            "needed": f"needed by {self.by}",
            "follows": f"follows {self.by}",
            "member": f"member of {self.by}",
        }[self.reason]


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One pass of the plan; a sequence contains the plan of its members."""

    pass_: Pass
    why: Why
    children: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        members = f", {len(self.children)} members" if self.children else ""
        return f"<Step {self.name}: {self.why}{members}>"

    @cached_property
    def name(self) -> str:
        """Return the name of the pass."""
        return self.pass_.name

    @cached_property
    def text(self) -> str:
        """Return the pass with its options as pipeline text."""
        return str(self.pass_)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Step]]:
        """Iterate over this step and all nested ones, with their depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


@dataclass(frozen=True)
class Plan:
    """Steps in order, and the pipeline that they come from."""

    steps: tuple[Step, ...] = field(repr=False)
    pipeline: str

    @property
    def requested(self) -> list[Pass]:
        """Return the requested passes, without their prerequisites and follow-up passes."""
        return [step.pass_ for step in self.steps if step.why.reason == "requested"]

    def claims(self, kind: ClaimKind) -> bool:
        """Return whether any pass makes a claim of this kind."""
        return any(claim.kind == kind for _, step in self.walk() for claim in step.pass_.claims)

    def walk(self) -> Iterator[tuple[int, Step]]:
        """Iterate over all steps with their depth."""
        for step in self.steps:
            yield from step.walk()


def plan(
    passes: Iterable[PassLike] | PassLike, *, defaults: Defaults | None = None, optional: Iterable[str] = ()
) -> Plan:
    """Order passes, with all that they need before them and all that follow them.

    ``defaults`` sets options by pass name; options of a pass that is not in the plan are an error, unless ``optional``
    names that pass.
    """
    resolved = resolve_names(defaults or {})
    builder = PassBuilder(resolved)
    requested = builder.collect(passes)
    steps = _Planner(builder).sequence(requested, Why("requested"))
    refuse_unused(resolved, builder.made | set(map(fold, optional)))
    return Plan(tuple(steps), ", ".join(str(p) for p in requested))


class ValidPasses:
    """Passes, with their options, that have run and whose results are still valid."""

    def __init__(self) -> None:
        self._holding: dict[str, str] = {}

    def __contains__(self, pass_: Pass) -> bool:
        return str(pass_) in self._holding

    def after(self, pass_: Pass, *, modified: bool) -> None:
        """Drop the results that a pass which changed the model does not preserve, and add the pass itself."""
        if modified and not set(ALL) <= set(pass_.preserves):
            preserved = {fold(name) for name in pass_.preserves}
            self._holding = {text: name for text, name in self._holding.items() if fold(name) in preserved}
        self._holding[str(pass_)] = pass_.name

    def copy(self) -> ValidPasses:
        """Return an independent copy."""
        facts = ValidPasses()
        facts._holding = dict(self._holding)
        return facts

    def restrict(self, other: ValidPasses) -> None:
        """Drop the results that are not valid there."""
        self._holding = {text: name for text, name in self._holding.items() if text in other._holding}


class _Planner:
    """Plans as if every transformation changed the model; the manager skips steps that turn out to be unnecessary."""

    def __init__(self, builder: PassBuilder) -> None:
        self.builder = builder
        self.facts = ValidPasses()
        self.open: list[str] = []
        self.made: dict[tuple[str, ...], list[Pass]] = {}

    def sequence(self, passes: Iterable[Pass], why: Why) -> list[Step]:
        steps: list[Step] = []
        items = list(passes)
        for index, pass_ in enumerate(items):
            following = items[index + 1].name if index + 1 < len(items) else None
            steps.extend(self.one(pass_, why, following))
        return steps

    def one(self, pass_: Pass, why: Why, following: str | None = None) -> Iterator[Step]:
        self.enter(pass_)
        for needed in self.named(pass_.needs):
            if needed not in self.facts:
                yield from self.one(needed, Why("needed", pass_.name))
        children: tuple[Step, ...] = ()
        if isinstance(pass_, ComposePass):
            if pass_.at_most > 1:
                self.facts = ValidPasses()  # A result that is valid in the first round may be invalid in the next.
            with self.builder.skipping(pass_):
                children = tuple(self.sequence(self.builder.collect(pass_.body), Why("member", pass_.name)))
            self.facts.after(pass_, modified=False)
        else:
            self.facts.after(pass_, modified=True)
        yield Step(pass_, why, children)
        for follower in self.named(pass_.followed_by):
            if follower.name != following and not self.builder.leaves_out(follower.name):
                before = self.facts.copy()
                yield from self.one(follower, Why("follows", pass_.name))
                self.facts.restrict(before)  # The manager skips it if nothing changed.
        self.open.pop()

    def named(self, names: Iterable[str]) -> list[Pass]:
        """Construct the passes that another one names; the same names give the same objects."""
        key = tuple(names)
        if key not in self.made:
            self.made[key] = self.builder.collect_all(key)
        return self.made[key]

    def enter(self, pass_: Pass) -> None:
        name = pass_.name
        if name in self.open and not _is_combinator(pass_):
            chain = " → ".join([*self.open[self.open.index(name) :], name])
            raise PlanError(
                f"passes depend on each other in a cycle: {chain}",
                hint="remove one of the 'needs', 'followed_by' or 'passes' declarations",
            )
        self.open.append(name)


def _is_combinator(pass_: Pass) -> bool:
    """Return whether a sequence got its members from outside, so that it may be nested in another one of its class."""
    return isinstance(pass_, ComposePass) and not pass_.passes
