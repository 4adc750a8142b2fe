from __future__ import annotations

import itertools
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.samples.reference import read_inputs, read_outputs

ALL_NUMBERS = [t for t in ir.DataType if t.name not in ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128")]


def model(inputs: str, outputs: str = "float[1] out", initializers: str = "") -> ir.Model:
    return ir.from_onnx_text(f"""
<ir_version: 10, opset_import: ["": 20]>
g ({inputs}) => ({outputs}) {initializers} {{
    out = Constant <value_floats: floats = [1.0]> ()
}}
""")


def of_type(dtype: ir.DataType, shape: tuple[int, ...] = (2,)) -> ir.Model:
    result = model("float[2] x")
    result.graph.inputs[0].type = ir.TensorType(dtype)
    result.graph.inputs[0].shape = ir.Shape(shape)
    return result


TWO = "float[2,3] x, int64[2] y"
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.array([7, 8], dtype=np.int64)


def refusal(m: ir.Model, *sources: object) -> str:
    with pytest.raises(UsageError) as caught:
        read_inputs(m, list(sources))  # type: ignore[arg-type]
    return str(caught.value)


def is_xy(samples: list[dict[str, np.ndarray]]) -> bool:
    return (
        len(samples) == 1
        and list(samples[0]) == ["x", "y"]
        and np.array_equal(samples[0]["x"], X)
        and np.array_equal(samples[0]["y"], Y)
    )


def test_reads_one_npy_file_for_each_input(tmp_path: Path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", Y)
    assert is_xy(read_inputs(model(TWO), [tmp_path / "a.npy", str(tmp_path / "b.npy")]))


def test_reads_npz_by_name_whatever_the_order(tmp_path: Path):
    np.savez(tmp_path / "a.npz", y=Y, x=X)
    assert is_xy(read_inputs(model(TWO), [tmp_path / "a.npz"]))


def test_reads_npz_by_order_counted_as_numbers(tmp_path: Path):
    names = [f"x{i}" for i in range(12)]
    np.savez(tmp_path / "a.npz", *[np.full(2, i, np.float32) for i in range(12)])
    [sample] = read_inputs(model(", ".join(f"float[2] {name}" for name in names)), [tmp_path / "a.npz"])
    assert [sample[name][0] for name in names] == list(range(12))


def test_an_input_may_be_called_like_an_unnamed_array(tmp_path: Path):
    np.savez(tmp_path / "a.npz", arr_1=X, arr_0=Y)
    [sample] = read_inputs(model("float[2,3] arr_1, int64[2] arr_0"), [tmp_path / "a.npz"])
    assert sample["arr_1"].shape == (2, 3)


def test_reads_protos_by_name_and_by_order(tmp_path: Path):
    for file, array, name in (("a", Y, "y"), ("b", X, "x"), ("c", X, "other"), ("d", Y, "")):
        (tmp_path / f"{file}.pb").write_bytes(onnx.numpy_helper.from_array(array, name).SerializeToString())
    assert is_xy(read_inputs(model(TWO), [tmp_path / "a.pb", tmp_path / "b.pb"]))
    assert is_xy(read_inputs(model(TWO), [tmp_path / "c.pb", tmp_path / "d.pb"]))


def test_reads_arrays_and_mappings():
    assert is_xy(read_inputs(model(TWO), [X, Y]))
    assert is_xy(read_inputs(model(TWO), [{"y": Y, "x": X}]))
    assert is_xy(read_inputs(model(TWO), [{"y": Y}, {"x": X}]))
    assert is_xy(read_inputs(model(TWO), [{"y": Y}, X]))


def test_several_sources_are_several_samples():
    assert [s["x"][0, 0] for s in read_inputs(model("float[2,3] x"), [X, X + 1, X + 2])] == [0, 1, 2]
    mappings = [{"x": X + i, "y": Y} for i in range(3)]
    assert [s["x"][0, 0] for s in read_inputs(model(TWO), mappings)] == [0, 1, 2]
    assert [s["x"][0, 0] for s in read_inputs(model(TWO), [X, Y, X + 1, Y])] == [0, 1]


def test_no_source_is_no_sample():
    assert read_inputs(model(TWO), []) == []


def test_a_model_without_inputs_takes_an_empty_sample():
    assert read_inputs(model(""), [{}]) == [{}]
    assert "the model has no input 'x'" in refusal(model(""), {"x": X})
    assert "found 1 arrays for a model without inputs" in refusal(model(""), X)


def test_inputs_with_a_default_are_optional():
    m = model("float[2,3] x, float[2] c", initializers="<float[2] c = {1, 2}>")
    assert [list(s) for s in read_inputs(m, [X])] == [["x"]]
    assert [list(s) for s in read_inputs(m, [X, X])] == [["x"], ["x"]]
    assert [list(s) for s in read_inputs(m, [{"c": np.ones(2, np.float32), "x": X}])] == [["x", "c"]]
    assert "input 'x' missing; found input 'c'" in refusal(m, {"c": np.ones(2, np.float32)})


def test_a_file_with_more_arrays_than_needed_fills_inputs_with_defaults(tmp_path: Path):
    m = model("float[2] c, float[2,3] x", initializers="<float[2] c = {1, 2}>")
    np.savez(tmp_path / "a.npz", np.ones(2, np.float32), X)
    assert [list(s) for s in read_inputs(m, [tmp_path / "a.npz"])] == [["c", "x"]]


@pytest.mark.parametrize("declared", ["2,3", "N,3"])
def test_a_leading_dimension_more_than_declared_counts_samples(declared: str):
    stacked = np.stack([X, X + 1, X + 2])
    samples = read_inputs(model(f"float[{declared}] x"), [stacked])
    assert [s["x"].shape for s in samples] == [(2, 3)] * 3
    assert np.array_equal(samples[2]["x"], X + 2)
    assert np.shares_memory(samples[2]["x"], stacked)


def test_many_rows_for_a_batch_of_one_are_many_samples():
    samples = read_inputs(model("float[1,3] x, int64[1] y"), [X, Y])
    assert [s["x"].tolist() for s in samples] == [[[0, 1, 2]], [[3, 4, 5]]]
    assert [s["y"].tolist() for s in samples] == [[7], [8]]


def test_a_dynamic_batch_stays_whole():
    assert [s["x"].shape for s in read_inputs(model("float[N,3] x"), [X])] == [(2, 3)]


def test_stacked_scalars_become_scalars():
    samples = read_inputs(model("int64 x"), [Y])
    assert [(s["x"].shape, s["x"].dtype, s["x"].item()) for s in samples] == [((), Y.dtype, 7), ((), Y.dtype, 8)]


def test_an_undeclared_shape_takes_any():
    assert [s["x"].shape for s in read_inputs(model("float[] x"), [X])] == [(2, 3)]


def test_refuses_different_numbers_of_samples():
    text = refusal(model("float[1,3] x, int64[1] y"), np.ones((3, 3), np.float32), Y)
    assert "array 1, array 2: the inputs hold different numbers of samples: 3 for 'x', 2 for 'y'" in text


def test_refuses_sizes_that_disagree_on_a_named_dimension():
    text = refusal(model("float[N,3] x, int64[N] y"), np.ones((3, 3), np.float32), Y)
    assert "dimension 'N' is 3 in input 'x' but 2 in input 'y'" in text


@pytest.mark.parametrize("shape", [(3, 2), (2,), (2, 4), (1, 1, 2, 3), (0, 2, 3), (4, 3)])
def test_refuses_a_wrong_shape(shape: tuple[int, ...]):
    text = refusal(model("float[2,3] x"), np.zeros(shape, np.float32))
    found = ",".join(map(str, shape))
    assert text == f"array 1: input 'x' has shape [{found}] but the model expects [2,3]"


def test_names_dynamic_dimensions_of_the_expected_shape():
    assert "expects [N,?,3]" in refusal(model("float[N,?,3] x"), X)


def test_refuses_wrong_counts():
    assert "found 3 arrays for inputs 'x' and 'y'; give 2 for every sample" in refusal(model(TWO), X, Y, X)
    assert "array 1: found 1 array for inputs 'x' and 'y'" in refusal(model(TWO), X)
    assert "mapping 2: 1 of 2 inputs found" in refusal(model(TWO), {"x": X, "y": Y}, {"x": X})


def test_refuses_too_many_arrays_in_a_file(tmp_path: Path):
    np.savez(tmp_path / "a.npz", X, Y, Y)
    assert "a.npz: found 3 arrays for inputs 'x' and 'y'" in refusal(model(TWO), tmp_path / "a.npz")


def test_refuses_unknown_and_repeated_names():
    text = refusal(model("float[2,3] image"), {"imagee": X})
    assert text == "mapping 1: the model has no input 'imagee'; did you mean 'image'?"
    assert "it has inputs 'x' and 'y'" in refusal(model(TWO), {"quite": X, "different": Y})
    assert "mapping 2: input 'x' is given twice in one sample" in refusal(model(TWO), {"x": X}, {"x": X})


def test_refuses_missing_files_and_folders(tmp_path: Path):
    np.save(tmp_path / "images.npy", X)
    text = refusal(model("float[2,3] x"), tmp_path / "image.npy")
    assert text == f"{tmp_path / 'image.npy'}: there is no such file; did you mean 'images.npy'?"
    assert "is a folder" in refusal(model("float[2,3] x"), tmp_path)
    assert "no such file" in refusal(model("float[2,3] x"), tmp_path / "no" / "folder.npy")


def test_refuses_unknown_kinds_of_files(tmp_path: Path):
    (tmp_path / "x.csv").write_text("1,2")
    assert "kind '.csv'; give .npy, .npz, or .pb" in refusal(model("float[2,3] x"), tmp_path / "x.csv")


@pytest.mark.parametrize("suffix", ["npy", "npz", "pb"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04 broken", b"\xff" * 40, b"\x80\x04K\x01."])
def test_refuses_unreadable_files(tmp_path: Path, suffix: str, content: bytes):
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(content)
    text = refusal(model("float[2,3] x"), path)
    assert text.startswith(f"{path}: this is not a readable {'TensorProto' if suffix == 'pb' else 'numpy file'} (")


def test_never_unpickles(tmp_path: Path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "x.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=np.array([Trap()], dtype=object))
    for name in ("x.npy", "x.npz"):
        assert "not a readable numpy file" in refusal(model("float[2,3] x"), tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_refuses_protos_with_data_elsewhere(tmp_path: Path):
    tensor = onnx.numpy_helper.from_array(X, "x")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    (tmp_path / "x.pb").write_bytes(tensor.SerializeToString())
    assert "its data is in another file" in refusal(model("float[2,3] x"), tmp_path / "x.pb")


def test_refuses_inputs_that_are_no_tensors():
    assert "input 'x' is no tensor but Sequence" in refusal(model("seq(float[2]) x"), X)


def test_converts_without_loss():
    [sample] = read_inputs(model("float[2,3] x"), [X.astype(np.float64)])
    assert sample["x"].dtype == np.float32
    assert np.array_equal(sample["x"], X)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (np.array([0.1, 1]), ir.DataType.FLOAT),
        (np.array([1e300, 1]), ir.DataType.FLOAT),
        (np.array([2**24 + 1, 1]), ir.DataType.FLOAT),
        (np.array([2**63 - 1, 1]), ir.DataType.DOUBLE),
        (np.array([2.0**63, 1]), ir.DataType.INT64),
        (np.array([2**63, 1], np.uint64), ir.DataType.INT64),
        (np.array([-1, 1]), ir.DataType.UINT64),
        (np.array([0.5, 1]), ir.DataType.INT32),
        (np.array([np.nan, 1]), ir.DataType.INT32),
        (np.array([np.inf, 1]), ir.DataType.INT64),
        (np.array([2, 1]), ir.DataType.BOOL),
        (np.array([8, 1]), ir.DataType.INT4),
        (np.array([257.0, 1]), ir.DataType.BFLOAT16),
        (np.array([1e9, 1]), ir.DataType.FLOAT8E4M3FN),
        (np.array([-0.0, 1]), ir.DataType.FLOAT8E4M3FNUZ),
    ],
)
def test_refuses_conversions_that_lose_something(data: np.ndarray, dtype: ir.DataType):
    text = refusal(of_type(dtype), data)
    assert f"has element type {data.dtype} but the model expects {dtype.name.lower()}" in text
    assert "cannot hold all of its values; save the array as" in text


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (np.array(["a", "b"]), ir.DataType.FLOAT),
        (np.array([1.0, 2.0]), ir.DataType.STRING),
        (np.array([b"\xff", b""]), ir.DataType.STRING),
        (np.array([1, 2j]), ir.DataType.FLOAT),
        (np.array([1.0, 2.0]), ir.DataType.COMPLEX64),
        (np.zeros(2, "V2"), ir.DataType.BFLOAT16),
    ],
)
def test_refuses_other_kinds_of_elements(data: np.ndarray, dtype: ir.DataType):
    text = refusal(of_type(dtype), data)
    assert f"has element type {data.dtype} but the model expects {dtype.name.lower()}" in text
    assert "cannot hold" not in text


@pytest.mark.parametrize("dtype", ALL_NUMBERS, ids=lambda t: t.name)
def test_small_powers_of_two_survive_in_every_type(dtype: ir.DataType):
    for data in (np.array([1, 1], np.float32), np.array([1, 1], np.int8), np.array([True, True])):
        [sample] = read_inputs(of_type(dtype), [data])
        assert sample["x"].dtype == dtype.numpy()
        assert sample["x"].astype(np.float32).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.permutations(["BFLOAT16", "INT4", "FLOAT8E5M2", "FLOAT16"], 2))
)
def test_small_types_convert_among_each_other(source: str, target: str):
    data = np.array([-1, 1]).astype(ir.DataType[source].numpy())
    [sample] = read_inputs(of_type(ir.DataType[target]), [data])
    assert sample["x"].dtype == ir.DataType[target].numpy()
    assert sample["x"].astype(np.float32).tolist() == [-1, 1]


