"""``onnx-passes demo``: streamline an example model."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_passes.cli.files import require_writable
from onnx_passes.cli.options import debug_option

_PIPELINE = "streamline"


@click.command("demo", short_help="Streamline an example model, or write example files.")
@click.option("--model", default="digits-cnn", show_default=True, help="Name of an example model.")
@click.option("-o", "--output", metavar="FILE", help="File for the result [default: not written].")
@click.option("--report", metavar="FILE", help="Write a page that shows every rewrite; a .json file has its data.")
@click.option("--files", metavar="FOLDER", help="Only write the models and data of the documentation.")
@debug_option
def command(model: str, output: str | None, report: str | None, files: str | None) -> None:
    """Streamline a quantized network, trained on real digits, and show every step with its evidence."""
    from onnx_passes import examples

    if files is not None:
        written = examples.write(Path(files))
        click.echo(f"wrote {', '.join(written)} to {files}", err=True)
        return
    from onnx_passes.analysis.streamlined import streamlined
    from onnx_passes.api import apply, run_model
    from onnx_passes.graph.save import save
    from onnx_passes.report.accumulators import accumulators_table
    from onnx_passes.report.tables import show_run, standard_error

    for file in (output, report):
        require_writable(file)
    path = examples.path(model)
    click.echo(f"onnx-passes -o {output or 'out.onnx'} {path.name} {_PIPELINE}\n", err=True)
    digits = examples.digits()
    result = apply(path, _PIPELINE, inputs=[{"image": digits.image[:8]}], report=report is not None)
    show_run(result.record)
    console = standard_error()
    console.print()
    console.print(accumulators_table(streamlined(result.model), console.width))
    before, after = (run_model(version, {"image": digits.image})["logits"] for version in (path, result.model))
    right = [float((logits.argmax(axis=1) == digits.label).mean()) for logits in (before, after)]
    console.print(
        f"\naccuracy on {len(digits.label)} test images: {right[0]:.2%} before, {right[1]:.2%} after; "
        f"logits differ by {abs(before - after).max():.1e} at most"
    )
    if output is not None:
        save(result.model, Path(output))
        click.echo(f"wrote {output}", err=True)
    if report is not None:
        click.echo(f"wrote {result.report(report)}: open it in a browser", err=True)
