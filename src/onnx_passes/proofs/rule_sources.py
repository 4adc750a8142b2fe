"""What the rules of a pass are made of: a law of its text and the functions it calls, another rule of its pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from onnx_passes.proofs.sources import Definition, closure, digest_of, module_digest

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass

_CALLED = re.compile(r"(\w+)\(")


class LawText(Protocol):
    """A rule as text, ``before → after``."""

    @property
    def rule_name(self) -> str:
        """Return the name of the rule."""
        ...

    @property
    def text(self) -> str:
        """Return both sides."""
        ...

    @property
    def when(self) -> Sequence[Any]:
        """Return the conditions."""
        ...

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions that it may call."""
        ...

    @property
    def kinds(self) -> Mapping[str, Sequence[str]]:
        """Return the operators that a name stands for."""
        ...

    @property
    def commute(self) -> bool:
        """Tell whether operands may be exchanged."""
        ...


@runtime_checkable
class _Lawful(Protocol):
    """A pass that is a table of laws."""

    def chosen(self) -> Sequence[LawText]:
        """Return the laws that the options ask for."""
        ...


@runtime_checkable
class Reaching(Protocol):
    """A pass whose rules reach definitions that no source names: what is registered for an operator."""

    def reaches(self, rule: str) -> Sequence[Definition]:
        """Return the definitions that a rule reaches by its name."""
        ...


def _reached(pass_: Pass, rule: str) -> Sequence[Definition]:
    return pass_.reaches(rule.partition("#")[0]) if isinstance(pass_, Reaching) else ()


def sources_of(pass_: Pass, rules: Sequence[str]) -> dict[str, str]:
    """Map rules of a pass, those of one name numbered, to the digest of what they are made of."""
    promise = ",".join([*(claim.kind for claim in pass_.claims), *pass_.fast_math])
    if not isinstance(pass_, _Lawful):
        return {rule: digest_of([definition_of(pass_), *_reached(pass_, rule)], promise) for rule in rules}
    laws = pass_.chosen()
    names = numbered([law.rule_name for law in laws])
    return {name: _digest(law, promise) for name, law in zip(names, laws, strict=True) if name in rules}


def modules_of(pass_: Pass, rules: Sequence[str]) -> dict[str, str]:
    """Map the modules that rules of a pass are from to digests of their files."""
    definitions = [definition_of(pass_)]
    if isinstance(pass_, _Lawful):
        definitions += [each for law in pass_.chosen() for each in called_by(law)]
    definitions += [each for rule in rules for each in _reached(pass_, rule)]
    modules = {module for module, _ in closure(definitions)}
    return {module: digest for module in sorted(modules) if (digest := module_digest(module)) is not None}


def definition_of(pass_: Pass) -> Definition:
    """Return where the class of a pass is defined."""
    return type(pass_).__module__, type(pass_).__qualname__


def called_by(law: LawText) -> list[Definition]:
    """List the functions that a law calls."""
    texts = [law.text, *(condition.text for condition in law.when)]
    names = {name for text in texts for name in _CALLED.findall(text)} & set(law.functions)
    functions = [law.functions[name] for name in sorted(names)]
    return [(function.__module__, function.__name__) for function in functions]


def _digest(law: LawText, promise: str) -> str:
    kinds = [f"{name}={','.join(law.kinds[name])}" for name in sorted(law.kinds) if f"{name}(" in law.text]
    texts = (law.text, *(condition.text for condition in law.when), *kinds, f"commute={law.commute}")
    return digest_of(called_by(law), promise, *texts)


def numbered(names: Sequence[str]) -> list[str]:
    """Tell rules of a pass that have one name apart: the second one is ``rule#2``."""
    return [f"{name}#{before + 1}" if (before := names[:at].count(name)) else name for at, name in enumerate(names)]
