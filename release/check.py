"""Is this fit for a release? Builds twice, installs in fresh environments, tries what users would try, and measures.

    python release/check.py [--pythons PYTHON…] [--extras EXTRA…] [--only-extras]

Needs a Python with hatchling. PYTHON… are interpreters to install in; without them those that are found on the PATH,
and those that pyenv has. `make release-check` runs all of it.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from build import ReleaseError, build
from environments import Environment, Interpreter, extras, interpreters, lowest

HERE = Path(__file__).parent
LEFT_OUT = {"train": "torch is too large to be installed here"}
_VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_RUNS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", type=Path, default=None)
    parser.add_argument("--extras", nargs="*", default=list(extras()), choices=list(extras()), metavar="EXTRA")
    parser.add_argument("--only-extras", action="store_true", help="do not install without an extra")
    arguments = parser.parse_args()
    found = interpreters(arguments.pythons or _known())
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        work = Path(folder)
        wheel, sdist = build(Path(sys.executable), work)
        print(f"two builds are the same, byte by byte\n{_size(wheel)}\n{_size(sdist)}", flush=True)
        for interpreter in [] if arguments.only_extras else found:
            for versions in ("newest", "lowest"):
                failures += _try(f"{interpreter}, {versions}", partial(_installed, interpreter, versions, wheel, work))
        for name in arguments.extras:
            if name in LEFT_OUT:
                print(f"extra {name}: left out, {LEFT_OUT[name]}")
                continue
            for versions in ("newest", "lowest"):
                label = f"{found[0]}, extra {name}, {versions}"
                failures += _try(label, partial(_with_extra, found[0], name, versions, wheel, work))
    print("\n".join(["", *failures, "not fit for a release" if failures else "fit for a release"]))
    return 1 if failures else 0


def _known() -> list[Path]:
    on_path = [path for version in _VERSIONS if (path := shutil.which(f"python{version}"))]
    return [*map(Path, on_path), *sorted(Path.home().glob(".pyenv/versions/*/bin/python"))]


def _try(label: str, step: Callable[[], str]) -> list[str]:
    started = time.perf_counter()
    try:
        said = step()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"{label}: FAILED", flush=True)
        return [f"{label}: {error}"]
    print(f"{label}: {said} ({time.perf_counter() - started:.0f} s)", flush=True)
    return []


def _installed(interpreter: Interpreter, versions: str, wheel: Path, work: Path) -> str:
    environment, here = _environment(interpreter, versions, wheel, work, [])
    bare = environment.size()
    smoke = environment.run(HERE / "smoke.py", cwd=here).strip()
    package = sum(path.stat().st_size for path in environment.folder.glob("lib/*/site-packages/onnx_passes/**/*.py"))
    figures = [
        f"installed {bare / 2**20:.0f} MiB, of which modules of ours {package / 2**20:.1f} MiB",
        f"CPU ms: python {_cpu(environment, here, '-c', 'pass'):.0f}",
        f"import onnx_passes {_cpu(environment, here, '-c', 'import onnx_passes'):.0f}",
        f"onnx_passes.api {_cpu(environment, here, '-c', 'import onnx_passes.api'):.0f}",
        f"--help {_cpu(environment, here, '-m', 'onnx_passes', '--help'):.0f}",
        f"slowest imports (ms by the clock): {_slowest_imports(environment, here)}",
    ]
    shutil.rmtree(environment.folder)
    return f"smoke test {smoke}; {', '.join(figures)}"


def _with_extra(interpreter: Interpreter, name: str, versions: str, wheel: Path, work: Path) -> str:
    environment, here = _environment(interpreter, versions, wheel, work, [name])
    said = environment.run(HERE / "smoke.py", name, cwd=here).strip()
    shutil.rmtree(environment.folder)
    return said


def _environment(
    interpreter: Interpreter, versions: str, wheel: Path, work: Path, names: list[str]
) -> tuple[Environment, Path]:
    here = work / "here"
    # One that failed left both behind.
    for folder in (work / "environment", here):
        shutil.rmtree(folder, ignore_errors=True)
    here.mkdir()
    environment = Environment(interpreter, work / "environment")
    constraints = None
    if versions == "lowest":
        constraints = work / "lowest.txt"
        constraints.write_text(lowest(interpreter.version, names))
    environment.install(f"{wheel}[{','.join(names)}]" if names else str(wheel), constraints=constraints)
    return environment, here


def _cpu(environment: Environment, here: Path, *arguments: str) -> float:
    """Return the milliseconds of processor time that Python takes for something, the least of some runs."""
    times: list[float] = []
    for _ in range(_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment.run(*arguments, cwd=here)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(times)


def _slowest_imports(environment: Environment, here: Path) -> str:
    """Name the modules that take longest to import by themselves."""
    command = [environment.python, "-X", "importtime", "-c", "import onnx_passes.api"]
    said = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stderr
    rows = [line.removeprefix("import time:").split("|") for line in said.splitlines() if line.count("|") == 2]
    packages: dict[str, int] = {}
    for own, _, module in rows:
        if own.strip().isdigit():
            name = module.strip().partition(".")[0]
            packages[name] = packages.get(name, 0) + int(own)
    slowest = sorted(packages.items(), key=lambda item: -item[1])[:4]
    return ", ".join(f"{name} {microseconds / 1000:.0f}" for name, microseconds in slowest)


def _size(path: Path) -> str:
    return f"{path.name}: {path.stat().st_size / 2**20:.2f} MiB"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ReleaseError as error:
        sys.exit(f"not fit for a release: {error}")
