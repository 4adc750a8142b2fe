"""Look up what is proved of a rule when it is applied; a certificate of another source than that of now is none."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from onnx_passes.core.base import Pass
from onnx_passes.core.options import format_options
from onnx_passes.proofs.rule_certificate import PassCertificates, RuleCertificate, certificates_of
from onnx_passes.proofs.rule_sources import sources_of
from onnx_passes.proofs.sources import in_scope, module_digest


def certificate_of(pass_: Pass, rule: str) -> RuleCertificate | None:
    """Return what is proved of a rule of a pass as it is now, with the options that it has; or nothing.

    Where several rules of the pass have one name, that is the certificate of the first if all of them are proved.
    """
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
    if _is_untouched(held):
        return held.rules
    sources = sources_of(pass_, list(held.rules))
    return {name: each for name, each in held.rules.items() if sources.get(name) == each.source}


def _is_untouched(held: PassCertificates) -> bool:
    """Tell whether the files that the rules are from are those of the certificates: then nothing else need be asked."""
    return bool(held.modules) and all(module_digest(name) == digest for name, digest in held.modules.items())
