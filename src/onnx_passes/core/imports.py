"""Import of modules that define a user's passes, and lazy imports."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import zlib
from collections.abc import Collection, Generator, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from onnx_passes.core.errors import OnnxPassesError, UsageError


def import_user_modules(names: Iterable[str], *, base: Path | None = None) -> None:
    """Import modules and ``.py`` files, so that their passes are registered.

    Files are relative to ``base``; modules are also looked for there and in the current folder.
    """
    for name in names:
        try:
            if name.endswith(".py") or "/" in name:
                _import_file((base or Path()) / name)
            else:
                _import_module(name, base)
        except OnnxPassesError:
            raise
        except Exception as error:
            raise UsageError(
                f"importing '{name}' raised {type(error).__name__}: {error}", hint="run with --debug for the traceback"
            ) from error


@contextlib.contextmanager
def nothing_from(*folders: Path) -> Generator[None]:
    """Prevent imports of modules in these folders."""
    kept = list(sys.path)
    closed = {folder.resolve() for folder in folders}
    sys.path[:] = [place for place in kept if Path(place or ".").resolve() not in closed]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = kept


@contextlib.contextmanager
def postponed(*names: str) -> Generator[None]:
    """Load modules, when they are imported, only once a name of theirs is asked for.

    It is for a process of our own that ends with its command: to others, errors of an import that is put off come as a
    surprise.
    """
    finder = _Postponing(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Postponing(MetaPathFinder):
    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Find a module as usual, and let it be loaded late."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._names else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"there is no file '{path}' to import", hint="files are relative to the configuration")
    resolved = path.resolve()
    name = path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(resolved):
            return
        name = f"{path.stem}_{zlib.crc32(str(resolved).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise UsageError(f"'{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _import_module(name: str, base: Path | None) -> None:
    folders = [str(folder) for folder in (Path.cwd(), base and base.resolve()) if folder]
    added = [folder for folder in folders if folder not in sys.path]
    sys.path[:0] = added
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or name.split(".")[0] != error.name.split(".")[0]:
            raise
        raise UsageError(
            f"there is no module '{name}' to import", hint="name an installed module, or a file such as ./passes.py"
        ) from error
    finally:
        for folder in added:
            sys.path.remove(folder)
