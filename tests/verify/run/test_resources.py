"""Limits of time and memory, and crashes of the engine: each is one sentence, and this process goes on."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.graph.load import load
from onnx_passes.verify.run import execute
from onnx_passes.verify.run.child import Child, ChildError, DiedError, can_fork
from onnx_passes.verify.run.execute import ExecutionError, Executor, TimeLimitError
from onnx_passes.verify.run.resources import Resources, current_resources, limited, other_threads

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'
FOREVER = f"""{HEAD} g (float x) => (float y) <bool t = {{1}}> {{
  y = Loop ("", t, x) <body = b (int64 i, bool c, float a) => (bool d, float e) {{ d = Identity(c) e = Neg(a) }}>
}}"""
RANGE = f"""{HEAD} g (float x) => (float y) <int64 a = {{0}}, int64 b = {{3000000000}}, int64 c = {{1}}> {{
  r = Range(a, b, c) f = Cast <to = 1> (r) m = ReduceMax <keepdims = 0> (f) y = Add(x, m)
}}"""
CONSTANT = f"""{HEAD} g (float x) => (float y) <int64[2] s = {{40000, 40000}}, int64[2] z = {{0, 0}}> {{
  a = ConstantOfShape(s) b = Exp(a) c = GatherND(b, z) y = Add(x, c)
}}"""
DOUBLING = f"""{HEAD} g (float x) => (float y) <float[1] v0 = {{1.0}}> {{
  {" ".join(f"v{n + 1} = Concat <axis = 0> (v{n}, v{n})" for n in range(34))}
  m = ReduceMax <keepdims = 0> (v34) y = Add(x, m)
}}"""
DIVISION = f"{HEAD} g (int64[2] x, int64[2] z) => (int64[2] y) {{ q = Div(x, z) y = Identity(q) }}"
LOWEST = np.array([-(2**63), 1]), np.array([-1, 1])
"""What has no quotient: the machine ends the process."""

needs_fork = pytest.mark.skipif(not can_fork(), reason="a process cannot be copied here")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is not limited here")


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest) -> None:
    """Let a test run in a process of its own where others left threads: memory is not limited beside these."""
    others = other_threads()
    if not others or "threads" in request.node.name:
        return
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", request.node.nodeid]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=request.config.rootpath)
    assert done.returncode == 0, done.stdout
    pytest.skip(f"passed in a process of its own, as these threads run here: {', '.join(others)}")


def model(text: str) -> ir.Model:
    return load(text.encode())


@needs_fork
def test_a_crash_is_an_error_and_the_next_run_works():
    ready = Executor().prepare(model(DIVISION))
    with pytest.raises(ExecutionError, match=r"ONNX Runtime crashed on the data \(SIGFPE\)"):
        ready.run(dict(zip("xz", LOWEST, strict=True)))
    assert ready.run({"x": np.array([7, -7]), "z": np.array([2, 2])})["y"].tolist() == [3, -3]


@needs_fork
def test_results_of_another_process_are_those_of_this_one(monkeypatch):
    text = f"""{HEAD} g (float[a,3] x, string[2] s, bool[0] e) => (float[a,3] y, string[2] t, bool[0] f, int64 n) {{
      y = Neg(x) t = Identity(s) f = Not(e) k = Size(x) n = Div(k, k)
    }}"""
    sample = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1],
        "s": np.array(["ä", ""], dtype=object),
        "e": np.zeros(0, bool),
    }
    apart = Executor().prepare(model(text))
    found = apart.run(sample)
    monkeypatch.setattr(execute, "may_crash", lambda model: False)
    here = Executor().prepare(model(text))
    for name, expected in here.run(sample).items():
        assert found[name].dtype == expected.dtype
        assert found[name].shape == expected.shape
        assert found[name].tolist() == expected.tolist()
    assert apart.shapes() == here.shapes()
    assert apart.run(sample, only=["n"])["n"].item() == 1
    found["y"][0] = 5.0


@needs_fork
def test_sequences_come_back_from_another_process():
    text = f"""{HEAD} g (float[4] x, int64 n) => (seq(float[k]) y, int64 q) {{
      y = SplitToSequence(x, n) q = Div(n, n)
    }}"""
    found = Executor().prepare(model(text)).run({"x": np.arange(4, dtype=np.float32), "n": np.array(2)})
    assert [piece.tolist() for piece in found["y"]] == [[0, 1], [2, 3]]


@needs_fork
def test_what_another_process_says_is_the_error():
    with pytest.raises(ExecutionError, match="No Op registered for Quotient"):
        Executor().prepare(
            model(f"{HEAD} g (int64 x) => (int64 y) {{ z = Div(x, x) y = Quotient(z) }}"), engine="onnxruntime"
        )
    ready = Executor().prepare(model(DIVISION))
    with pytest.raises(ExecutionError, match=r"failed on the data: .*z"):
        ready.run({"x": np.array([1, 2]), "z": np.array([1, 2, 3])})


@needs_fork
def test_processes_end_with_what_they_run():
    ready = Executor().prepare(model(DIVISION))
    started = ready._session._child._started
    del ready
    with pytest.raises(ProcessLookupError):
        os.kill(started.pid, 0)


@needs_fork
def test_a_process_may_die_while_it_prepares():
    with pytest.raises(DiedError, match="SIGKILL"):
        Child(lambda: os.kill(os.getpid(), signal.SIGKILL), Resources())
    with pytest.raises(ChildError, match="no such thing"):
        Child(lambda: {}["no such thing"], Resources())


@needs_fork
@pytest.mark.parametrize("engine", ["onnxruntime", "reference"])
def test_a_loop_without_end_is_ended(engine):
    ready = Executor(resources=Resources(seconds=1.0)).prepare(model(FOREVER), engine=engine)
    with pytest.raises(TimeLimitError, match="ran longer than 1 s; --time-limit sets another limit"):
        ready.run({"x": np.array(1, np.float32)})


def test_a_loop_without_end_is_ended_in_this_process(monkeypatch):
    monkeypatch.setattr(execute, "may_crash", lambda model: False)
    ready = Executor(resources=Resources(seconds=0.5)).prepare(model(FOREVER))
    with pytest.raises(TimeLimitError, match=r"ran longer than 0\.5 s"):
        ready.run({"x": np.array(1, np.float32)})


def test_after_a_time_limit_no_other_sample_is_tried():
    ready = Executor(resources=Resources(seconds=0.5)).prepare(model(FOREVER))
    started = time.monotonic()
    with pytest.raises(TimeLimitError):
        ready.run_each([{"x": np.array(1, np.float32)}] * 50, all_must_run=False)
    assert time.monotonic() - started < 15


@on_linux
@pytest.mark.parametrize("text", [RANGE, CONSTANT, DOUBLING], ids=["Range", "ConstantOfShape", "Concat"])
def test_memory_is_refused_before_it_is_taken(text):
    ready = Executor(resources=Resources(memory=2**28)).prepare(model(text))
    with pytest.raises(ExecutionError, match=r"needs more than 0\.25 GiB of memory; --memory-limit"):
        ready.run({"x": np.array(1, np.float32)})
    assert len(bytes(2**29)) == 2**29


@on_linux
def test_memory_of_other_threads_is_not_limited():
    event = threading.Event()
    other = threading.Thread(target=event.wait)
    other.start()
    try:
        ready = Executor(resources=Resources(memory=2**20)).prepare(
            model(f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Neg(x) }}")
        )
        assert ready.run({"x": np.ones(2**22, np.float32)})["y"].size == 2**22
    finally:
        event.set()
        other.join()


def test_limits_hold_in_a_block():
    assert current_resources() == Resources(60.0, 4 * 2**30)
    with limited(time_limit=0.5), limited(memory_limit=2**28):
        assert Executor().resources == Resources(0.5, 2**28)
        with pytest.raises(ModelError, match=r"ran longer than 0\.5 s"):
            onnx_passes.run_model(model(FOREVER))
    assert current_resources() == Resources()
    for wrong in ({"time_limit": 0}, {"time_limit": float("nan")}, {"memory_limit": -1}):
        with pytest.raises(UsageError, match="lets nothing run"), limited(**wrong):
            pass


@needs_fork
def test_a_run_that_crashes_on_all_that_is_generated_is_unverified():
    text = f"""{HEAD} g (float[n] x) => (int64 y) <int64 low = {{{-(2**63)}}}, int64 one = {{-1}}> {{
      s = Shape(x) k = Squeeze(s) z = Mul(k, one) w = Min(z, one) v = Max(w, one) d = Div(low, v) y = Identity(d)
    }}"""
    result = onnx_passes.apply(model(text), "eliminate-identity")
    (step,) = [step for step in result.steps if step.name == "eliminate-identity"]
    assert step.evidence.level == "unverified"
    assert "ONNX Runtime crashed on the data (SIGFPE)" in step.evidence.reason


def test_a_model_of_speech_is_verified_on_lengths_that_hold_a_window():
    text = f"""{HEAD} g (float[B,N] waveforms, int64[B] lengths) => (float[B,T] features, int64[B] frames)
    <int64[1] one = {{1}}, int64[1] none = {{0}}, int64 zero = {{0}}, int64 step = {{1}}, int64 window = {{400}},
     int64 hop = {{160}}, float silence = {{0.0}}, float[1, 1, 400] w = {{{", ".join(["0.0025"] * 400)}}}> {{
      channel = Unsqueeze(waveforms, one) conv = Conv <kernel_shape = [400], strides = [160]>(channel, w)
      energy = Squeeze(conv, one) again = Identity(energy)
      beyond = Sub(lengths, window) whole = Div(beyond, hop) frames = Add(whole, step)
      size = Shape <start = 1>(energy) most = Squeeze(size) places = Range(zero, most, step)
      row = Unsqueeze(places, none) column = Unsqueeze(frames, one) heard = Less(row, column)
      features = Where(heard, again, silence)
    }}"""
    with pytest.raises(ExecutionError):
        Executor().prepare(model(text)).run({"waveforms": np.ones((1, 8), np.float32), "lengths": np.array([8])})
    result = onnx_passes.apply(model(text), "simplify")
    assert result.modified
    assert result.record.level in ("bits:sampled", "bits:proved-here", "bits:proved")


@needs_fork
@on_linux
@pytest.mark.parametrize(
    "text", [RANGE, CONSTANT, FOREVER, DOUBLING], ids=["Range", "ConstantOfShape", "Loop", "Concat"]
)
def test_models_that_never_end_or_take_all_memory(text):
    with limited(time_limit=1, memory_limit=2**29), pytest.raises(OnnxPassesError):
        onnx_passes.run_model(model(text))


def test_a_model_of_a_large_input_is_not_run_on_made_up_data():
    with limited(time_limit=1, memory_limit=2**29), pytest.raises(OnnxPassesError):
        onnx_passes.run_model(model(f"{HEAD} g (float[40000, 20000] x) => (float[40000, 20000] y) {{ y = Neg(x) }}"))
