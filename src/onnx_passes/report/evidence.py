"""What is proved of the rules of the collection: a row for each, and the count; read from the certificates alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_passes.proofs.rule_certificate import RuleCertificate, all_certificates


@dataclass(frozen=True)
class EvidenceRow:
    """A rule of a pass, and its certificate."""

    pass_name: str
    certificate: RuleCertificate

    @property
    def name(self) -> str:
        """Return the name by which the rule can be proved or fuzzed."""
        return f"{self.pass_name}/{self.certificate.rule}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"rule": self.name, "level": self.certificate.level, **self.certificate.to_json()}


def evidence(words: Sequence[str] = ()) -> list[EvidenceRow]:
    """List what is known of all rules, or of those whose name contains all words."""
    rows = [EvidenceRow(held.name, each) for held in all_certificates() for each in held.rules.values()]
    return [row for row in rows if all(word.lower() in row.name.lower() for word in words)]


def summary(rows: Iterable[EvidenceRow]) -> str:
    """Say how many rules are proved, and what the others lack."""
    rows = list(rows)
    levels = Counter(row.certificate.level for row in rows)
    proved = len(rows) - levels["unproved"]
    share = f"{100 * proved / len(rows):.0f} %" if rows else "none"
    return (
        f"{proved} of {len(rows)} laws and rules are proved ({share}): "
        f"{levels['proved']} bit by bit, {levels['equal-in-reals']} over the reals"
    )


def missing(rows: Iterable[EvidenceRow]) -> list[tuple[str, int]]:
    """Count what the proofs of the others lack, the most frequent first."""
    reasons = Counter(row.certificate.missing for row in rows if not row.certificate.is_proved)
    return sorted(reasons.items(), key=lambda each: (-each[1], each[0]))


def laws_page(rows: Sequence[EvidenceRow]) -> str:
    """Write the page of all laws and rules, as Markdown."""
    lines = [
        "# Laws and rules, and what is proved of them",
        "",
        "Written by `make prove`; [certificates](../concepts/certificates.md) says what it means.",
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
    about = str(certificate.domain) if certificate.is_proved else certificate.missing
    statement = certificate.statement.replace("`", "")
    cells = (certificate.rule, f"`{statement}`", certificate.level + flags, certificate.method, about)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
