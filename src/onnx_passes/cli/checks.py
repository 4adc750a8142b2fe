"""Verification as the command line and the configuration ask for it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_passes.core.errors import UsageError

if TYPE_CHECKING:
    from onnx_passes.cli.commands.run import Choices
    from onnx_passes.core.config import Config
    from onnx_passes.verify.verification import Limits, Verification


def verification_of(config: Config, asked: Choices) -> Verification | None:
    """Set up verification, or nothing if it is switched off."""
    if asked.verify == "off" or (asked.verify is None and config.verify is None):
        return None
    from onnx_passes.verify.execute import Executor, Profile
    from onnx_passes.verify.verification import Verification

    runtime = config.onnxruntime
    profile = Profile(runtime.providers or Profile.providers, runtime.provider_options, dict(runtime.session_options))
    return Verification(
        inputs=asked.inputs or config.reference.inp,
        expect=asked.expect or config.reference.out,
        seed=asked.seed,
        limits=_limits(config, asked.tolerance),
        mode="final" if asked.verify == "final" else "each",
        executor=Executor(profile),
        reproducer=Path(asked.repro),
    )


def _limits(config: Config, tolerance: str | None) -> Limits:
    from onnx_passes.verify.verification import Limits

    given = config.verify.tolerance if config.verify is not None else None
    atol = given.atol if given is not None and given.atol is not None else Limits.atol
    rtol = given.rtol if given is not None and given.rtol is not None else Limits.rtol
    return Limits(atol, rtol) if tolerance is None else parse_tolerance(tolerance, rtol=rtol)


def parse_tolerance(text: str, *, rtol: float) -> Limits:
    """Read ``ATOL`` or ``ATOL,RTOL``."""
    from onnx_passes.verify.verification import Limits

    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or not all(0 <= number < math.inf for number in numbers):
        raise UsageError(f"--tolerance does not take '{text}'", hint="it takes ATOL or ATOL,RTOL, as in 1e-5,1e-4")
    return Limits(numbers[0], numbers[1] if len(numbers) == 2 else rtol)
