"""Look up what is proved of a rule when it is applied; a certificate of another source than that of now is none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_passes.core.errors import UnknownPassError
from onnx_passes.proofs.rule_certificate import PassCertificates, RuleCertificate, certificates_of
from onnx_passes.proofs.rule_sources import sources_of
from onnx_passes.proofs.sources import in_scope, module_digest

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass


def certificate_of(pass_: Pass, rule: str) -> RuleCertificate | None:
    """Return what is proved of a rule of a pass as it is now, with the options that it has; or nothing.

    Where several rules of the pass have one name, that is the certificate of the first if all of them are proved.
    """
    from onnx_passes.core.options import format_options

    module = type(pass_).__module__
    if not in_scope(module) or format_options(pass_):
        return None
    found = [each for name, each in _current(type(pass_)).items() if name.partition("#")[0] == rule]
    return found[0] if found and all(each.is_proved for each in found) else None


@functools.cache
def _current(cls: type[Pass]) -> Mapping[str, RuleCertificate]:
    """Return the certificates of a pass whose source has not changed."""
    pass_ = cls()
    held = certificates_of(pass_.name)
    if held is None:
        return {}
    return {name: each for name, each in _marked(held, lambda: pass_).items() if not each.stale}


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
    return {name: replace(each, stale=sources.get(name) != each.source) for name, each in held.rules.items()}


def _pass_named(name: str) -> Pass | None:
    from onnx_passes.core.build import collect

    try:
        (pass_,) = collect(name)
    except (UnknownPassError, ValueError):
        return None
    return pass_


def _is_untouched(held: PassCertificates) -> bool:
    """Tell whether the files that the rules are from are those of the certificates: then nothing else need be asked."""
    return bool(held.modules) and all(module_digest(name) == digest for name, digest in held.modules.items())
