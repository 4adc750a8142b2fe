"""``onnx-passes inspect``: interface, operators and cost of a model."""

from __future__ import annotations

import json

import click

from onnx_passes.cli.options import parse_size, running_options


@click.command("inspect", short_help="Show the content and cost of a model.")
@click.argument("model")
@click.option("--layers", is_flag=True, help="Show every node: shapes, MACs, parameters and bytes.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Size of a dynamic dimension; may be repeated.")
@click.option(
    "--run", "run_it", is_flag=True, help="Run the model in ONNX Runtime with its default options, on generated inputs."
)
@click.option(
    "--time", "time_it", is_flag=True, help="Time the model in ONNX Runtime with its default options, on one thread."
)
@click.option("--ranges", is_flag=True, help="Show the ranges of tensors, and channels that are stuck or unread.")
@click.option("--range", "given", multiple=True, metavar="NAME=LOW:HIGH", help="Range or data type of an input.")
@click.option("--data", multiple=True, metavar="FILE", help="Run on these data, and show statistics of tensors.")
@running_options
def command(
    model: str,
    layers: bool,
    dims: tuple[str, ...],
    run_it: bool,
    time_it: bool,
    ranges: bool,
    given: tuple[str, ...],
    data: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show interface, operators, parameters, computation, memory and quantizers of MODEL, a file or '-'.

    Shapes are inferred on a copy. Amounts that depend on dynamic dimensions are formulas, unless --dim gives numbers.
    Bodies of If, Loop and Scan count once each.

    A channel is stuck if it has the same value for all inputs, and unread if it is multiplied by zero weights only:
    prune-channels removes both. --data takes .npy, .npz and .pb files; statistics of channels are in --json.
    """
    from onnx_passes.analysis.range_text import parse_inputs
    from onnx_passes.passes.analyse.inspection import inspect

    known = parse_inputs(" ".join(given))
    sizes = dict(parse_size(text, "--dim") for text in dims)
    found = inspect(model, dimensions=sizes, run=run_it, time=time_it, ranges=known or ranges, data=data)
    if as_json:
        click.echo(json.dumps(found.to_json(layers=layers), indent=2))
    else:
        from onnx_passes.report.inspection import show_inspection

        show_inspection(found, layers=layers)
