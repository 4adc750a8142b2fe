"""Big weights are told apart as digests tell them apart, and read only where size and samples agree."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.external import DataFile, MappedTensor
from onnx_passes.graph.hashing.content import tensor_digest
from onnx_passes.graph.hashing.fingerprint import Fingerprinter
from onnx_passes.graph.hashing.identity import Identities, is_same, sample

SIZE = 40_000


def numbers(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)


def mapped(path: Path, *arrays: np.ndarray, dtype: ir.DataType = ir.DataType.FLOAT) -> list[MappedTensor]:
    """Put the bytes of arrays into a file, one after the other, and map them as tensors."""
    path.write_bytes(b"".join(array.tobytes() for array in arrays))
    file, found, offset = DataFile(path), [], 0
    for array in arrays:
        shape = ir.Shape(array.shape if dtype.bitwidth >= 8 else [array.size * 8 // dtype.bitwidth])
        tensor = ir.ExternalTensor(path.name, offset, array.nbytes, dtype, shape=shape, name="w", base_dir=path.parent)
        found.append(MappedTensor(tensor, path.parent, file))
        offset += array.nbytes
    return found


def changed(array: np.ndarray, at: int) -> np.ndarray:
    other = array.copy()
    other.reshape(-1)[at] += 1
    return other


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("at", [0, SIZE // 2, SIZE - 1])
def test_weights_that_differ_in_samples_are_not_read(at, tmp_path):
    first, other = mapped(tmp_path / "data", numbers(), changed(numbers(), at))
    keys = Identities()
    assert keys.tensor(first) != keys.tensor(other)
    assert keys.tensor(first) == keys.tensor(first)


@pytest.mark.usefixtures("unread")
def test_weights_in_one_place_are_the_same_without_being_read(tmp_path):
    (first,) = mapped(tmp_path / "data", numbers())
    again = MappedTensor(first, tmp_path, DataFile(tmp_path / "data"))
    keys = Identities()
    assert keys.tensor(first) == keys.tensor(again)


def test_weights_that_differ_between_samples_are_read_and_told_apart(tmp_path):
    first, other, same = mapped(tmp_path / "data", numbers(), changed(numbers(), 7000), numbers())
    assert sample(first) == sample(other)
    keys = Identities()
    assert keys.tensor(first) != keys.tensor(other)
    assert keys.tensor(first) == keys.tensor(same)


def test_the_same_place_in_another_file_is_another_weight(tmp_path):
    (first,), (other,) = mapped(tmp_path / "a", numbers()), mapped(tmp_path / "b", changed(numbers(), 7000))
    assert not is_same(first, other)


def variants(tmp_path: Path) -> list[ir.TensorProtocol]:
    """The same numbers however they are held, and others that samples do not tell from them."""
    array = numbers().reshape(200, 200)
    held = mapped(tmp_path / "data", array, changed(array, 7000))
    arrays = (array, changed(array, 7000), changed(array, 0), np.asfortranarray(array), array.T.copy().T)
    lazy = ir.LazyTensor(lambda: ir.Tensor(array), dtype=ir.DataType.FLOAT, shape=ir.Shape([200, 200]))
    packed = np.random.default_rng(1).integers(0, 256, SIZE // 2, dtype=np.uint8)
    bits = ir.PackedTensor(packed, ir.DataType.INT4, shape=ir.Shape([SIZE]))
    narrow = [
        bits,
        ir.Tensor(bits.numpy()),
        ir.PackedTensor(changed(packed, 3000), ir.DataType.INT4, shape=ir.Shape([SIZE])),
        *mapped(tmp_path / "narrow", packed, dtype=ir.DataType.INT4),
    ]
    odd = [
        ir.PackedTensor(np.append(packed, np.uint8(last)), ir.DataType.INT4, shape=ir.Shape([SIZE + 1]))
        for last in (0x07, 0xF7, 0x08)
    ]
    small = [ir.Tensor(np.array(value, np.float32)) for value in (0.0, -0.0, 0.0)]
    other_types = [
        ir.Tensor(array.view(np.int32)),
        ir.Tensor(array.astype(ml_dtypes.bfloat16)),
        ir.Tensor(array.ravel()),
    ]
    return [*held, *map(ir.Tensor, arrays), lazy, *narrow, *odd, *small, *other_types]


@pytest.mark.parametrize("backwards", [False, True])
def test_keys_are_equal_exactly_if_digests_are(backwards, tmp_path):
    tensors = variants(tmp_path)[:: -1 if backwards else 1]
    keys = Identities()
    found = [keys.tensor(tensor) for tensor in tensors]
    digests = [tensor_digest(tensor) for tensor in tensors]
    for a in range(len(tensors)):
        assert [found[a] == key for key in found] == [digests[a] == digest for digest in digests]


def test_a_weight_that_is_gone_is_never_taken_for_another():
    keys = Identities()
    first = keys.tensor(ir.Tensor(numbers()))
    others = [keys.tensor(ir.Tensor(changed(numbers(), 7000))) for _ in range(2)]
    assert first != others[0] == others[1]


def with_weight(tensor: ir.TensorProtocol) -> ir.Model:
    x = ir.val("x", ir.DataType.FLOAT, [SIZE])
    w = ir.Value(name="w", const_value=tensor)
    node = ir.Node("", "Add", [x, w])
    graph = ir.Graph([x], [node.outputs[0]], nodes=[node], initializers=[w], opset_imports={"": 20}, name="g")
    return ir.Model(graph, ir_version=10)


@pytest.mark.usefixtures("unread")
def test_a_model_is_identified_without_reading_its_weights(tmp_path):
    first, other = (with_weight(tensor) for tensor in mapped(tmp_path / "data", numbers(), numbers(1)))
    identity = Fingerprinter.within_run()
    assert identity.structural(first) == identity.structural(first.clone())
    assert identity.structural(first) != identity.structural(other)
