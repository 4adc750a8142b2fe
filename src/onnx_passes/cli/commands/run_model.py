"""``onnx-passes run-model``: run a model and show its outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.cli.options import running_options
from onnx_passes.core.errors import UsageError
from onnx_passes.report.columns import Column, table_lines, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

_HEADER = ("output", "type", "shape", "min", "mean", "max")


@click.command("run-model", short_help="Run a model in ONNX Runtime.")
@click.argument("model")
@click.option("--inputs", multiple=True, metavar="FILE", help="Inputs to run on (.npy, .npz, .pb); may be repeated.")
@click.option("-o", "--output", metavar="FILE", help="Write the outputs to this file (.npz).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated inputs.")
@running_options
def command(model: str, inputs: tuple[str, ...], output: str | None, seed: int, as_json: bool) -> None:
    """Run MODEL, a file or '-', with all operators of quantized networks, and show its outputs.

    Without --inputs one sample is generated. If the inputs hold several samples, the outputs have an additional leading
    dimension for them.
    """
    from onnx_passes.api import run_model

    if output is not None and not output.endswith(".npz"):
        raise UsageError("outputs can only be written as .npz", where=output, hint=f"write --output {output}.npz")
    results = run_model(model, inputs, seed=seed)
    if output is not None:
        from onnx_passes.verify.samples.numpy_files import write_numpy

        write_numpy(Path(output), {name: a.astype(str) if a.dtype.kind == "O" else a for name, a in results.items()})
    rows = [_row(name, array) for name, array in results.items()]
    if as_json:
        click.echo(json.dumps({"outputs": [_json(row) for row in rows]}, indent=2))
    else:
        columns = [Column(title, shorten="front" if not index else "", least=16) for index, title in enumerate(_HEADER)]
        for line in table_lines(columns, [[*map(_text, row)] for row in rows], width_of(sys.stdout, sys.maxsize)):
            click.echo(line)


def _row(name: str, array: np.ndarray) -> tuple[Any, ...]:
    """Describe an output: name, type, shape and, if it is numeric, statistics."""
    import numpy as np

    shape = list(array.shape)
    if array.size == 0 or array.dtype.kind in "OUSc":
        return name, str(array.dtype), shape, None, None, None
    wide = array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)
    with np.errstate(all="ignore"):
        return name, str(array.dtype), shape, wide.min().item(), wide.mean().item(), wide.max().item()


def _json(row: Sequence[Any]) -> dict[str, Any]:
    from onnx_passes.core.plain import finite

    name, dtype, shape, *numbers = row
    known = {key: number for key, number in zip(_HEADER[3:], numbers, strict=True) if number is not None}
    return {"output": name, "type": dtype, "shape": shape, **finite(known)}


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, list):
        return "[" + ",".join(map(str, cell)) + "]"  # pyright: ignore[reportUnknownArgumentType]
    return f"{cell:.8g}" if isinstance(cell, float) else str(cell)
