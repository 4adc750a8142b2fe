"""Prove that what another tool made of a model computes the same for every input, or see an input that differs."""

import json
import subprocess
import sys
from pathlib import Path

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g (float[2, 4] x) => (float[2, 4] y)'
MODELS = {
    "original": "{ a = Neg (x) b = Neg (a) c = Abs (b) y = Relu (c) }",
    "right": "{ y = Abs (x) }",
    "wrong": "{ y = Relu (x) }",
}
for name, body in MODELS.items():
    Path(f"{name}.onnxtxt").write_text(f"{HEAD} {body}", encoding="utf-8")


def certify(before: str, after: str) -> dict:
    """Run the command, and return the certificate, which others can check: onnx-passes certify --check FILE …"""
    file = f"{after}.json"
    command = ["certify", f"{before}.onnxtxt", f"{after}.onnxtxt", "--json", file]
    subprocess.run([sys.executable, "-m", "onnx_passes", *command], capture_output=True, check=False)
    return json.loads(Path(file).read_text(encoding="utf-8"))


for after in ("right", "wrong"):
    certificate = certify("original", after)
    for window in certificate["windows"]:
        print(f"{after}: {window['output']} is {window['level']}")
        if "example" in window:
            print(f"  for example {window['example']}")
