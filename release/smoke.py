"""What anybody would try first with the installed package; run by the interpreter of an environment.

python smoke.py            the commands, the Python interface, an error
python smoke.py EXTRA      what an extra is for
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

EXTRAS: dict[str, Callable[[], None]] = {}


def command(*arguments: str, code: int = 0) -> str:
    """Run the command line, and return all that it says."""
    program = Path(sys.executable).with_name("onnx-passes")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == code, f"onnx-passes {' '.join(arguments)} ended with {done.returncode}:\n{said}"
    return said


def plain() -> None:
    """Try the package without extras."""
    import onnx_passes
    from onnx_passes import examples

    assert "site-packages" in onnx_passes.__file__, f"not the installed package: {onnx_passes.__file__}"
    model = str(examples.path("digits-mlp"))
    assert "99.17% before, 99.17% after" in command("demo", "--report", "report.html")
    assert Path("report.html").stat().st_size > 100_000
    command("simplify", model, "simple.onnx")
    command("verify", model, "simple.onnx")
    command("draw", "simple.onnx", "-o", "simple.svg")
    assert "fuse-batchnorm" in command("list", "batchnorm")
    evidence = command("list", "--evidence")
    assert "laws and rules are proved" in evidence
    assert "stale" not in evidence, "certificates are not those of these sources"
    assert "were changed" not in evidence, "certificates are not as they were written"
    assert "did you mean" in command(model, "simplifi", code=2)
    assert "Traceback" not in command("nowhere.onnx", "simplify", code=2)
    result = onnx_passes.apply(model, "streamline")
    assert result.record.level not in ("unverified", "failed"), result.record.level
    onnx_passes.save(result.model, "integers.onnx")
    outputs = onnx_passes.run_model("integers.onnx", {"image": examples.digits().image})
    assert (outputs["logits"].argmax(axis=1) == examples.digits().label).mean() > 0.97


def extra(function: Callable[[], None]) -> Callable[[], None]:
    """Name a function for the extra that it tries."""
    EXTRAS[function.__name__] = function
    return function


@extra
def dask() -> None:
    from distributed import LocalCluster

    from onnx_passes import examples

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        for name in examples.NAMES:
            Path("models").mkdir(exist_ok=True)
            Path("models", f"{name}.onnx").write_bytes(examples.path(name).read_bytes())
        command("models", "simplify", "-o", "out", "--scheduler", cluster.scheduler_address)
    assert len(list(Path("out").glob("*.onnx"))) == len(examples.NAMES)


@extra
def data() -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    from onnx_passes import examples

    digits = examples.digits()
    model = str(examples.path("digits-mlp"))
    group = zarr.open_group("digits.zarr", mode="w")
    for name, array in (("image", digits.image), ("label", digits.label)):
        group.create_array(name, shape=array.shape, dtype=array.dtype)[...] = array
    pq.write_table(pa.table({"label": pa.array(np.asarray(digits.label))}), "labels.parquet")
    for labels in ("digits.zarr#label", "labels.parquet#label"):
        given = ("--dataset", "digits.zarr#image", "--expect", labels, "--metric", "accuracy")
        assert "accuracy" in command(model, "simplify", "-o", "measured.onnx", *given)


@extra
def draw() -> None:
    import onnx_passes
    from onnx_passes import examples

    assert onnx_passes.draw(examples.path("digits-mlp")).save("model.png").read_bytes().startswith(b"\x89PNG")


@extra
def networkx() -> None:
    import onnx_passes
    from onnx_passes import examples

    assert onnx_passes.to_networkx(examples.path("digits-mlp")).number_of_nodes() > 10


@extra
def prove() -> None:
    import onnx_passes
    from onnx_passes.proofs.equal import prove_equal

    head = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x, float[2] y) => (bool[2] z)'
    Path("one.onnxtxt").write_text(f"{head} {{ a = Less (x, y) b = Greater (x, y) z = Or (a, b) }}")
    Path("two.onnxtxt").write_text(f"{head} {{ a = Less (x, y) b = Less (y, x) z = Or (b, a) }}")
    proof = prove_equal(*map(onnx_passes.load, ("one.onnxtxt", "two.onnxtxt")))
    assert getattr(proof, "level", "") == "proved-here", proof


@extra
def view() -> None:
    from onnx_passes import examples

    program = [Path(sys.executable).with_name("onnx-passes"), "view", "--no-browser", examples.path("digits-mlp")]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.terminate()
    assert "http://" in said, said


@extra
def testing() -> None:
    import onnx_passes

    report = onnx_passes.fuzz("convert-sub", cases=10)
    assert not report.findings
    assert report.matches


if __name__ == "__main__":
    started = time.perf_counter()
    for step in [EXTRAS[name] for name in sys.argv[1:]] or [plain]:
        step()
    print(f"ok, {time.perf_counter() - started:.0f} s")
