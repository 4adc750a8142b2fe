from __future__ import annotations

import io
import time

import onnx_ir as ir
import pytest
from rich.console import Console

import onnx_passes
from onnx_passes import examples
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import plan
from onnx_passes.core.records import ModelSize, RunRecord, StepRecord
from onnx_passes.report.progress import Progress, View


@pytest.fixture
def view(monkeypatch) -> View:
    """A run of two groups, three seconds old, in its fourth step."""
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    planned = plan("cleanup, fold-constants")
    found = View(RunRecord("cleanup, fold-constants", ModelSize(), plan=planned))
    steps = [step for _, step in planned.walk()]
    group = StepRecord(1, "cleanup", "cleanup", "requested", has_children=True)
    found.begin(group, steps[0])
    for number, step in enumerate([step for step in steps[1:] if not step.children][:4], 2):
        record = StepRecord(number, step.name, step.text, "member", depth=1, nodes_before=20, nodes_after=17 - number)
        found.begin(record, step)
        if number < 5:
            record.modified, record.applications, record.wall = True, 3, 0.25
            found.end(record)
    found.rewrites = 12
    clock[0] = 103.0
    return found


def test_says_what_runs_and_what_was_done(view):
    done, running = view.lines(100)
    assert running.split(" · ")[1:] == ["3 s", "12 rewrites", "step 4 of 9", "4/s", "in cleanup"]
    assert len(done) == 3
    assert all("nodes" in line and "3 rewrites" in line and "0.2 s" in line for line in done)


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120])
def test_fits_into_any_width(view, width):
    done, running = view.lines(width)
    assert len(running) <= max(width, len(running.split(" · ")[0]))
    assert all(len(line) <= max(width, 34) for line in done)
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(view)
    lines = console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]
    assert len(lines) == len(done) + 1


def test_in_the_beginning_there_is_one_line(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    view = View(None)
    clock[0] = 1.0
    assert view.lines(80) == ([], "… · 1 s · no rewrites")


class Dawdle(Instrument):
    def after_pass(self, record, step, model) -> None:
        time.sleep(0.05)


def run_with(progress: Progress, passes: str) -> None:
    onnx_passes.apply(examples.path("digits-mlp"), passes, verify=False, instruments=[progress, Dawdle()])


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)


def test_a_long_run_is_shown_and_cleared():
    console = terminal()
    run_with(Progress(patience=0.02, console=console), "cleanup")
    shown = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "rewrites · step" in shown
    assert shown.endswith("\x1b[2K") or "\x1b[?25h" in shown.splitlines()[-1]


def test_a_short_run_is_not_shown():
    console = terminal()
    run_with(Progress(patience=60, console=console), "cleanup")
    assert console.file.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]


def test_lines_are_cleared_when_a_run_fails():
    class Fail(Instrument):
        def after_pass(self, record: StepRecord, step: object, model: ir.Model) -> None:
            time.sleep(0.2)
            raise KeyboardInterrupt

    console = terminal()
    progress = Progress(patience=0.02, console=console)
    with pytest.raises(KeyboardInterrupt):
        onnx_passes.apply(examples.path("digits-mlp"), "cleanup", verify=False, instruments=[progress, Fail()])
    assert progress._live is None
    assert "\x1b[?25h" in console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
