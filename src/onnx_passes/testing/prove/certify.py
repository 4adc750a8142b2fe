"""Write certificates: prove the rules of passes and record the results.

As a program, from the root of the sources, it writes the page of all laws and rules.
"""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Literal

from onnx_passes.core.base import Pass
from onnx_passes.core.build import collect
from onnx_passes.core.errors import UsageError
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.registry import REGISTRY
from onnx_passes.proofs.rule_certificate import (
    PassCertificates,
    RuleCertificate,
    certificates_of,
    path_of,
)
from onnx_passes.proofs.sources import modules_of, numbered, sources_of
from onnx_passes.report.evidence import evidence, laws_page
from onnx_passes.testing.fuzz.targets import FuzzTarget, registered, targets_of
from onnx_passes.testing.prove.family import FamilyEffort
from onnx_passes.testing.prove.prover import Engine, RuleVerdict, engine, prove

PAGE = Path("docs") / "reference" / "laws.md"
Anew = Literal["all", "open", "stale"]
_REWRITES = re.compile(r"Rewrites:(.*?)(?:\n\s*\w+:|\Z)", re.DOTALL)


def pass_of(target: FuzzTarget) -> str:
    """Return the name of the pass that a rule is from."""
    return target.name.partition("/")[0]


def passes_to_prove() -> list[str]:
    """List the passes that have rules, by name."""
    return sorted({pass_of(target) for target in registered()})


def certify(
    pass_name: str,
    wanted: Sequence[str] = (),
    *,
    anew: Anew = "all",
    by: Engine | None = None,
    effort: FamilyEffort | None = None,
) -> tuple[PassCertificates, list[RuleVerdict]]:
    """Prove the rules of a pass, or only the wanted ones; certificates of other rules are kept.

    Of the current certificates, ``anew`` renews all, only the unproved ones (``open``), or none (``stale``).
    """
    pass_ = _pass_named(pass_name)
    targets = targets_of(pass_name)
    names = numbered([target.rule.name for target in targets])
    sources = sources_of(pass_, names)
    held = certificates_of(pass_name)
    known = {} if held is None else {name: each for name, each in held.rules.items() if not each.void}
    rules: dict[str, RuleCertificate] = {}
    verdicts: list[RuleVerdict] = []
    for name, target in zip(names, targets, strict=True):
        before = known.get(name)
        is_wanted = not wanted or target.name in wanted or pass_name in wanted
        if not is_wanted or _is_kept(before, sources[name], anew):
            if before is not None:
                rules[name] = before
            continue
        verdict = prove(target, by or engine, effort=effort)
        verdicts.append(verdict)
        rules[name] = _certificate(name, sources[name], _statement(pass_, name, names), verdict)
    # Whoever finds all modules as they were does not look at the digests of rules.
    are_current = all(each.source == sources[name] for name, each in rules.items())
    modules = modules_of(pass_, names) if are_current else {}
    return PassCertificates(pass_name, solver(), modules, rules), verdicts


def _is_kept(before: RuleCertificate | None, source: str, anew: Anew) -> bool:
    """Return whether a certificate is current and need not be renewed."""
    if before is None or before.source != source:
        return False
    return anew == "stale" or (anew == "open" and before.is_proved)


def certify_all(
    passes: Iterable[str],
    wanted: Sequence[str],
    done: Callable[[PassCertificates, list[RuleVerdict]], None],
    *,
    anew: Anew = "all",
    jobs: int = 1,
    imports: Sequence[str] = (),
) -> None:
    """Prove the rules of passes in processes that import modules first; call ``done`` with the results of each pass."""
    if jobs <= 1:
        for name in passes:
            done(*certify(name, wanted, anew=anew))
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, import_user_modules, (imports,)) as pool:
        waiting = [pool.submit(_certify_remotely, name, wanted, anew) for name in passes]
        for future in as_completed(waiting):
            done(*future.result())


def _certify_remotely(pass_name: str, wanted: Sequence[str], anew: Anew) -> tuple[PassCertificates, list[RuleVerdict]]:
    """Return the certificates of a pass without its verdicts: rules and models cannot be sent between processes."""
    certificates, _ = certify(pass_name, wanted, anew=anew)
    return certificates, []


def write(certificates: PassCertificates) -> None:
    """Write the certificates of a pass to the file that runs read."""
    path = path_of(certificates.name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(certificates.to_text(), encoding="utf-8")


def solver() -> str:
    """Name the solver and its version. Raises UsageError if it is not installed."""
    try:
        return f"z3 {importlib.metadata.version('z3-solver')}"
    except importlib.metadata.PackageNotFoundError:
        hint = "pip install 'onnx-passes[prove]'"
        raise UsageError("rules are proved by the solver z3, which is not installed", hint=hint) from None


def _pass_named(name: str) -> Pass:
    (pass_,) = collect(name)
    return pass_


def _certificate(name: str, source: str, statement: str, verdict: RuleVerdict) -> RuleCertificate:
    flags = tuple(sorted(verdict.target.fast_math))
    empty = RuleCertificate(name, statement, source, flags=flags)
    if not verdict.is_proved:
        return replace(empty, missing=verdict.missing)
    return replace(
        empty,
        method=verdict.method,
        instances=len(verdict.proved),
        domain=verdict.domain,
        assumes=tuple(sorted(verdict.assumed)),
    )


def _statement(pass_: Pass, name: str, names: Sequence[str]) -> str:
    """Return the text of a law, or the *Rewrites* sentence of the documentation of a pass."""
    laws = REGISTRY.find(pass_.name).entries[0].laws
    if laws and len(laws) == len(names):
        return laws[names.index(name)]
    text = type(pass_).__doc__ or name
    told = _REWRITES.search(text)
    return " ".join((text.partition("\n")[0] if told is None else told[1]).split())


if __name__ == "__main__":
    PAGE.write_text(laws_page(evidence()), encoding="utf-8")
