"""Fresh environments: of which Python, with the newest dependencies or the lowest that pyproject.toml allows."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[.*\])?(?P<bounds>[^;]*)(?:;\s*(?P<marker>.+))?")
_LOWEST = re.compile(r"[>=]=\s*(?P<version>[\w.]+)")
_MARKER = re.compile(r"python_version\s*(?P<how><|>=)\s*['\"](?P<version>\d+\.\d+)['\"]")
OLDEST = (3, 11)


@dataclass(frozen=True)
class Interpreter:
    """A Python, and its version."""

    path: Path
    version: tuple[int, int]

    def __str__(self) -> str:
        return f"Python {'.'.join(map(str, self.version))}"


def interpreters(paths: list[Path]) -> list[Interpreter]:
    """Ask interpreters for their versions; of each version that is supported one is kept."""
    found: dict[tuple[int, int], Interpreter] = {}
    for path in paths:
        asked = subprocess.run(
            [path, "-c", "import json, sys; print(json.dumps(sys.version_info[:2]))"], capture_output=True, check=False
        )
        if asked.returncode == 0:
            major, minor = json.loads(asked.stdout)
            if (major, minor) >= OLDEST:
                found.setdefault((major, minor), Interpreter(path, (major, minor)))
    return [found[version] for version in sorted(found)]


class Environment:
    """A virtual environment in a folder of its own."""

    def __init__(self, interpreter: Interpreter, folder: Path) -> None:
        self.folder = folder
        subprocess.run([interpreter.path, "-m", "venv", folder], check=True)

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self.folder / "bin" / "python"

    def install(self, *what: str, constraints: Path | None = None) -> None:
        """Install packages as wheels only: nothing is compiled here."""
        limits = [] if constraints is None else ["--constraint", str(constraints)]
        command = [
            self.python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
        ]
        subprocess.run([*command, *limits, *what], check=True)

    def run(self, *arguments: str | Path, cwd: Path) -> str:
        """Run Python there, and return what it prints."""
        done = subprocess.run([self.python, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(
                f"{' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())


def extras() -> dict[str, list[str]]:
    """Return what pyproject.toml has as extras, those of developers apart."""
    found = _project()["optional-dependencies"]
    return {name: needed for name, needed in found.items() if name not in ("dev", "docs")}


def lowest(version: tuple[int, int], names: list[str] | None = None) -> str:
    """Write constraints: of every dependency, and of those of the named extras, the lowest version that is allowed."""
    project = _project()
    needed = list(project["dependencies"])
    for name in names or ():
        needed += project["optional-dependencies"][name]
    return "\n".join(_lowest_versions(needed, version)) + "\n"


def _lowest_versions(needed: list[str], version: tuple[int, int]) -> Iterator[str]:
    for text in needed:
        match = _REQUIREMENT.fullmatch(text.strip())
        assert match is not None, text
        bound = _LOWEST.search(match["bounds"])
        if bound is not None and _applies(match["marker"], version):
            yield f"{match['name']}=={bound['version']}"


def _applies(marker: str | None, version: tuple[int, int]) -> bool:
    """Evaluate a marker on the version of Python, the only kind that is used."""
    if marker is None:
        return True
    match = _MARKER.fullmatch(marker.strip())
    assert match is not None, marker
    major, minor = map(int, match["version"].split("."))
    return version < (major, minor) if match["how"] == "<" else version >= (major, minor)


def _project() -> dict[str, dict[str, list[str]] | list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
