"""Progress on a terminal, shown only for long runs: the current pass, and the effects of the last ones."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onnx_passes.core.instruments import Instrument
from onnx_passes.graph.wording import count
from onnx_passes.report.columns import Column, table_lines

if TYPE_CHECKING:
    import onnx_ir as ir
    from rich.console import Console, ConsoleOptions, RenderResult

    from onnx_passes.core.plan import Step
    from onnx_passes.core.records import Application, RunRecord, StepRecord

_LONG = 2.0
"""Seconds from which on the last steps are shown, too."""
_LAST = 5
_WINDOW = 3.0
"""Seconds over which rewrites per second are counted."""
_COLUMNS = (
    Column("", shorten="end", least=16),
    Column("", right=True),
    Column("", right=True, spare=1),
    Column("", right=True, spare=2),
)


class Progress(Instrument):
    """A few lines on standard error that vanish in the end: they appear when a run takes longer than the patience."""

    def __init__(self, patience: float = 0.7, console: Console | None = None) -> None:
        self.patience = patience
        self._console = console
        self._view = View()
        self._live: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Start the timer, which needs no calls from the run."""
        self._view = View(run)
        self._timer = threading.Timer(self.patience, self._show)
        self._timer.daemon = True
        self._timer.start()

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Name the pass."""
        self._view.begin(record, step)
        return None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Record the effects of the pass."""
        self._view.end(record)

    def after_rewrite(self, application: Application) -> None:
        """Count."""
        self._view.rewrites = application.number

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Clear the lines."""
        self._stop()

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """Clear the lines before the error is shown."""
        self._stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            if self._timer is not None:
                console = self._console or Console(stderr=True, highlight=False)
                self._live = Live(self._view, console=console, refresh_per_second=8, transient=True)
                self._live.start()

    def _stop(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._live is not None:
                self._live.stop()
                self._live = None


class View:
    """The state of a run in progress, as lines of any width."""

    def __init__(self, run: RunRecord | None = None) -> None:
        self.rewrites = 0
        self._started = time.perf_counter()
        self._open: list[StepRecord] = []
        self._last: deque[StepRecord] = deque(maxlen=_LAST)
        self._counts: deque[tuple[float, int]] = deque([(self._started, 0)])
        planned = [] if run is None or run.plan is None else [step for _, step in run.plan.walk() if not step.children]
        self._places = {id(step): number for number, step in enumerate(planned, 1)}
        self._place = 0

    def begin(self, record: StepRecord, step: Step) -> None:
        """Start a pass; nested passes are a stack."""
        del self._open[record.depth :]
        self._open.append(record)
        self._place = self._places.get(id(step), self._place)

    def end(self, record: StepRecord) -> None:
        """Put down a pass."""
        del self._open[record.depth :]
        if record.modified and not record.has_children:
            self._last.append(record)

    def lines(self, width: int) -> tuple[list[str], str]:
        """Return lines for the last steps with changes, if the run takes long, and one for the current pass."""
        now = time.perf_counter() - self._started
        rows = [_row(record) for record in list(self._last)] if now >= _LONG else []
        done = list(table_lines(_COLUMNS, rows, max(width - 2, 1))) if rows else []
        return done, _joined([*self._running(now)], width)

    def _running(self, now: float) -> Iterator[str]:
        """Yield the parts of the progress line, the most important first."""
        names = [record.name for record in list(self._open)] or ["…"]
        yield names[-1]
        yield f"{now:.0f} s"
        yield count(self.rewrites, "rewrite")
        if self._places:
            yield f"step {self._place} of {len(self._places)}"
        if speed := self._speed():
            yield f"{speed:,.0f}/s"
        if len(names) > 1:
            yield f"in {names[0]}"

    def _speed(self) -> float:
        """Return rewrites per second of late."""
        now = time.perf_counter()
        self._counts.append((now, self.rewrites))
        while len(self._counts) > 2 and now - self._counts[0][0] > _WINDOW:
            self._counts.popleft()
        began, before = self._counts[0]
        return (self.rewrites - before) / (now - began) if now - began > 1 else 0.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.spinner import Spinner
        from rich.text import Text

        done, running = self.lines(options.max_width - 2)
        for line in done:
            yield Text(f"  {line}", style="dim", no_wrap=True, overflow="ellipsis")
        name, dot, rest = running.partition(" · ")
        text = Text.assemble((name, "bold"), dot, rest)
        text.no_wrap, text.overflow = True, "ellipsis"
        spinner = Spinner("dots" if options.encoding.startswith("utf") else "line", text=text)
        spinner.start_time = self._started
        yield spinner.render(time.perf_counter())


def _row(record: StepRecord) -> list[str]:
    change = record.nodes_after - record.nodes_before
    return [
        record.name,
        f"{change:+,} nodes".replace("-", "−") if change else "changed",
        count(record.applications, "rewrite") if record.applications else "",
        f"{record.wall:.1f} s",
    ]


def _joined(parts: list[str], width: int) -> str:
    """Join as many parts as there is room for."""
    text = parts[0]
    for part in parts[1:]:
        if len(text) + len(part) + 3 > width:
            break
        text = f"{text} · {part}"
    return text
