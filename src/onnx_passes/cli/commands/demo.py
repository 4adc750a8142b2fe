"""``onnx-passes demo``: the main job on an example model of our own."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_passes.cli.options import debug_option

_PIPELINE = "convert-opset21, shape-inference, cleanup, checker"


@click.command("demo", short_help="Run the main job on an example model.")
@click.option("--model", default="digits-cnn", show_default=True, help="Name of an example model.")
@click.option("-o", "--output", metavar="FILE", help="Where the result goes; without it, nowhere.")
@debug_option
def command(model: str, output: str | None) -> None:
    """Load a quantized network trained on real digits, run the passes on it, and show what they did."""
    from onnx_passes import examples
    from onnx_passes.api import apply
    from onnx_passes.graph.save import save
    from onnx_passes.report.tables import show_run

    path = examples.path(model)
    click.echo(f"onnx-passes -o {output or 'out.onnx'} {path.name} {_PIPELINE.replace(',', '')}", err=True)
    result = apply(path, _PIPELINE, paranoid=True)
    show_run(result.record, rules=True)
    if output is not None:
        save(result.model, Path(output))
        click.echo(f"wrote {output}", err=True)