@given(
    hnp.arrays(np.float64, 2, elements=st.floats(width=64)), st.sampled_from(["FLOAT", "FLOAT16", "BFLOAT16", "INT32"])
)
def test_what_is_accepted_is_equal(data: np.ndarray, target: str):
    try:
        [sample] = read_inputs(of_type(ir.DataType[target]), [data])
    except UsageError:
        return
    np.testing.assert_array_equal(sample["x"].astype(np.float64), data)


@given(hnp.arrays(np.float32, 2, elements=st.floats(width=32)))
def test_widening_is_always_accepted_and_returns(data: np.ndarray):
    [wide] = read_inputs(of_type(ir.DataType.DOUBLE), [data])
    [back] = read_inputs(of_type(ir.DataType.FLOAT), [wide["x"]])
    np.testing.assert_array_equal(back["x"], data)
    assert np.array_equal(np.signbit(back["x"]), np.signbit(data)) or np.isnan(data).any()


def test_reads_the_other_byte_order(tmp_path: Path):
    np.save(tmp_path / "x.npy", X.astype(">f4"))
    [sample] = read_inputs(model("float[2,3] x"), [tmp_path / "x.npy"])
    assert sample["x"].dtype == np.dtype(np.float32)
    assert sample["x"].dtype.isnative
    assert np.array_equal(sample["x"], X)


