"""``onnx-passes export-layers``: the layers of an integer network, for a custom backend."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from onnx_passes.cli.options import running_options


@click.command("export-layers", short_help="Write the layers of an integer network, for a backend of your own.")
@click.argument("model")
@click.option("-o", "--output", metavar="FOLDER", help="Write network.json and arrays.npz to this folder.")
@click.option(
    "--streamline/--no-streamline",
    default=None,
    help="Streamline first, or not [default: if it has quantizers other than thresholds].",
)
@running_options
def command(model: str, output: str | None, streamline: bool | None, as_json: bool) -> None:
    """Show the layers of MODEL, a file or '-', with their types, ranges and constants, and write them with --output.

    network.json lists layers and tensors, arrays.npz holds weights, thresholds and ranges of channels;
    onnx_passes.IntegerNetwork.load reads both. Nodes that compute in floats are layers as well, with the reason.
    """
    from onnx_passes.backend.integer_network import integer_network
    from onnx_passes.report.columns import width_of

    if output is not None:
        from onnx_passes.backend.files import require_place

        require_place(Path(output))
    network = integer_network(model, streamline=streamline)
    if output is not None:
        network.save(output)
    if as_json:
        click.echo(json.dumps(network.to_json(), indent=2))
        return
    from onnx_passes.backend.table import network_lines

    for line in network_lines(network, width_of(sys.stdout, sys.maxsize)):
        click.echo(line)
