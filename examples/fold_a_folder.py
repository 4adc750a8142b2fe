"""Simplify all models of a folder; what fails is said, and the others go on.

For thousands of models, several processes, clusters and results that are kept, see ``onnx-passes batch``.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import onnx_passes
from onnx_passes import examples


def main(folder: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.onnx")):
        try:
            result = onnx_passes.simplify(path)
        except onnx_passes.core.errors.OnnxPassesError as error:
            print(f"{path.name}: {error}")
            continue
        result.save(target / path.name)
        before, after = result.record.before.nodes, result.record.after.nodes
        print(f"{path.name}: {before} → {after} nodes, {result.record.level}")


def some_models() -> Path:
    """Make a folder of two models and a file that is none."""
    folder = Path(tempfile.mkdtemp())
    for name in examples.NAMES:
        shutil.copy(examples.path(name), folder / f"{name}.onnx")
    (folder / "broken.onnx").write_bytes(b"no model")
    return folder


main(Path(sys.argv[1]) if len(sys.argv) > 1 else some_models(), Path("simple"))
