"""Pictures of reports for the README: ``python web/screenshots.py docs/images``."""

from __future__ import annotations

import base64
import os
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from onnx_passes import examples
from onnx_passes.cli.main import run_command_line

SIZE = {"width": 1280, "height": 760}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-lcd-text",
]
PICTURES = {"report": "#step=59&rewrite=18&node=relu1/Quant/Quant", "overview": "#page=overview"}


def take(browser: Browser, report: Path, scheme: str, place: str, target: Path) -> None:
    """Open a place of a report and save what is seen."""
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")
    page.goto(f"{report.as_uri()}{place}")
    page.wait_for_selector(".node, .overview")
    picture = base64.b64encode(page.screenshot()).decode()
    page.close()
    # A page of its own decodes the picture: that of a report lets no picture in.
    blank = browser.new_page()
    pixels = np.frombuffer(base64.b64decode(blank.evaluate(DECODE, picture)), np.uint8)
    blank.close()
    target.write_bytes(few_colours(pixels.reshape(SIZE["height"], SIZE["width"], 4)[..., :3]))


DECODE = """
async picture => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const pen = new OffscreenCanvas(image.width, image.height).getContext("2d");
  pen.drawImage(image, 0, 0);
  const {data} = pen.getImageData(0, 0, image.width, image.height);
  let text = "";
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}
"""


def few_colours(pixels: np.ndarray) -> bytes:
    """Write a PNG with a palette of the 256 most frequent colours; the others, blends at edges, take the nearest."""
    height, width, _ = pixels.shape
    colours, places, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(-counts)[:256]]
    away = ((colours[:, None, :].astype(np.int32) - palette.astype(np.int32)) ** 2).sum(axis=2)
    rows = away.argmin(axis=1).astype(np.uint8)[places].reshape(height, width)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)


def main(folder: Path) -> None:
    """Write the report of the demo and take its pictures, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        report = Path(scratch) / "report.html"
        model = str(examples.path("digits-cnn"))
        if run_command_line(["-o", f"{scratch}/out.onnx", "--report", str(report), model, "streamline"]):
            raise SystemExit("the report could not be written")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, place in PICTURES.items():
            for scheme in ("light", "dark"):
                take(browser, report, scheme, place, folder / f"{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
