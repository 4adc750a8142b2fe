"""Certificates: what is proved of the rules of a pass, for what, and how; one small file for each pass."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from onnx_passes.proofs.proof import Assumption, Proof

FOLDER = Path(__file__).parent / "certificates"
REALS = "identity over the reals"
"""The method of a rule whose pass promises a tolerance: what differs in floats is rounding."""


_KINDS = {
    "integers": frozenset(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)),
    "floats": frozenset({"bfloat16", "double", "float", "float16"}),
}
"""Element types that are named together where all are meant."""


@dataclass(frozen=True)
class Domain:
    """What a proof covers: element types, ranks and sizes of tensors, constants, and operator sets."""

    types: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    constants: tuple[str, ...] = ()
    opsets: tuple[int, ...] = ()

    def covers(self, types: Collection[str], ranks: Collection[int], opset: int) -> bool:
        """Tell whether tensors lie in the domain; of sizes and constants the proof holds in general."""
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
    """What is known of one rule; ``missing`` says why it is not proved, where it is not.

    ``source`` is the digest of what the rule is made of, ``flags`` are the liberties that its pass declares,
    ``assumes`` is what the proof takes for granted of operators.
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
    stale: bool = False
    """The source of the rule has changed since, so that the certificate is none; never written down."""

    @property
    def is_proved(self) -> bool:
        """Return whether it is a proof of the rule as it is."""
        return not self.missing and not self.stale

    @property
    def level(self) -> str:
        """Return what an application of the rule is known to be."""
        if self.stale:
            return "stale"
        found = self.proof()
        return "unproved" if found is None else found.level

    @property
    def lacks(self) -> str:
        """Return why it is not a proof; empty if it is one."""
        return "the source of the rule has changed since it was proved" if self.stale else self.missing

    def proof(self) -> Proof | None:
        """Return what it proves of every application in its domain."""
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
        """Return plain data, without what is empty."""
        domain = {name: list(values) for name, values in vars(self.domain).items()}
        plain = {
            **vars(self),
            "flags": list(self.flags),
            "assumes": {each.text: each.leaves for each in self.assumes},
            "domain": {k: v for k, v in domain.items() if v},
        }
        return {key: value for key, value in plain.items() if key != "rule" and value not in ("", 0, [], {})}

    @staticmethod
    def from_json(rule: str, data: Mapping[str, Any]) -> RuleCertificate:
        """Read what ``to_json`` wrote."""
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
        return _text({"solver": self.solver, "modules": dict(sorted(self.modules.items())), "rules": rules}) + "\n"

    @staticmethod
    def from_text(name: str, text: str) -> PassCertificates:
        """Read what ``to_text`` wrote."""
        data = json.loads(text)
        rules = {rule: RuleCertificate.from_json(rule, each) for rule, each in data["rules"].items()}
        return PassCertificates(name, data["solver"], data["modules"], rules)


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
