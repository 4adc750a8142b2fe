"""Certificates of the rules of the collection as rows, and their summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_passes.proofs.rule_certificate import RuleCertificate, certificates_of, certified_passes, current_certificates


@dataclass(frozen=True)
class EvidenceRow:
    """A rule of a pass, and its certificate."""

    pass_name: str
    certificate: RuleCertificate

    @property
    def name(self) -> str:
        """Return the name of the rule for ``prove`` and ``fuzz``."""
        return f"{self.pass_name}/{self.certificate.rule}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"rule": self.name, "level": self.certificate.level, **self.certificate.to_json()}


def evidence(words: Sequence[str] = ()) -> list[EvidenceRow]:
    """List the certificates of all rules, or of those whose name contains all words."""
    found: list[EvidenceRow] = []
    for pass_name in certified_passes():
        held = certificates_of(pass_name)
        rows = [EvidenceRow(pass_name, each) for each in (held.rules.values() if held is not None else ())]
        wanted = {row.certificate.rule for row in rows if all(word.lower() in row.name.lower() for word in words)}
        # Whether a source has changed is only asked where it is shown: it may take an import of the pass.
        current = current_certificates(pass_name) if wanted else None
        rules = () if current is None else current.rules.values()
        found += [EvidenceRow(pass_name, each) for each in rules if each.rule in wanted]
    return found


def summary(rows: Iterable[EvidenceRow]) -> str:
    """Return how many rules are proved, by level."""
    rows = list(rows)
    levels = Counter(row.certificate.level for row in rows)
    proved = levels["proved"] + levels["equal-in-reals"]
    share = f"{100 * proved / len(rows):.0f} %" if rows else "none"
    others = {"stale": "are stale", "edited": "are of files that were changed", "tested": "tested, on assumptions"}
    rest = "".join(f"; {levels[level]} {what}" for level, what in others.items() if levels[level])
    return (
        f"{proved} of {len(rows)} laws and rules are proved ({share}): "
        f"{levels['proved']} bit by bit, {levels['equal-in-reals']} over the reals{rest}"
    )


def missing(rows: Iterable[EvidenceRow]) -> list[tuple[str, int]]:
    """Count the reasons of missing proofs, the most frequent first."""
    reasons = Counter(row.certificate.lacks for row in rows if not row.certificate.is_proved)
    return sorted(reasons.items(), key=lambda each: (-each[1], each[0]))


def laws_page(rows: Sequence[EvidenceRow]) -> str:
    """Return the page of all laws and rules, as Markdown."""
    lines = [
        "# Laws and rules with their certificates",
        "",
        "Written by `make prove`. [Certificates](../concepts/certificates.md) explains the columns.",
        "",
        f"{summary(rows)}.",
        "",
    ]
    for pass_name in dict.fromkeys(row.pass_name for row in rows):
        lines += [f"## {pass_name}", "", "| rule | statement | level | method | domain |", "|---|---|---|---|---|"]
        lines += [_markdown(row.certificate) for row in rows if row.pass_name == pass_name]
        lines.append("")
    return "\n".join(lines)


def _markdown(certificate: RuleCertificate) -> str:
    flags = f" under {', '.join(certificate.flags)}" if certificate.flags else ""
    about = str(certificate.domain) if certificate.is_proved else certificate.lacks
    statement = certificate.statement.replace("`", "")
    cells = (certificate.rule, f"`{statement}`", certificate.level + flags, certificate.method, about)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
