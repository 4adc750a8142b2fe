"""Completion, as real shells ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_passes.cli.complete import CursorPosition, place_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a few files and the command line."""
    for name in ("model.onnx", "mode", "cfg.yaml", "runner.onnx"):
        (tmp_path / name).touch()
    program = tmp_path / "onnx-passes"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m onnx_passes "$@"\n')
    program.chmod(0o755)
    return tmp_path


def ask(folder: Path, *shell: str) -> list[str]:
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


_ASK_BASH = """
eval "$(onnx-passes completion bash)"
compopt() {{ local IFS=' '; echo "compopt $*"; }}
COMP_LINE={line} COMP_POINT=${{#COMP_LINE}}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_onnx_passes_completion onnx-passes
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(folder: Path, line: str, *words: str) -> list[str]:
    """Ask bash; ``words`` are what it makes of the line, which is not what a program gets."""
    quoted = [f"'{word}'" for word in words or line.split(" ")]
    line = "'" + line.replace("'", "'\\''") + "'"
    return ask(folder, "bash", "-c", _ASK_BASH.format(line=line, words=" ".join(quoted)))


@pytest.mark.parametrize(
    ("line", "words", "expected"),
    [
        ("onnx-passes model.onnx shape-inf", (), ["shape-inference"]),
        ("onnx-passes model.onnx cleanup,shape-inf", (), ["cleanup,shape-inference"]),
        ("onnx-passes explain shape-inf", (), ["shape-inference"]),
        ("onnx-passes explain Trun", (), ["Trunc"]),
        ("onnx-passes --verify fin", (), ["final"]),
        ("onnx-passes --verify=fin", ("onnx-passes", "--verify", "=", "fin"), ["final"]),
        ("onnx-passes --parano", (), ["--paranoid"]),
        ("onnx-passes list --tag simpl", (), ["simplify"]),
        ("onnx-passes model.onnx fixpoint\\(shape-inf", (), ["fixpoint(shape-inference"]),
        (
            "onnx-passes m.onnx fixpoint(shape-inf",
            ("onnx-passes", "m.onnx", "fixpoint", "(", "shape-inf"),
            ["shape-inference"],
        ),
        (
            "onnx-passes m.onnx shape-inference{gaps-only=t",
            ("onnx-passes", "m.onnx", "shape-inference{gaps-only", "=", "t"),
            ["true"],
        ),
        (
            "onnx-passes m.onnx streamline{infer-thresholds.max",
            (),
            [
                *(["compopt -o nospace"] * 2),
                "streamline{infer-thresholds.max-bits=",
                "streamline{infer-thresholds.max-bits=…",
            ],
        ),
    ],
)
def test_bash_completes_passes_options_values_and_operators(folder, line, words, expected):
    assert bash(folder, line, *words) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("onnx-passes model", ()),
        ("onnx-passes -c cf", ()),
        ("onnx-passes --config=cf", ("onnx-passes", "--config", "=", "cf")),
        ("onnx-passes diff model.onnx mo", ()),
        ("onnx-passes run model", ()),
        ("onnx-passes inspect model", ()),
        ("onnx-passes plan model", ()),
        ("onnx-passes -o out.onnx model", ()),
        ("onnx-passes model.onnx --inputs mo", ()),
    ],
)
def test_bash_keeps_file_names(folder, line, words):
    assert bash(folder, line, *words) == ["compopt -o bashdefault -o default", ""]


def test_a_command_and_a_file_may_both_come_first(folder):
    assert bash(folder, "onnx-passes run") == ["compopt -o filenames", "run", "run-model", "runner.onnx"]


def test_a_pass_may_come_first_and_models_behind_it(folder):
    assert bash(folder, "onnx-passes cleanu") == ["compopt -o filenames", "cleanup"]
    assert bash(folder, "onnx-passes cleanup runn") == ["compopt -o bashdefault -o default", ""]


def test_words_of_nobody_are_nothing(folder):
    assert bash(folder, "onnx-passes model.onnx --no-such-opt") == [""]


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish(folder):
    def fish(line: str) -> list[str]:
        script = f"onnx-passes completion fish | source; complete -C {line!r}"
        return [line.split("\t")[0] for line in ask(folder, "fish", "--no-config", "-c", script)]

    assert fish("onnx-passes model.onnx cleanup,shape-inf") == ["cleanup,shape-inference"]
    assert fish("onnx-passes -c cf") == ["cfg.yaml"]


def zsh(folder: Path, *words: str) -> list[str]:
    """Ask as the script for zsh does: three lines for each item."""
    environment = os.environ | {
        "_ONNX_PASSES_COMPLETE": "zsh_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-m", "onnx_passes"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    return [f"{kind} {value}" for kind, value in zip(lines[::3], lines[1::3], strict=True)]


def test_zsh(folder):
    assert zsh(folder, "onnx-passes", "model.onnx", "cleanup,shape-inf") == ["plain cleanup,shape-inference"]
    assert zsh(folder, "onnx-passes", "model") == ["file model"]
    assert zsh(folder, "onnx-passes", "m.onnx", "streamline{infer-thresholds.max") == [
        "plain streamline{infer-thresholds.max-bits="
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(run, shell):
    assert "_ONNX_PASSES_COMPLETE" in run("completion", shell).out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", CursorPosition("name", 0)),
        ("clean", CursorPosition("name", 0)),
        ("cleanup, sh", CursorPosition("name", 9, "cleanup")),
        ("fixpoint(a", CursorPosition("name", 9, "fixpoint")),
        ("fixpoint{", CursorPosition("option", 9, "fixpoint")),
        ("fixpoint{max=", CursorPosition("value", 13, "fixpoint", "max")),
        ("fixpoint{max=3, m", CursorPosition("option", 16, "fixpoint", "max")),
        ("a{b=[1, 2", CursorPosition("value", 8, "a", "b")),
        ("a{b=[1, 2], c", CursorPosition("option", 12, "a", "b")),
        ("fixpoint{max=3}(cl", CursorPosition("name", 16, "fixpoint", "max")),
        ("fixpoint(a{x=1}, b{", CursorPosition("option", 19, "b", "x")),
    ],
)
def test_the_end_of_unfinished_text_is_understood(text, expected):
    found = place_of(text)
    assert (found.kind, text[found.start :].strip(), found.owner) == (
        expected.kind,
        text[expected.start :].strip(),
        expected.owner,
    )
    assert found.option == expected.option or found.kind != "value"
