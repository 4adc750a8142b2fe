"""Certificates of rules: the proof of each rule of a pass, its domain and method, in one small file for each pass.

The files lie outside of the code: in the folder ``certificates`` of a checkout, which a wheel brings inside of the
package. A certificate holds for the source that the rule had when it was proved, and as it was written: the digest of
the rule and the seal of the file are computed anew before it counts.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from onnx_passes.core.errors import UnknownPassError
from onnx_passes.proofs.proof import Assumption, Proof
from onnx_passes.proofs.sources import in_scope, module_digest, rules_named, sources_of

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass


_PACKAGE = Path(__file__).parents[1]
FOLDER = next(
    (folder for up in (_PACKAGE, _PACKAGE.parents[1]) if (folder := up / "certificates").is_dir()),
    _PACKAGE / "certificates",
)
"""Where certificates are kept: in the package if it was installed from a wheel, else at the top of the checkout."""
STALE = "the source of the rule has changed since it was proved"
EDITED = "its file was changed after it was written"
REALS = "identity over the reals"
"""The method of a rule whose pass promises a tolerance: what differs in floats is rounding."""


_KINDS = {
    "integers": frozenset(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)),
    "floats": frozenset({"bfloat16", "double", "float", "float16"}),
}
"""Element types that are named together where all are meant."""


@dataclass(frozen=True)
class Domain:
    """Domain of a proof: element types, ranks and sizes of tensors, constants, and operator sets."""

    types: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    constants: tuple[str, ...] = ()
    opsets: tuple[int, ...] = ()

    def covers(self, types: Collection[str], ranks: Collection[int], opset: int) -> bool:
        """Return whether tensors lie in the domain; of sizes and constants the proof holds in general."""
        within = bool(self.opsets) and min(self.opsets) <= opset <= max(self.opsets)
        return within and set(types) <= set(self.types) and set(ranks) <= set(self.ranks)

    def __str__(self) -> str:
        parts = [_kinds(self.types), f"ranks {_span(self.ranks)}", f"sizes {_span(self.sizes)}"]
        if self.constants:
            parts.append(f"constants {', '.join(self.constants)}")
        parts.append(f"opsets {_span(self.opsets)}")
        return "; ".join(part for part in parts if part)


_BY_FLOATS = ("solver (floats)", "exhaustive")
"""Methods that look at floats, not at real numbers."""


@dataclass(frozen=True)
class RuleCertificate:
    """Certificate of one rule; ``missing`` is the reason if the rule is not proved.

    ``source`` is the digest of the definitions of the rule, ``flags`` are the liberties that its pass declares,
    ``assumes`` are the assumptions of the proof about operators.
    """

    rule: str
    statement: str
    source: str
    method: str = ""
    instances: int = 0
    domain: Domain = field(default_factory=Domain)
    flags: tuple[str, ...] = ()
    assumes: tuple[Assumption, ...] = ()
    missing: str = ""
    void: str = ""
    """Why the certificate is none, such as ``STALE``; never written down."""

    @property
    def is_proved(self) -> bool:
        """Return whether it is a proof of the rule as it is."""
        return not self.missing and not self.void

    @property
    def level(self) -> str:
        """Return the level of an application of the rule."""
        if self.void:
            return "stale" if self.void == STALE else "edited"
        found = self.proof()
        return "unproved" if found is None else found.level

    @property
    def lacks(self) -> str:
        """Return why it is not a proof; empty if it is one."""
        return self.void or self.missing

    def proof(self) -> Proof | None:
        """Return the proof for every application in the domain; None if the rule is not proved."""
        if not self.is_proved:
            return None
        facts = [f"{self.rule}: certificate {self.source}", f"domain: {self.domain}"]
        if self.flags:
            facts.append(f"flags: {', '.join(self.flags)}")
        holds = "equal-in-reals" if self.method.startswith(REALS) else "proved"
        # Floats that were compared one by one say nothing of numbers between them.
        by_floats = any(method in self.method for method in _BY_FLOATS)
        return Proof(
            holds,
            self.method,
            tuple(facts),
            assumptions=self.assumes,
            semantics=("bits",) if by_floats else (),
            is_of_rule=True,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        domain = {name: list(values) for name, values in vars(self.domain).items()}
        plain = {
            **vars(self),
            "flags": list(self.flags),
            "assumes": {each.text: each.leaves for each in self.assumes},
            "domain": {k: v for k, v in domain.items() if v},
        }
        return {
            key: value for key, value in plain.items() if key not in ("rule", "void") and value not in ("", 0, [], {})
        }

    @staticmethod
    def from_json(rule: str, data: Mapping[str, Any]) -> RuleCertificate:
        """Read the result of ``to_json``."""
        domain: Mapping[str, Sequence[Any]] = data.get("domain", {})
        return RuleCertificate(
            rule,
            data["statement"],
            data["source"],
            data.get("method", ""),
            data.get("instances", 0),
            Domain(**{name: tuple(values) for name, values in domain.items()}),
            tuple(data.get("flags", ())),
            tuple(Assumption(text, leaves) for text, leaves in dict(data.get("assumes", {})).items()),
            data.get("missing", ""),
        )


@dataclass(frozen=True)
class PassCertificates:
    """The certificates of the rules of a pass, in their order; ``modules`` are digests of the files they are from."""

    name: str
    solver: str
    modules: Mapping[str, str]
    rules: Mapping[str, RuleCertificate]

    def to_text(self) -> str:
        """Write them, a line for each list, so that differences are easy to read."""
        rules = {name: certificate.to_json() for name, certificate in self.rules.items()}
        data = {"solver": self.solver, "modules": dict(sorted(self.modules.items())), "rules": rules}
        return _text({"seal": _seal(self.name, data), **data}) + "\n"

    @staticmethod
    def from_text(name: str, text: str) -> PassCertificates:
        """Read the result of ``to_text``; certificates of a file that was edited since do not count."""
        data = json.loads(text)
        void = "" if data.pop("seal", "") == _seal(name, data) else EDITED
        rules = {
            rule: replace(RuleCertificate.from_json(rule, each), void=void) for rule, each in data["rules"].items()
        }
        return PassCertificates(name, data["solver"], data["modules"], rules)


def _seal(name: str, data: Mapping[str, Any]) -> str:
    """Return the digest of a file, which protects it against accidental edits only."""
    plain = json.dumps([name, data], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def path_of(pass_name: str) -> Path:
    """Return where the certificates of a pass are kept."""
    return FOLDER / f"{pass_name}.json"


@functools.cache
def certificates_of(pass_name: str) -> PassCertificates | None:
    """Read the certificates of a pass, if it has any."""
    path = path_of(pass_name)
    return PassCertificates.from_text(pass_name, path.read_text(encoding="utf-8")) if path.is_file() else None


def certified_passes() -> list[str]:
    """List the passes that have certificates."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def all_certificates() -> Iterator[PassCertificates]:
    """Read the certificates of all passes, by name."""
    return (found for name in certified_passes() if (found := certificates_of(name)) is not None)


