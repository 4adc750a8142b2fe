"""Simplify models with one tool, one by one; started by simplify.py, in the environment of the tool.

    python simplify_one.py TOOL

Each line of standard input is a job, ``[MODEL, OUTPUT]``, and is answered by a line of figures as JSON. CPU time is of
the call alone: start-up, loading and saving are left out, as far as the tool lets us. For us, also how much of it goes
into running the model, into making ready to, and into inferring shapes with dynamic dimensions.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counting import operators_in

ANSWER = "figures: "
"""Tells answers from what tools print."""


def onnxsim(path: str, output: str) -> dict[str, float]:
    import onnx
    import onnxsim

    return _timed(path, output, lambda model: onnxsim.simplify(model)[0], onnx)


def onnxslim(path: str, output: str) -> dict[str, float]:
    import onnx
    import onnxslim

    return _timed(path, output, onnxslim.slim, onnx)


def onnxoptimizer(path: str, output: str) -> dict[str, float]:
    import onnx
    import onnxoptimizer

    chosen = [name for name in onnxoptimizer.get_available_passes() if name.startswith(("fuse_", "eliminate_"))]
    return _timed(path, output, lambda model: onnxoptimizer.optimize(model, chosen), onnx)


def onnxscript(path: str, output: str) -> dict[str, float]:
    import onnx
    import onnxscript.optimizer

    return _timed(path, output, onnxscript.optimizer.optimize, onnx)


def onnx_passes_04(path: str, output: str) -> dict[str, float]:
    """Run the command line of version 0.4 of this package, which loads and saves by itself."""
    from importlib.metadata import entry_points

    (command,) = entry_points(group="console_scripts", name="onnx-passes")
    run = command.load()
    started = time.process_time()
    run.main(["-o", output, path, "shape-inference", "fold-constants", "eliminate", "cleanup"], standalone_mode=False)
    return {"cpu": time.process_time() - started}


def ours(path: str, output: str) -> dict[str, float]:
    return _ours(path, output, verify=True)


def ours_unverified(path: str, output: str) -> dict[str, float]:
    return _ours(path, output, verify=False)


def _ours(path: str, output: str, *, verify: bool) -> dict[str, float]:
    import onnx_shape_inference
    import onnxruntime

    import onnx_passes

    model = onnx_passes.load(path)
    spent: dict[str, float] = {}
    session = onnxruntime.InferenceSession
    with (
        _watched(spent, "running", session, "run"),
        _watched(spent, "sessions", session, "__init__"),
        _watched(spent, "symbols", onnx_shape_inference, "infer_symbolic_shapes"),
    ):
        started = time.process_time()
        result = onnx_passes.apply(model, "simplify", verify=verify)
        spent["cpu"] = time.process_time() - started
    onnx_passes.save(result.model, output)
    return spent


@contextmanager
def _watched(spent: dict[str, float], key: str, holder: Any, name: str) -> Iterator[None]:
    """Add up the CPU time of a function of a library."""
    original = getattr(holder, name)
    spent[key] = 0.0

    def timed(*arguments: Any, **options: Any) -> Any:
        started = time.process_time()
        try:
            return original(*arguments, **options)
        finally:
            spent[key] += time.process_time() - started

    setattr(holder, name, timed)
    try:
        yield
    finally:
        setattr(holder, name, original)


def _timed(path: str, output: str, simplify: Callable[[Any], Any], onnx: Any) -> dict[str, float]:
    model = onnx.load(path)
    started = time.process_time()
    simplified = simplify(model)
    cpu = time.process_time() - started
    onnx.save(simplified, output)
    return {"cpu": cpu}


def main() -> None:
    peers = (onnxsim, onnxslim, onnxoptimizer, onnxscript, onnx_passes_04)
    tool = {f.__name__: f for f in (*peers, ours, ours_unverified)}[sys.argv[1]]
    # Warmed up on a tiny model that has something of all, lest imports be counted.
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm.onnx"
        _tiny(warm)
        tool(str(warm), f"{folder}/out.onnx")
    for line in sys.stdin:
        path, output = json.loads(line)
        try:
            figures: dict[str, Any] = {**tool(path, output), "operators": operators_in(output)}
        except (Exception, SystemExit) as end:  # noqa: BLE001 - a refusal is a result
            figures = {"failure": _first_cause(end)}
        print(f"{ANSWER}{json.dumps(figures)}", flush=True)


def _first_cause(problem: BaseException) -> str:
    """Say what went wrong first; tools wrap it, and some then end the process."""
    while before := problem.__cause__ or problem.__context__:
        problem = before
    return f"{type(problem).__name__}: {problem}"


def _tiny(path: Path) -> None:
    import onnx

    text = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 2] x) => (float[M, 4] y)
    <float[2] a = {1.0, 2.0}, float[2] b = {3.0, 4.0}, int64[2] shape = {-1, 4}>
    { c = Add(a, b) n = Neg(x) s = Add(n, c) r = Relu(s) y = Reshape(r, shape) }"""
    onnx.save(onnx.parser.parse_model(text), str(path))


if __name__ == "__main__":
    main()
