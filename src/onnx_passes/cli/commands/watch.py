"""``onnx-passes watch``: run again whenever the model, the configuration or a pass changes."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import click

from onnx_passes.cli.files import require_writable
from onnx_passes.core.errors import UsageError

_EPILOG = """\b
Accepts all options of 'run':
  onnx-passes watch model.onnx -c cfg.yaml --report out.html
  onnx-passes watch model.onnx --import my_passes.py my-pass, cleanup"""


@click.command(
    "watch",
    short_help="Run again whenever model, configuration or passes change.",
    epilog=_EPILOG,
    context_settings={"ignore_unknown_options": True},
)
@click.option("--report", metavar="FILE", help="Write the report to a file, too.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port of the page [default: a free one]."
)
@click.option("--no-browser", is_flag=True, help="Serve the page without opening a browser.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="MODEL [PASS]… [OPTIONS OF RUN]")
def command(report: str | None, port: int, no_browser: bool, arguments: tuple[str, ...]) -> None:
    """Run passes on MODEL, show the report in the browser, and repeat this after every change, until Ctrl-C.

    The model, the configuration and the files that register passes are watched. A change during a run restarts it.
    Failures are shown on the page, and watching continues. The page is served to this machine only.
    """
    from onnx_passes.cli.watching.files import understood
    from onnx_passes.cli.watching.loop import watch
    from onnx_passes.cli.watching.server import ReportServer

    understood(arguments)
    require_writable(report)
    with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
        page = Path(report or Path(folder) / "report.html")
        try:
            server = ReportServer(page, port)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used: {error.strerror or error}", hint="without --port a free one is chosen"
            ) from error
        try:
            click.echo(f"watch: {server.url}, until Ctrl-C", err=True)
            if not no_browser:
                webbrowser.open(server.url)
            watch(arguments, page, Path(folder), server)
        except KeyboardInterrupt:
            click.echo(err=True)
        finally:
            server.close()
