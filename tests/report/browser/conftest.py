"""One browser for all tests of the page; reports are written by the command that users run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onnx_passes import apply, examples
from onnx_passes.cli.main import run_command_line
from tests.helpers.browser import started_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[object]:
    # Limits of memory hold where no other thread runs: it is closed before tests elsewhere begin.
    with started_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a report by the command line, once for the same arguments."""
    folder = tmp_path_factory.mktemp("reports")
    known: dict[tuple[str, ...], Path] = {}

    def write(*arguments: object, code: int = 0) -> Path:
        texts = tuple(map(str, arguments))
        if texts not in known:
            path = folder / f"{len(known)}.html"
            assert run_command_line(["-o", str(folder / "out.onnx"), "--report", str(path), *texts]) == code
            known[texts] = path
        return known[texts]

    return write


@pytest.fixture
def demo(written: Callable[..., Path]) -> Path:
    return written(examples.path("digits-cnn"), "streamline")


@pytest.fixture(scope="session")
def steps() -> dict[str, int]:
    """Return the numbers of the steps that change the example of the reports."""
    record = apply(examples.path("digits-cnn"), "streamline", verify=False).record
    return {step.name: step.number for step in record.leaves() if step.modified}


@pytest.fixture
def opened(browser: object) -> Iterator[Callable[..., object]]:
    """Open reports; in the end nothing was complained of, and nothing was asked for beside the file."""
    contexts, complaints, requests = [], [], []

    def open_page(path: Path, place: str = "", width: int = 1400, height: int = 900, scheme: str = "light") -> object:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.meter = context.new_cdp_session(page)
        page.meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(f"{path.as_uri()}{place}")
        page.wait_for_selector(".node, .overview, .canvas > canvas:not([hidden])", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "blob:", "data:"))] == []
    assert all(url.split("#")[0].endswith(".html") for url in requests if url.startswith("file:"))


def until(page: object, condition: str) -> None:
    """Wait for a condition of the page; its policy lets nobody else evaluate texts inside."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {condition}")


def cpu_seconds(page: object) -> float:
    """Seconds of CPU that a page has taken since before it was opened."""
    metrics = page.meter.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "TaskDuration")
