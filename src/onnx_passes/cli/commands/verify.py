"""``onnx-passes verify``: whether two models compute the same."""

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
@click.option("--tolerance", metavar="ATOL[,RTOL]", help="Accept differences up to this [default: none at all].")
@running_options
def command(before: str, after: str, inputs: tuple[str, ...], seed: int, tolerance: str | None, as_json: bool) -> int:
    """Run BEFORE and AFTER on the same data; compare outputs and all values that both have by name.

    Results must be equal bit by bit, unless a tolerance is given. Exits with 1 if they are not.
    """
    from onnx_passes.cli.checks import parse_tolerance
    from onnx_passes.graph.load import load
    from onnx_passes.verify.comparison.promise import Limits
    from onnx_passes.verify.equivalence import compare_models

    limits = parse_tolerance(tolerance, Limits(0.0, 0.0))
    comparison = compare_models(load(before), load(after), inputs=inputs, seed=seed)
    same = comparison.verdict_within(limits) != "different"
    if as_json:
        click.echo(json.dumps({"same": same, **comparison.to_json()}, indent=2))
    else:
        click.echo(comparison.to_text(limits))
    return ExitCode.OK if same else ExitCode.VERIFICATION
