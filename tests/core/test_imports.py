from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.core.imports import import_user_modules, postponed


@pytest.fixture(autouse=True)
def forget_modules():
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_file_is_relative_to_the_base(tmp_path):
    write(tmp_path / "by_file.py", "value = 1")
    import_user_modules(["by_file.py"], base=tmp_path)
    assert sys.modules["by_file"].value == 1


def test_module_is_found_beside_the_configuration(tmp_path):
    write(tmp_path / "beside_it.py", "value = 2")
    before = list(sys.path)
    import_user_modules(["beside_it"], base=tmp_path)
    assert sys.modules["beside_it"].value == 2
    assert sys.path == before


def test_file_is_imported_once(tmp_path):
    path = write(tmp_path / "once_only.py", "import sys\nsys.once_only = getattr(sys, 'once_only', 0) + 1")
    import_user_modules([str(path), str(path)])
    assert sys.once_only == 1
    del sys.once_only


def test_files_of_the_same_name_do_not_hide_each_other(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "twin.py", f"import sys\nsys.twins = [*getattr(sys, 'twins', []), '{folder}']")
    import_user_modules([str(tmp_path / "a" / "twin.py"), str(tmp_path / "b" / "twin.py")])
    assert sys.twins == ["a", "b"]
    del sys.twins


def test_failed_file_is_not_left_half_imported(tmp_path):
    path = write(tmp_path / "half.py", "value = 1\nraise RuntimeError('no')")
    with pytest.raises(UsageError, match="RuntimeError: no"):
        import_user_modules([str(path)])
    assert "half" not in sys.modules


def test_missing_module_inside_a_module_is_named(tmp_path):
    write(tmp_path / "outer_mod.py", "import inner_module_that_is_missing")
    with pytest.raises(UsageError, match="inner_module_that_is_missing"):
        import_user_modules(["outer_mod"], base=tmp_path)


def test_a_postponed_module_is_loaded_when_it_is_used(tmp_path, monkeypatch):
    write(tmp_path / "late.py", "import sys\nsys.loaded_late = True\nvalue = 3")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "loaded_late", False, raising=False)
    with postponed("late"):
        import late  # pyright: ignore[reportMissingImports]
    assert not sys.loaded_late
    assert late.value == 3
    assert sys.loaded_late


def test_modules_are_postponed_no_longer_than_asked_for(tmp_path, monkeypatch):
    write(tmp_path / "early.py", "import sys\nsys.loaded_early = True")
    monkeypatch.syspath_prepend(tmp_path)
    with postponed("early"):
        pass
    import early  # pyright: ignore[reportMissingImports]

    assert early.__name__ == "early"
    assert sys.loaded_early
    del sys.loaded_early


def test_a_postponed_module_that_does_not_exist_is_missed_at_once():
    with postponed("nowhere_at_all"), pytest.raises(ModuleNotFoundError):
        import nowhere_at_all  # pyright: ignore[reportMissingImports] # noqa: F401
