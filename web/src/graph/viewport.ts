import { signal } from "@preact/signals";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

const LEAST = 0.02;
const MOST = 3;

/** What part of the graph is seen, and how large: graph × k + (x, y) = screen. */
export class Viewport {
  readonly at = signal({ x: 0, y: 0, k: 1 });
  readonly size = signal({ width: 0, height: 0 });

  move(dx: number, dy: number): void {
    const { x, y, k } = this.at.value;
    this.at.value = { x: x + dx, y: y + dy, k };
  }

  zoom(factor: number, screenX: number, screenY: number): void {
    const { x, y, k } = this.at.value;
    const next = Math.min(MOST, Math.max(LEAST, k * factor));
    this.at.value = { x: screenX - ((screenX - x) / k) * next, y: screenY - ((screenY - y) / k) * next, k: next };
  }

  /** The part of the graph that is seen. */
  seen(): Box {
    const { x, y, k } = this.at.value;
    return { x: -x / k, y: -y / k, width: this.size.value.width / k, height: this.size.value.height / k };
  }

  fit(box: Box, largest = 1): void {
    const { width, height } = this.size.value;
    const k = Math.max(LEAST, Math.min(largest, (width - 48) / Math.max(1, box.width), (height - 48) / Math.max(1, box.height)));
    this.at.value = { k, x: width / 2 - (box.x + box.width / 2) * k, y: height / 2 - (box.y + box.height / 2) * k };
  }

  /** Fit the first box that can be read when fitted; if there is none, show the part around a place. */
  open(boxes: Box[], place: Box, readable = 0.62): void {
    for (const box of boxes) {
      this.fit(box);
      if (this.at.value.k >= readable) return;
    }
    this.centre(place.x + place.width / 2, place.y + place.height / 2, 0.9, 0.4);
    const above = (boxes[0]?.y ?? 0) * 0.9 + this.at.value.y;
    if (above > 36) this.move(0, 36 - above);
    const [all] = boxes;
    const left = (all?.x ?? 0) * 0.9 + this.at.value.x;
    if (all && all.width * 0.9 > this.size.value.width && left > 36) this.move(36 - left, 0);
  }

  centre(x: number, y: number, k = this.at.value.k, height = 0.5): void {
    this.at.value = { k, x: this.size.value.width / 2 - x * k, y: this.size.value.height * height - y * k };
  }

  /** Bring a box into view, moving no more than it takes. */
  reveal(box: Box): void {
    const { x, y, k } = this.at.value;
    const { width, height } = this.size.value;
    const left = box.x * k + x;
    const top = box.y * k + y;
    const inside = left > 8 && top > 8 && left + box.width * k < width - 8 && top + box.height * k < height - 8;
    if (!inside) this.centre(box.x + box.width / 2, box.y + box.height / 2, Math.max(k, 0.7));
  }
}
