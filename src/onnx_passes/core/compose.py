"""Sequences of passes, run in order or repeated until nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeAlias

import onnx_ir as ir

from onnx_passes.core.base import Context, Pass, PassResult
from onnx_passes.core.errors import OptionError
from onnx_passes.core.naming import kebab
from onnx_passes.core.options import format_options, internal, option
from onnx_passes.core.skipping import Skipping
from onnx_passes.graph.hashing.fingerprint import Fingerprinter

PassLike: TypeAlias = "str | type[ir.passes.PassBase] | ir.passes.PassBase"


class ComposePass(Pass):
    """Sequence of the passes in ``passes``; ``exhaustive`` repeats it to a fixpoint."""

    kind = "sequence"
    passes: ClassVar[Sequence[PassLike]] = ()
    exhaustive: ClassVar[bool] = False
    takes_body = True
    rounds: ClassVar[int] = 100

    body: tuple[PassLike, ...] = internal(())
    member_options: Mapping[str, object] = internal(default_factory=dict)

    def __post_init__(self) -> None:
        self.body = tuple(self.body) or tuple(self.passes)

    @property
    def in_place(self) -> bool:
        """Return whether all members return the model that they were given. For onnx_ir."""
        from onnx_passes.core.build import collect

        return all(member.in_place for member in collect(self.body))

    @property
    def at_most(self) -> int:
        """Return the maximum number of rounds."""
        return self.rounds if self.exhaustive else 1

    def call(self, model: ir.Model) -> PassResult:
        """Run alone, in a manager of its own."""
        from onnx_passes.core.manager import Manager
        from onnx_passes.core.plan import plan

        outcome = Manager().run(plan([self]), model)
        return PassResult(outcome.model, outcome.record.modified)

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Run the members until a round changes nothing, a state recurs, or the rounds are used up.

        A round that only annotated is followed by another: its annotations may enable other members. States are
        compared from the second round on: most fixpoints are reached by the first, and a state is a walk over the whole
        model.
        """
        assert context.run_children is not None
        identity = Fingerprinter.within_run()
        last: object = None
        seen: set[object] = set()
        modified = only_annotated = False
        for round_number in range(1, self.at_most + 1):
            result = context.run_children(model)
            model = result.model
            modified |= result.modified
            if not result.modified or self.at_most == 1:
                break
            if round_number == 1:
                continue
            state = identity.structure(model)
            if state in seen and state != last:
                context.note(f"stopped: round {round_number} returned to an earlier state")
                break
            if state == last and only_annotated:
                break
            only_annotated = state == last
            seen.add(state)
            last = state
        else:
            context.note(f"stopped after {self.at_most} rounds, still changing")
        return PassResult(model, modified)


class Group(ComposePass):
    """Members of a group, in registration order."""

    label: str = internal("group")

    @property
    def name(self) -> str:
        """Return the name of the group."""
        return self.label


class Skip(ComposePass):
    """Run the nested passes without some passes, groups or rules."""

    names: tuple[str, ...] = option((), "passes, groups, or rules as pass/rule; * and ? stand for anything")
    skipping: Skipping | None = internal(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.names:
            raise OptionError("pass 'skip' needs names", hint="as in skip{names=[fuse-bias]}(simplify)")
        self.skipping = self.skipping or Skipping(self.names)

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Run the members, and note the skipped names."""
        context.note(f"left out: {', '.join(self.names)}")
        return super().run(model, context)

    def __str__(self) -> str:
        return f"{self.name}{format_options(self)}({', '.join(_text(member) for member in self.body)})"


class Shuffle(ComposePass):
    """Run the nested passes with nodes in a random order."""

    seed: int = option(0, "seed of the order")

    def __post_init__(self) -> None:
        super().__post_init__()
        for member in _members(self.body):
            vars(member)["shuffle_seed"] = self.seed

    def __str__(self) -> str:
        return f"{self.name}{format_options(self)}({', '.join(_text(member) for member in self.body)})"


class Fixpoint(ComposePass):
    """Repeat the nested passes until the structure of the model no longer changes."""

    max: int = option(100, "maximum number of rounds")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max < 1:
            raise OptionError(f"option 'max' of pass '{self.name}' does not take {self.max}", hint="it takes 1 or more")

    @property
    def at_most(self) -> int:
        """Return the maximum number of rounds."""
        return self.max

    def __str__(self) -> str:
        return f"{self.name}{format_options(self)}({', '.join(_text(member) for member in self.body)})"


def _members(body: Iterable[PassLike]) -> Iterator[Pass]:
    """Yield the passes of a sequence, at any depth."""
    for member in body:
        if isinstance(member, Pass):
            yield member
        if isinstance(member, ComposePass):
            yield from _members(member.body)


def _text(member: PassLike) -> str:
    if isinstance(member, type):
        return getattr(member, "text_name", "") or kebab(member.__name__)
    return str(member)
