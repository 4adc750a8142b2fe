"""How many transposes a network has before and after convert-channels-last, with its interface kept or turned.

python benchmarks/channels_last.py MODEL…
"""

from __future__ import annotations

import argparse

import onnx_ir as ir

import onnx_passes

PIPELINES = (
    "simplify",
    "simplify, convert-channels-last",
    "simplify, convert-channels-last{inputs=true, outputs=true}",
)


def transposes(model: ir.Model) -> int:
    return sum(node.op_type == "Transpose" for node in model.graph.all_nodes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    print("model | before | convert-channels-last | {inputs=true, outputs=true}")
    for model in parser.parse_args().models:
        found = [transposes(onnx_passes.apply(model, pipeline, verify=False).model) for pipeline in PIPELINES]
        print(model, *found, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
