"""Export the models of the zoo with random weights, each in a process of its own, and list them in a manifest.

    python benchmarks/zoo.py FOLDER [PATTERN…] [--timeout SECONDS] [--list]

Runs in an environment of zoo.txt. What is in FOLDER already is kept. A model that cannot be exported, or that ONNX
Runtime cannot run, is said to be missing, and why. Weights are drawn from a fixed seed; those that libraries start at
zero or one are moved away from it, as training would, lest a rewrite that forgets them go unnoticed.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import io
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import zoo_models
from counting import operators

MANIFEST = "manifest.json"
SEED = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of exports, with * and ?")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one model")
    parser.add_argument("--list", action="store_true", help="say what would be exported")
    arguments = parser.parse_args()
    chosen = [e for e in zoo_models.exports() if any(fnmatch.fnmatch(e.name, p) for p in arguments.patterns)]
    if not chosen:
        parser.error(f"no export is named {' or '.join(arguments.patterns)}; --list says what there is")
    if arguments.list:
        print("\n".join(export.name for export in chosen))
        return 0
    torch.set_num_threads(1)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"HF_HUB_OFFLINE": "1", "YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "true"}
    missing = [export.name for export in chosen if not exported(export, arguments.folder, arguments.timeout)]
    manifest(arguments.folder)
    print(f"{len(chosen) - len(missing)} of {len(chosen)} models are in {arguments.folder}")
    return 1 if missing else 0


def exported(export: zoo_models.Export, folder: Path, timeout: int) -> bool:
    """Export a model in a process of its own, unless it is there."""
    if (folder / f"{export.name}.json").exists():
        return True
    # Libraries are imported once, before processes part.
    importlib.import_module(export.library)
    started = time.monotonic()
    process = multiprocessing.get_context("fork").Process(target=attempt, args=(export, folder))
    process.start()
    process.join(timeout)
    process.kill()
    process.join()
    failure = folder / f".{export.name}.failure"
    reason = failure.read_text() if failure.exists() else f"ended with {process.exitcode}" if process.exitcode else ""
    print(f"{export.name:60} {time.monotonic() - started:5.0f} s  {' '.join(reason.split())[:200]}", flush=True)
    for rest in folder.glob(f".{export.name}.*"):
        rest.unlink()
    return not reason


def attempt(export: zoo_models.Export, folder: Path) -> None:
    # What exporters have to say is of no interest unless they fail.
    sys.stdout = sys.stderr = io.StringIO()
    try:
        write(export, folder)
    except Exception as problem:  # noqa: BLE001 - whatever it is, others go on
        (folder / f".{export.name}.failure").write_text(f"{type(problem).__name__}: {problem}")


def manifest(folder: Path) -> None:
    """Collect what is said of each model."""
    models = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.name != MANIFEST]
    (folder / MANIFEST).write_text(json.dumps(models, indent=1) + "\n")


def write(export: zoo_models.Export, folder: Path) -> None:
    import onnx

    warnings.filterwarnings("ignore")
    torch.manual_seed(SEED)
    prepared = export.prepare()
    prepared.module.eval()
    trained(prepared.module)
    # The exporters write weights of their own accord beside large files: what is kept is one file.
    unfinished = folder / f".{export.name}.onnx"
    with torch.no_grad():
        {"torchscript": torchscript, "dynamo": dynamo}[export.exporter](export, prepared, unfinished)
    model = onnx.load(unfinished)
    for path in folder.glob(f"{unfinished.name}*"):
        path.unlink()
    onnx.save(model, unfinished)
    run(unfinished, prepared.inputs)
    path = unfinished.rename(folder / f"{export.name}.onnx")
    about = {
        "name": export.name,
        "library": export.library,
        "architecture": export.architecture,
        "exporter": export.exporter,
        "opset": export.opset,
        "dynamic": export.dynamic,
        "source": source(export.library),
        "nodes": operators(model).total(),
        "bytes": path.stat().st_size,
    }
    (folder / f"{export.name}.json").write_text(json.dumps(about) + "\n")


def trained(module: torch.nn.Module) -> None:
    """Move parameters that are all alike, and what normalizations have seen, away from where they start."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel() > 1 and parameter.min() == parameter.max():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(torch.randn_like(buffer), alpha=0.1)
            if name.endswith("running_var"):
                buffer.mul_(0.75 + 0.5 * torch.rand_like(buffer))


def torchscript(export: zoo_models.Export, prepared: zoo_models.Prepared, path: Path) -> None:
    torch.onnx.export(
        prepared.module,
        tuple(prepared.inputs.values()),
        str(path),
        dynamo=False,
        opset_version=export.opset,
        input_names=list(prepared.inputs),
        dynamic_axes=prepared.axes if export.dynamic else None,
    )


def dynamo(export: zoo_models.Export, prepared: zoo_models.Prepared, path: Path) -> None:
    shapes = tuple(dict.fromkeys(prepared.axes.get(name, {}), torch.export.Dim.DYNAMIC) for name in prepared.inputs)
    several = isinstance(prepared.module, zoo_models.Called)
    torch.onnx.export(
        prepared.module,
        tuple(prepared.inputs.values()),
        str(path),
        dynamo=True,
        opset_version=export.opset,
        input_names=list(prepared.inputs),
        dynamic_shapes=((shapes,) if several else shapes) if export.dynamic else None,
        verbose=False,
    )


def run(path: Path, inputs: dict[str, torch.Tensor]) -> None:
    """Run a model once in ONNX Runtime, and refuse one that says nothing."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = {value.name for value in session.get_inputs()}
    made: Sequence[Any] = session.run(None, {name: x.numpy() for name, x in inputs.items() if name in expected})
    first = torch.from_numpy(made[0]).double()
    if not first.numel() or not bool(first.isfinite().all()) or bool((first == first.flatten()[0]).all()):
        raise ValueError(f"results are {'empty' if not first.numel() else 'all alike or not finite'}")


def source(library: str) -> str:
    import importlib.metadata

    return f"{library} {importlib.metadata.version(library)}, torch {torch.__version__}"


if __name__ == "__main__":
    sys.exit(main())
