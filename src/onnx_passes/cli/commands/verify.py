"""``onnx-passes verify``: compare the results of two models."""

from __future__ import annotations

import json

import click

from onnx_passes.cli.options import running_options
from onnx_passes.core.errors import ExitCode


@click.command("verify", short_help="Run two models on the same data and compare.")
@click.argument("before")
@click.argument("after")
@click.option("--inputs", multiple=True, metavar="FILE", help="Inputs to run on (.npy, .npz, .pb); may be repeated.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated inputs.")
@click.option("--tolerance", metavar="ATOL[,RTOL]", help="Accept differences up to this [default: 0].")
@running_options
def command(before: str, after: str, inputs: tuple[str, ...], seed: int, tolerance: str | None, as_json: bool) -> int:
    """Run BEFORE and AFTER on the same data; compare the interface, outputs, and all values of the same name.

    Results must be bit-equal, also for NaN, infinities and in branches that no sample takes, unless a tolerance is
    given. Exits with 1 if they differ, and with 5 if BEFORE does not run.
    """
    from onnx_passes.check.settings import Settings
    from onnx_passes.check.verdict import check
    from onnx_passes.cli.checks import parse_tolerance
    from onnx_passes.core.claims import Claim
    from onnx_passes.core.evidence import UNVERIFIED
    from onnx_passes.graph.load import load
    from onnx_passes.verify.comparison.evidence import DEFAULT, Limits

    limits = DEFAULT if tolerance is None else parse_tolerance(tolerance, Limits(0.0, 0.0))
    claim = Claim("equality" if tolerance is None else "tolerance")
    verdict = check(claim, load(before), load(after), Settings(inputs=inputs, seed=seed, limits=limits))
    if as_json:
        click.echo(json.dumps({"same": verdict.holds, **verdict.to_json()}, indent=2))
    else:
        click.echo(verdict.to_text())
    if verdict.level == UNVERIFIED:
        return ExitCode.UNVERIFIED
    return ExitCode.OK if verdict.holds else ExitCode.VERIFICATION