@pytest.mark.parametrize("data", [np.array(["ä", "b"]), np.array(["ä".encode(), b"b"]), np.array(["ä", "b"], object)])
def test_reads_text(data: np.ndarray):
    [sample] = read_inputs(of_type(ir.DataType.STRING), [data])
    assert sample["x"].dtype == object
    assert sample["x"].tolist() == ["ä", "b"]


def test_reads_small_floats_from_protos(tmp_path: Path):
    data = np.array([1.5, -2], ml_dtypes.bfloat16)
    (tmp_path / "x.pb").write_bytes(onnx.numpy_helper.from_array(data, "x").SerializeToString())
    [sample] = read_inputs(of_type(ir.DataType.BFLOAT16), [tmp_path / "x.pb"])
    assert sample["x"].dtype == data.dtype
    assert sample["x"].tolist() == data.tolist()


def test_zero_sized_arrays_are_samples():
    [sample] = read_inputs(model("float[0,3] x"), [np.zeros((0, 3))])
    assert sample["x"].shape == (0, 3)
    assert sample["x"].dtype == np.float32


def test_outputs_follow_the_same_rules():
    m = model("float[1] x", "float[1] out")
    assert [s["out"].tolist() for s in read_outputs(m, [np.array([1, 2], np.float32)])] == [[1], [2]]
    with pytest.raises(UsageError, match="the model has no output 'outt'; did you mean 'out'"):
        read_outputs(m, [{"outt": X}])
    with pytest.raises(UsageError, match=r"output 'out' has shape \[2,3\] but the model expects \[1\]"):
        read_outputs(m, [X])


@pytest.mark.parametrize("declared", ["float[N,3] out", "float[?,3] out", "float[] out"])
def test_outputs_of_open_shape_are_taken_apart_as_the_inputs_were(declared: str):
    m = model("float[1] x", declared)
    assert [s["out"].tolist() for s in read_outputs(m, [X], samples=2)] == [[[0, 1, 2]], [[3, 4, 5]]]
    assert [s["out"].shape for s in read_outputs(m, [X])] == [(2, 3)]
    assert [s["out"].shape for s in read_outputs(m, [X], samples=3)] == [(2, 3)]
    assert [s["out"].shape for s in read_outputs(m, [X, X], samples=2)] == [(2, 3)] * 2


def test_outputs_with_a_fixed_first_dimension_stay_whole():
    assert [s["out"].shape for s in read_outputs(model("float[1] x", "float[2,3] out"), [X], samples=2)] == [(2, 3)]
