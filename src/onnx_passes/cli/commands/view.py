"""``onnx-passes view``: open a model in Netron, if it is installed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import click

from onnx_passes.cli.options import debug_option
from onnx_passes.core.errors import UsageError


@click.command("view", short_help="Open a model in Netron.")
@click.argument("model")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port of the page [default: Netron's own].")
@click.option("--no-browser", is_flag=True, help="Serve the page without opening a browser.")
@debug_option
def command(model: str, port: int | None, no_browser: bool) -> None:
    """Open MODEL, a file or '-', in Netron, until Ctrl-C.

    Needs the package netron: pip install 'onnx-passes[view]'. Without it, use 'draw' or 'report'.
    """
    netron = _netron()
    with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
        address: Any = netron.start(str(_binary(model, Path(folder))), address=port, browse=not no_browser)
        click.echo(f"{model} is at {_url(address)}; Ctrl-C ends it", err=True)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                netron.wait()
        finally:
            # Otherwise its thread would keep the process alive after a signal to end.
            netron.stop(address)


def _netron() -> Any:
    if importlib.util.find_spec("netron") is None:
        raise UsageError(
            "'view' needs the package netron",
            hint="pip install 'onnx-passes[view]', or see 'onnx-passes draw' for drawings and "
            "'onnx-passes report' for differences",
        )
    return importlib.import_module("netron")


def _binary(source: str, folder: Path) -> Path:
    """Return a file that Netron can read: refuse damaged models, and write text and pipes as a model."""
    from onnx_passes.graph.load import load
    from onnx_passes.graph.origin import origin
    from onnx_passes.graph.save import save

    model = load(source)
    known = origin(model)
    if known is not None and known.path is not None and known.format == "binary":
        return known.path
    target = folder / f"{Path(source).stem.strip('-') or 'model'}.onnx"
    save(model, target)
    return target


def _url(address: Any) -> str:
    return f"http://{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
