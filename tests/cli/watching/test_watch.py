from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import MODEL
from tests.helpers.browser import started_browser

PASS = """
from onnx_passes import passes, Transformation, RewriteRulePass

@passes.verify.equality
@passes.register()
class SplitAdds(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Add(x, y)
    def rewrite(self, op, x, y):
        return op.Sub(x, op.Neg(y){more})
"""
SHOWN = re.compile(r"watch: (done|the run failed); .*? (http://\S+)")


class Watch:
    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        command = [sys.executable, "-m", "onnx_passes", "watch", "--no-browser", *arguments]
        # Where tests run in the background of a shell, Ctrl-C is ignored by all that they start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(command, cwd=folder, stderr=self.log.open("w"), stdout=subprocess.PIPE)
        self.url = ""

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until the terminal shows something so often."""
        end = time.monotonic() + 40
        while self.said.count(text) < times:
            assert time.monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.05)
        found = SHOWN.findall(self.said)
        self.url = found[-1][1] if found else ""
        return self.said

    @property
    def said(self) -> str:
        return self.log.read_text()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)

    def page(self) -> str:
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            return answer.read().decode()


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "model.onnxtxt").write_text(MODEL)
    (tmp_path / "mine.py").write_text(PASS.format(more=""))
    (tmp_path / "cfg.yaml").write_text("imports: [mine.py]\npasses: [split-adds]\n")
    return tmp_path


@contextlib.contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[Watch]:
    watch = Watch(folder, *arguments)
    try:
        yield watch
    finally:
        if watch.process.poll() is None:
            watch.process.kill()
            watch.process.wait()


def test_runs_again_after_every_change_and_survives_mistakes(folder):
    with watching(folder, "model.onnxtxt", "-c", "cfg.yaml", "--report", "out.html") as watch:
        watch.wait_for("watch: done")
        assert "split-adds" in watch.said
        report = folder / "out.html"
        first = report.stat().st_mtime_ns
        assert "EventSource" in watch.page()
        assert "EventSource" not in report.read_text()

        (folder / "model.onnxtxt").write_text(MODEL.replace("Relu(scaled)", "Neg(scaled)"))
        watch.wait_for("watch: done", 2)
        assert "model.onnxtxt changed" in watch.said
        assert report.stat().st_mtime_ns > first

        (folder / "mine.py").write_text("this is no Python")
        watch.wait_for("watch: the run failed")
        assert "mine.py changed" in watch.said
        assert 'role="alert"' in watch.page()
        assert "SyntaxError" in watch.page()

        (folder / "mine.py").write_text(PASS.format(more=", x"))
        watch.wait_for("watch: the run failed", 2)

        (folder / "cfg.yaml").write_text("imports: [mine.py]\npasses: [cleanup]\n")
        watch.wait_for("watch: done", 3)
        assert 'role="alert"' not in watch.page()
        assert watch.interrupt() == 0
        assert "Traceback" not in watch.said
        assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")]


def test_a_run_under_way_is_started_anew(folder):
    slow = "import time\ntime.sleep(600 if 'slow' in open('speed').read() else 0)\n"
    (folder / "speed").write_text("slow")
    (folder / "mine.py").write_text(slow + PASS.format(more=""))
    with watching(folder, "model.onnxtxt", "-q", "--import", "mine.py", "split-adds") as watch:
        watch.wait_for("until Ctrl-C")
        time.sleep(1)
        (folder / "speed").write_text("fast")
        os.utime(folder / "mine.py")
        watch.wait_for("watch: done")
        assert "terminated" not in watch.said
        assert watch.process.stdout is not None
        assert watch.interrupt() == 0
        assert watch.process.stdout.read() == b""


def test_ctrl_c_ends_a_run_under_way_quietly(folder):
    (folder / "mine.py").write_text("import time\ntime.sleep(600)\n")
    with watching(folder, "model.onnxtxt", "--import", "mine.py", "cleanup") as watch:
        watch.wait_for("until Ctrl-C")
        time.sleep(1)
        assert watch.interrupt() == 0
        assert len(watch.said.split("\n")) <= 3


def test_mistakes_in_the_command_line_end_it(run, folder):
    answer = run("watch", folder / "missing.onnx", "cleanup")
    assert answer.code == 2
    assert "there is no such file" in answer.err


def test_the_page_in_a_browser_loads_again_and_keeps_its_place(folder):
    with (
        watching(folder, "model.onnxtxt", "-q", "--verify", "off", "cleanup") as watch,
        started_browser() as browser,
    ):
        watch.wait_for("watch: done")
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(f"{watch.url}#step=1")
        page.wait_for_selector("text=cleanup")
        with page.expect_navigation(wait_until="load"):
            (folder / "model.onnxtxt").write_text(MODEL.replace("Relu(scaled)", "Tanh(scaled)"))
        page.wait_for_selector("text=cleanup")
        assert "step=1" in page.evaluate("location.hash")
        with page.expect_navigation(wait_until="load"):
            (folder / "model.onnxtxt").write_text("this is no model")
        assert "model.onnxtxt" in page.wait_for_selector("[role=alert]").inner_text()
        with page.expect_navigation(wait_until="load"):
            (folder / "model.onnxtxt").write_text(MODEL)
        page.wait_for_selector("text=cleanup")
        assert page.query_selector("[role=alert]") is None
        assert not problems
        assert watch.interrupt() == 0
