"""The notebooks run from top to bottom, and show what their text says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat: Any = pytest.importorskip("nbformat")
nbclient: Any = pytest.importorskip("nbclient")

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
SHOWN = {
    "a_first_pass": [
        "5 matches of Relu > Quant",
        "5 matches of drop-relu-before-quant",
        "33 → 28 nodes, 5 rewrites, bits:",
        "equal bit by bit",
        "'drop-relu-before-quant' is defined in this session",
    ],
    "streamline_a_network": [
        "accuracy 99.17% on 360 images",
        "33 → 20 nodes",
        "100% of the 383,232 MACs behind the first quantizer are integer",
        "accuracy 99.17% before, 99.17% after",
        "within tolerance",
        "<Ranges of",
        "BatchNormalization",
        "streamline{infer-thresholds.max-bits=3}",
        "report.html",
    ],
    "find_the_bad_rewrite": [
        "different on 1 sample",
        "VerificationError: logits not as expected",
        "number 1 of 4 in this pass, by SplitBatchNorm",
        "In[2]:8",
        "the session is still at step ",
        "smallest variance 0.0162, epsilon 1e-05",
        "4 rewrites, bits:",
    ],
    "prototype_a_rule": [
        "2 matches of pooled_quantizer",
        "the model no longer runs",
        "2 rewrites, bits:",
        "135994 operations beside products before, 127930 after",
        "2 near misses",
        "'quantize-later' is defined in this session",
    ],
}


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def text_of(output: Any) -> str:
    data = output.get("data", {})
    return "\n".join([output.get("text", ""), *map(str, data.values()), *output.get("traceback", ())])


def test_every_notebook_is_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_stored_notebooks_are_valid_and_hold_no_results(name: str):
    notebook = read(name)
    nbformat.validate(notebook)
    for number, cell in enumerate(notebook.cells, 1):
        assert cell.id == f"{name.replace('_', '-')}-{number:02}"
        assert cell.cell_type == "markdown" or not cell.outputs


@pytest.mark.parametrize("name", SHOWN)
def test_notebook_runs_and_shows_what_it_says(name: str, tmp_path: Path):
    notebook = read(name)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        failed = any(output.output_type == "error" for output in cell.outputs)
        assert failed == ("raises-exception" in cell.metadata.get("tags", ())), cell.source
    outputs = [output for cell in code for output in cell.outputs]
    shown = "\n".join(map(text_of, outputs))
    for text in SHOWN[name]:
        assert text in shown
    assert not any("stderr" in output.get("name", "") for output in outputs)
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert pages
    assert all("onnx-passes" in page and "<script" not in page for page in pages)
