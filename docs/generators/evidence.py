"""Certificates of the rules of a pass."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any

from generators.markdown import code, escaped, table
from onnx_passes.core.registry import Entry

_CERTIFICATES = "onnx_passes.proofs.rule_certificate"
_LEVELS = {
    "equality": "the old and the new nodes run side by side on values from the model: results are bit-equal, "
    "or the run fails",
    "tolerance": "the model is compared with the original: results differ by rounding only, or the run fails",
    "metric": "the metric is measured on a dataset, before and after",
}


def evidence(entry: Entry) -> Iterable[str]:
    """Yield a section on evidence: the checks of every run, and the proofs for all inputs."""
    checked = [f"- {code(claim)}: {_LEVELS[claim]}." for claim in map(_kind, entry.claims) if claim in _LEVELS]
    proved = _certificates(entry.name)
    if (not checked or entry.kind == "analysis") and not proved:
        return
    yield "## Evidence"
    yield "\n".join(checked)
    if proved:
        yield "Proved for all models, as certificates that are outdated when a rule changes:"
        yield table(("rule", "level", "method", "domain, or missing proof"), map(_row, proved.values()))


def _kind(claim: str) -> str:
    return claim.partition("(")[0].partition("{")[0].strip()


def _certificates(name: str) -> Mapping[str, Any]:
    """Return the certificates of a pass by rule; empty in a build without proofs."""
    if importlib.util.find_spec(_CERTIFICATES) is None:
        return {}
    held = importlib.import_module(_CERTIFICATES).certificates_of(name)
    return {} if held is None else held.rules


def _row(certificate: Any) -> tuple[str, str, str, str]:
    level = certificate.level + (f" under {', '.join(certificate.flags)}" if certificate.flags else "")
    about = str(certificate.domain) if certificate.is_proved else certificate.missing
    return code(certificate.rule), level, escaped(certificate.method), escaped(about)
