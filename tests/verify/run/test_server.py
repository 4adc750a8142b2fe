"""Large models, and any that may be large beside other threads, run in a process that shares nothing with this one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import save
from onnx_passes.graph.load import load
from onnx_passes.verify.run import server
from onnx_passes.verify.run.execute import ExecutionError, Executor, MemoryLimitError
from onnx_passes.verify.run.resources import Resources
from onnx_passes.verify.run.server import Profile
from onnx_passes.verify.run.sessions import InChild, InProcess, footprint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
DIVISION = f"{HEAD} g (int64[2] x, int64[2] z) => (int64[2] y) {{ q = Div(x, z) y = Identity(q) }}"
SPREAD = f"""{HEAD} g (float[2] x) => (float y) <int64[2] s = {{40000, 2}}, int64[2] r = {{1, 4000}}> {{
  a = Expand(x, s) b = Tile(a, r) y = ReduceMax <keepdims = 0> (b)
}}"""
WIDTH = 2048
MEMORY = 2**26


@pytest.fixture
def threads() -> Iterator[None]:
    """Let another thread run."""
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    yield
    over.set()
    other.join()


def product(dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Model:
    """One product with a weight of 4M elements."""
    name = dtype.name.lower()
    x, y = (ir.val(name, dtype, [1, WIDTH]) for name in "xy")
    w = ir.val("w", dtype, [WIDTH, WIDTH])
    values = np.random.default_rng(0).normal(size=(WIDTH, WIDTH)).astype(dtype.numpy())
    w.const_value = ir.Tensor(values, dtype, name="w")
    node = ir.Node("", "MatMul", [x, w], outputs=[y])
    graph = ir.Graph([x], [y], nodes=[node], initializers=[w], opset_imports={"": 20}, name=name)
    return ir.Model(graph, ir_version=10)


def sample(dtype: ir.DataType = ir.DataType.FLOAT) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(1, WIDTH)).astype(dtype.numpy())}


def large(memory: int = MEMORY) -> Executor:
    """Return an executor to which the model is large."""
    return Executor(resources=Resources(memory=memory))


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16])
def test_a_large_model_runs_in_a_process_that_ends_with_the_run(dtype):
    model = product(dtype)
    here, apart = Executor().prepare(model), large().prepare(model)
    assert isinstance(here._session, InProcess)
    assert isinstance(apart._session, InChild)
    for _ in range(2):
        found = apart.run(sample(dtype))["y"]
        assert found.dtype == dtype.numpy()
        assert found.tobytes() == here.run(sample(dtype))["y"].tobytes()
        assert apart._session._child._started is None


@pytest.mark.parametrize("external", [True, False])
def test_weights_are_read_from_the_files_that_they_lie_in(external, tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_passes.graph.load._STAYS_IN_FILE", 2**10)
    monkeypatch.setattr("onnx_passes.graph.wire._WORTH_SPLITTING", 2**10)
    save(product(), tmp_path / "m.onnx", external=external)
    model = load(tmp_path / "m.onnx")
    copied: list[object] = []
    monkeypatch.setattr("onnx_passes.verify.run.sessions._copied", copied.append)
    found = large().prepare(model).run(sample())["y"]
    assert not copied
    assert found.tobytes() == Executor().prepare(product()).run(sample())["y"].tobytes()


def test_weights_count_as_memory():
    with pytest.raises(MemoryLimitError, match=r"--memory-limit sets another limit"):
        large(WIDTH * WIDTH * 4).prepare(product())


@pytest.mark.usefixtures("threads")
def test_beside_threads_a_model_that_takes_too_much_is_stopped():
    ready = Executor(resources=Resources(memory=2**27)).prepare(load(SPREAD.encode()))
    for _ in range(2):
        with pytest.raises(MemoryLimitError, match=r"needs more than 0\.125 GiB of memory"):
            ready.run({"x": np.ones(2, np.float32)})


@pytest.mark.usefixtures("threads")
def test_beside_threads_a_crash_is_an_error_and_the_next_run_works():
    ready = Executor().prepare(load(DIVISION.encode()))
    with pytest.raises(ExecutionError, match=r"ONNX Runtime crashed on the data \(SIGFPE\)"):
        ready.run({"x": np.array([-(2**63), 1]), "z": np.array([-1, 1])})
    assert ready.run({"x": np.array([7, -7]), "z": np.array([2, 2])})["y"].tolist() == [3, -3]


@pytest.mark.usefixtures("threads")
def test_beside_threads_a_small_model_of_known_shapes_runs_here():
    assert isinstance(Executor().prepare(product())._session, InProcess)


def test_the_server_is_replaced_when_somebody_ended_it():
    ready = large().prepare(product())
    known = server._server_of(os.getpid())
    assert known is not None
    known._process.send_signal(signal.SIGKILL)
    known._process.wait()
    assert ready.run(sample())["y"].shape == (1, WIDTH)


def test_without_a_server_a_copy_of_this_process_runs_the_model(monkeypatch):
    monkeypatch.setattr(server, "has_server", lambda: False)
    assert large().prepare(product()).run(sample())["y"].shape == (1, WIDTH)


def test_options_that_are_no_text_are_not_sent():
    assert Profile(session_options={"a": "b"}).to_json() is not None
    assert Profile.from_json(str(Profile().to_json())) == Profile()
    assert Profile(provider_options=[object()]).to_json() is None


def test_a_footprint_counts_weights_and_all_results():
    model = load(f"{HEAD} g (float[2, 8] x) => (float[2, 8] y) {{ a = Neg(x) y = Abs(a) }}".encode())
    size = footprint(model, 100)
    assert (size.weights, size.results, size.is_known) == (100, 3 * 64, False)
    model.graph[0].outputs[0].type, model.graph[0].outputs[0].shape = ir.TensorType(ir.DataType.DOUBLE), ir.Shape([2])
    size = footprint(model, 0)
    assert (size.bytes, size.is_known) == (2 * 64 + 16, True)
