"""Build wheel and sdist twice and compare them byte by byte; check what the wheel contains."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIRED = (
    "onnx_passes/py.typed",
    "onnx_passes/passes/index.json",
    "onnx_passes/certificates/eliminate-transpose.json",
    "onnx_passes/report/viewer/viewer.html",
    "onnx_passes/zoo/page.html",
    "onnx_passes/examples/digits_cnn.onnx",
    "onnx_passes/examples/digits_mlp.onnx",
    "onnx_passes/examples/digits_test.npz",
)
"""Files beside modules without which something would not work."""
UNWANTED = ("certificates/", "tests/", "docs/", "benchmarks/", "web/", "examples/", "release/")
"""What belongs to the repository and not to the package."""


class ReleaseError(Exception):
    """Something is not fit for a release."""


def build(python: Path, target: Path) -> tuple[Path, Path]:
    """Build sdist and wheel from two copies of the repository; returns those of the first, in ``target``."""
    made: list[dict[str, Path]] = []
    for number in (1, 2):
        source, output = target / f"source-{number}", target / f"dist-{number}"
        _copy_of_the_repository(source)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": date_of_the_commit(), "PYTHONHASHSEED": str(number)}
        subprocess.run([python, "-m", "hatchling", "build", "-d", output], cwd=source, env=environment, check=True)
        shutil.rmtree(source)
        made.append({path.name: path for path in sorted(output.iterdir())})
    first, second = made
    differing = [name for name in first.keys() | second.keys() if _digest(first.get(name)) != _digest(second.get(name))]
    if differing:
        raise ReleaseError(f"two builds differ: {', '.join(sorted(differing))}")
    wheel = next(path for name, path in first.items() if name.endswith(".whl"))
    sdist = next(path for name, path in first.items() if name.endswith(".tar.gz"))
    check_contents(wheel, sdist)
    return wheel, sdist


def date_of_the_commit() -> str:
    """Return when the last commit was made, which all files of a build are dated by."""
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def check_contents(wheel: Path, sdist: Path) -> None:
    """Refuse a wheel that lacks files of the package or has others, and an sdist that lacks what a build needs."""
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    package = ROOT / "src" / "onnx_passes"
    data = ROOT / "certificates"
    tracked = {f"onnx_passes/{path}" for path in _tracked(package)}
    tracked |= {f"onnx_passes/certificates/{path}" for path in _tracked(data)}
    missing = sorted((tracked | set(REQUIRED)) - inside)
    if missing:
        raise ReleaseError(f"the wheel lacks {', '.join(missing)}")
    strange = sorted(name for name in inside - tracked if ".dist-info/" not in name)
    unwanted = sorted(name for name in inside if name.startswith(UNWANTED))
    if strange or unwanted:
        raise ReleaseError(f"the wheel has {', '.join(strange or unwanted)}, which are not files of the package")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "README.md", "LICENSE", "src/onnx_passes/__init__.py", "Makefile"}
    lacking = sorted((needed | {f"certificates/{path}" for path in _tracked(data)}) - names)
    if lacking:
        raise ReleaseError(f"the sdist lacks {', '.join(lacking)}")


def _copy_of_the_repository(target: Path) -> None:
    """Copy what git knows, as it is now: what lies about in a working tree is no part of a release."""
    for name in _tracked(ROOT):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)


def _tracked(folder: Path) -> list[str]:
    found = subprocess.run(["git", "ls-files", "-z"], cwd=folder, capture_output=True, text=True, check=True)
    return [name for name in found.stdout.split("\0") if name and (folder / name).is_file()]


def _digest(path: Path | None) -> str:
    return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
