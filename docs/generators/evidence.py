"""What is proved of the rules of a pass, as its certificates say."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_passes.core.registry import Entry


def evidence(entry: Entry) -> Iterable[str]:
    """Yield a section on certificates, where there are any."""
    return ()
