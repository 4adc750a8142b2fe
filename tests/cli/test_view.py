from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from onnx_passes import examples, load
from onnx_passes.cli.signals import Terminated
from tests.cli.conftest import MODEL

DIGITS = str(examples.path("digits-mlp"))


class Netron:
    """Notes what it is asked to show, and waits until someone presses Ctrl-C."""

    __spec__ = importlib.util.spec_from_loader("netron", loader=None)

    def __init__(self) -> None:
        self.shown: list[tuple[str, int]] = []
        self.options: dict[str, object] = {}
        self.stopped: object = None
        self.interruption: BaseException = KeyboardInterrupt()

    def start(self, file: str, **options: object) -> tuple[str, int]:
        self.shown.append((file, len(load(file).graph)))
        self.options = options
        return "localhost", 8080

    def wait(self) -> None:
        raise self.interruption

    def stop(self, address: object) -> None:
        self.stopped = address


@pytest.fixture
def netron(monkeypatch) -> Netron:
    found = Netron()
    monkeypatch.setitem(sys.modules, "netron", found)
    return found


def test_shows_the_file_itself_until_it_is_interrupted(run, netron):
    answer = run("view", DIGITS, "--no-browser", "--port", 9001)
    assert answer.code == 0
    assert netron.shown[0][0] == DIGITS
    assert netron.options == {"address": 9001, "browse": False}
    assert netron.stopped == ("localhost", 8080)
    assert "http://localhost:8080" in answer.err


def test_the_server_ends_with_a_program_that_is_told_to_end(run, netron):
    netron.interruption = Terminated()
    assert run("view", DIGITS).code != 0
    assert netron.stopped == ("localhost", 8080)


def test_text_is_shown_as_a_model(run, netron, tmp_path):
    path = tmp_path / "example.onnxtxt"
    path.write_text(MODEL)
    assert run("view", path).code == 0
    shown, nodes = netron.shown[0]
    assert Path(shown).name == "example.onnx"
    assert nodes == 4
    assert not Path(shown).exists()


def test_what_is_no_model_is_refused(run, netron, tmp_path):
    answer = run("view", tmp_path / "missing.onnx")
    assert answer.code == 2
    assert "there is no such file" in answer.err
    assert not netron.shown


def test_without_netron_it_says_what_to_install_and_what_else_there_is(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "netron", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = run("view", DIGITS)
    assert answer.code == 2
    assert "pip install 'onnx-passes[view]'" in answer.err
    assert "onnx-passes draw" in answer.err