def _text(data: object, depth: int = 0) -> str:
    """Write JSON: mappings with a line for each entry, lists in one line."""
    if not isinstance(data, dict) or not data:
        return json.dumps(data, ensure_ascii=False)
    inner = " " * (depth + 1)
    entries = cast(dict[str, object], data).items()
    lines = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {_text(value, depth + 1)}" for key, value in entries]
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


def _kinds(types: Collection[str]) -> str:
    """Write element types, those of a kind as one."""
    left = list(types)
    found: list[str] = []
    for name, members in _KINDS.items():
        if members <= set(left):
            found.append(name)
            left = [each for each in left if each not in members]
    return ", ".join([*found, *left])


def _span(numbers: tuple[int, ...]) -> str:
    """Write numbers, those in a row as a span: 0–4."""
    parts: list[str] = []
    rest = sorted(numbers)
    while rest:
        count = next((i for i, number in enumerate(rest) if number != rest[0] + i), len(rest))
        parts.append(str(rest[0]) if count == 1 else f"{rest[0]}{'–' if count > 2 else ', '}{rest[count - 1]}")
        rest = rest[count:]
    return ", ".join(parts)


def certificate_of(pass_: Pass, rule: str) -> RuleCertificate | None:
    """Return the current certificate of a rule of a pass without options; None if the rule is not proved.

    Where several rules of the pass have one name, that is the certificate of the first if all of them are proved.
    """
    from onnx_passes.core.options import format_options

    if not _is_of_module(type(pass_)) or format_options(pass_):
        return None
    found = [each for name, each in _current(type(pass_)).items() if name.partition("#")[0] == rule]
    is_complete = len(found) >= rules_named(pass_, rule)
    return found[0] if found and is_complete and all(each.is_proved for each in found) else None


def _is_of_module(cls: type[Pass]) -> bool:
    """Return whether a module in scope defines a class under its name; a class may merely claim so."""
    module = cls.__module__
    found: object = sys.modules.get(module) if in_scope(module) else None
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls


@functools.cache
def _current(cls: type[Pass]) -> Mapping[str, RuleCertificate]:
    """Return the certificates of a pass, marked where they are none."""
    pass_ = cls()
    held = certificates_of(pass_.name)
    return {} if held is None else _marked(held, lambda: pass_)


@functools.cache
def current_certificates(pass_name: str) -> PassCertificates | None:
    """Return the certificates of a pass by its name, marked as stale where the source of the rule has changed.

    The pass itself is imported only if a file has changed that its rules are from.
    """
    held = certificates_of(pass_name)
    return None if held is None else replace(held, rules=_marked(held, lambda: _pass_named(pass_name)))


def _marked(held: PassCertificates, find: Callable[[], Pass | None]) -> Mapping[str, RuleCertificate]:
    if _is_untouched(held):
        return held.rules
    pass_ = find()
    sources = {} if pass_ is None else sources_of(pass_, list(held.rules))
    stale = {name: replace(each, void=STALE) for name, each in held.rules.items() if sources.get(name) != each.source}
    return {name: each if each.void else stale.get(name, each) for name, each in held.rules.items()}


def _pass_named(name: str) -> Pass | None:
    from onnx_passes.core.build import collect

    try:
        (pass_,) = collect(name)
    except (UnknownPassError, ValueError):
        return None
    return pass_


def _is_untouched(held: PassCertificates) -> bool:
    """Return whether the modules that the rules are from have not changed: then their digests have not, either."""
    return bool(held.modules) and all(module_digest(name) == digest for name, digest in held.modules.items())
