from __future__ import annotations

from pathlib import Path

import pytest

from onnx_passes.cli.words import Words, sort_words
from onnx_passes.core.errors import UsageError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder with a few models, one of them named like a pass."""
    for name in ("a.onnx", "b.onnx", "plain", "simplify"):
        (tmp_path / name).touch()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "models", "passes", "output"),
    [
        ("a.onnx", "a.onnx", "", None),
        ("a.onnx cleanup simplify", "a.onnx", "cleanup simplify", None),
        ("a.onnx cleanup, fixpoint{max=2}(simplify)", "a.onnx", "cleanup, fixpoint{max=2}(simplify)", None),
        ("a.onnx b.onnx cleanup", "a.onnx b.onnx", "cleanup", None),
        ("plain cleanup", "plain", "cleanup", None),
        ("- cleanup", "-", "cleanup", None),
        ("./simplify cleanup", "./simplify", "cleanup", None),
        ("simplify a.onnx", "a.onnx", "simplify", None),
        ("simplify a.onnx out.onnx", "a.onnx", "simplify", "out.onnx"),
        ("simplify - -", "-", "simplify", "-"),
        (
            "Simplify{fold-constants.max-size=1} plain new.onnx",
            "plain",
            "Simplify{fold-constants.max-size=1}",
            "new.onnx",
        ),
        ("cleanup simplify a.onnx b.onnx", "a.onnx", "cleanup simplify", "b.onnx"),
        ("simplify a.onnx b.onnx out", "a.onnx b.onnx", "simplify", "out"),
        ("simplify a.onnx b.onnx new/", "a.onnx b.onnx", "simplify", "new/"),
        ("simplify ./simplify x.onnx", "./simplify", "simplify", "x.onnx"),
        ("missing cleanup", "missing", "cleanup", None),
        ("extract{inputs=[a/b]} a.onnx o.onnx", "a.onnx", "extract{inputs=[a/b]}", "o.onnx"),
    ],
)
def test_models_stand_before_passes_or_behind_them(words, models, passes, output):
    assert sort_words(words.split()) == Words(tuple(models.split()), tuple(passes.split()), output)


def test_with_an_output_given_all_models_behind_passes_are_read():
    assert sort_words(["simplify", "a.onnx", "b.onnx"], has_output=True) == Words(("a.onnx", "b.onnx"), ("simplify",))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("simplify", "no model is given: 'simplify' is a pass.*a file of that name is './simplify'"),
        (
            "simplify a.onnx b.onnx c.onnx",
            "2 models cannot be written to one file c.onnx; name a folder last, or with -o",
        ),
        ("simplify a.onnx cleanup", "the pass 'cleanup' is between models"),
    ],
)
def test_refuses(words, reason):
    with pytest.raises(UsageError, match=reason):
        sort_words(words.split())
