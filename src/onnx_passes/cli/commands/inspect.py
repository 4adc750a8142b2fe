"""``onnx-passes inspect``: what is in a model, and what it costs."""

from __future__ import annotations

import json

import click

from onnx_passes.cli.options import running_options
from onnx_passes.core.errors import UsageError


@click.command("inspect", short_help="Show what is in a model, and what it costs.")
@click.argument("model")
@click.option("--layers", is_flag=True, help="Show every node: shapes, MACs, parameters and bytes.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Size of a dynamic dimension; may be repeated.")
@click.option("--run", "run_it", is_flag=True, help="Try whether ONNX Runtime runs the model, on generated inputs.")
@running_options
def command(model: str, layers: bool, dims: tuple[str, ...], run_it: bool, as_json: bool) -> None:
    """Show interface, operators, parameters, computation, memory and quantizers of MODEL, a file or '-'.

    Shapes are inferred on a copy. Amounts that depend on dynamic dimensions are formulas, unless --dim gives numbers.
    Bodies of If, Loop and Scan count once each.
    """
    from onnx_passes.passes.analyse.inspection import inspect

    found = inspect(model, dimensions=dict(_size(text) for text in dims), run=run_it)
    if as_json:
        click.echo(json.dumps(found.to_json(layers=layers), indent=2))
    else:
        from onnx_passes.report.inspection import show_inspection

        show_inspection(found, layers=layers)


def _size(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise UsageError(f"'{text}' gives no size to a dimension", hint="write --dim N=8")
    return name, int(size)
