/** Nodes in layers, with a chain of bends where an edge passes layers, ordered so that few edges cross. */

/** An edge over more layers than this is drawn behind everything else, straight: bends for it would only push nodes apart. */
const LONGEST = 48;

export class Layers {
  readonly layers: number[][];
  readonly up: number[][];
  readonly down: number[][];
  /** For each edge the bends it passes; nothing if it is too long for them. */
  readonly bends: (number[] | undefined)[];
  readonly nodes: number;
  position: Int32Array;

  constructor(
    readonly ranks: Int32Array,
    edges: [number, number][],
  ) {
    this.nodes = ranks.length;
    this.layers = Array.from({ length: ranks.reduce((most, rank) => Math.max(most, rank + 1), 0) }, () => []);
    this.up = Array.from({ length: this.nodes }, () => []);
    this.down = Array.from({ length: this.nodes }, () => []);
    // Edges of one source share their bends, as they carry the same value.
    const shared = new Map<string, number>();
    const joined = new Set<string>();
    this.bends = edges.map(([from, to]) => {
      if (ranks[to]! - ranks[from]! > LONGEST) return undefined;
      const bends: number[] = [];
      let last = from;
      for (let rank = ranks[from]! + 1; rank < ranks[to]!; rank++) {
        const at = `${from} ${rank}`;
        let bend = shared.get(at);
        if (bend === undefined) {
          bend = this.up.length;
          this.up.push([]);
          this.down.push([]);
          shared.set(at, bend);
        }
        this.join(last, bend, joined);
        bends.push(bend);
        last = bend;
      }
      this.join(last, to, joined);
      return bends;
    });
    this.position = new Int32Array(this.up.length);
    this.start();
  }

  isBend(item: number): boolean {
    return item >= this.nodes;
  }

  private join(from: number, to: number, joined: Set<string>): void {
    const at = `${from} ${to}`;
    if (joined.has(at)) return;
    joined.add(at);
    this.down[from]!.push(to);
    this.up[to]!.push(from);
  }

  /** The order of a walk in depth keeps branches together. */
  private start(): void {
    const seen = new Uint8Array(this.up.length);
    const rank = new Int32Array(this.up.length);
    rank.set(this.ranks);
    for (let source = 0; source < this.nodes; source++) {
      if (seen[source] || this.up[source]!.length) continue;
      const stack = [source];
      while (stack.length) {
        const item = stack.pop()!;
        if (seen[item]) continue;
        seen[item] = 1;
        this.layers[rank[item]!]!.push(item);
        const below = this.down[item]!;
        for (let index = below.length - 1; index >= 0; index--) {
          rank[below[index]!] = rank[item]! + 1;
          stack.push(below[index]!);
        }
      }
    }
    this.number();
  }

  private number(): void {
    for (const layer of this.layers) layer.forEach((item, index) => (this.position[item] = index));
  }

  /** Sweep down and up, each layer ordered by the mean place of its neighbours; the best order seen is kept. */
  order(): void {
    let best = this.layers.map((layer) => [...layer]);
    let least = this.crossings();
    for (let sweep = 0, idle = 0; least > 0 && sweep < 24 && idle < 6; sweep++) {
      this.sweep(sweep % 2 === 0);
      if (this.up.length < 4000) this.exchange();
      const crossings = this.crossings();
      if (crossings < least) {
        least = crossings;
        best = this.layers.map((layer) => [...layer]);
        idle = 0;
      } else idle++;
    }
    best.forEach((layer, index) => (this.layers[index] = layer));
    this.number();
  }

  private sweep(downwards: boolean): void {
    const count = this.layers.length;
    for (let step = 1; step < count; step++) {
      const layer = this.layers[downwards ? step : count - 1 - step]!;
      if (layer.length < 2) continue;
      const near = downwards ? this.up : this.down;
      const mean = new Map<number, number>();
      for (const item of layer) {
        const others = near[item]!;
        const sum = others.reduce((total, other) => total + this.position[other]!, 0);
        mean.set(item, others.length ? sum / others.length : this.position[item]!);
      }
      layer.sort((a, b) => mean.get(a)! - mean.get(b)! || this.position[a]! - this.position[b]!);
      layer.forEach((item, index) => (this.position[item] = index));
    }
  }

  /** Swap neighbours wherever that removes crossings. */
  private exchange(): void {
    for (const layer of this.layers) {
      if (layer.length > 60) continue;
      for (let index = 0; index + 1 < layer.length; index++) {
        const [a, b] = [layer[index]!, layer[index + 1]!];
        const now = this.between(this.up[a]!, this.up[b]!) + this.between(this.down[a]!, this.down[b]!);
        const then = this.between(this.up[b]!, this.up[a]!) + this.between(this.down[b]!, this.down[a]!);
        if (then >= now) continue;
        layer[index] = b;
        layer[index + 1] = a;
        this.position[b] = index;
        this.position[a] = index + 1;
      }
    }
  }

  private between(left: number[], right: number[]): number {
    let count = 0;
    for (const a of left) for (const b of right) if (this.position[a]! > this.position[b]!) count++;
    return count;
  }

  /** Count crossings between neighbouring layers with a tree of sums. */
  private crossings(): number {
    let total = 0;
    for (let index = 0; index + 1 < this.layers.length; index++) {
      const width = this.layers[index + 1]!.length;
      if (width < 2 || this.layers[index]!.length < 2) continue;
      const tree = new Int32Array(width + 1);
      let placed = 0;
      for (const item of this.layers[index]!) {
        const ends = this.down[item]!.map((other) => this.position[other]!).sort((a, b) => a - b);
        for (const end of ends) {
          let before = 0;
          for (let at = end + 1; at > 0; at -= at & -at) before += tree[at]!;
          total += placed - before;
        }
        for (const end of ends) {
          for (let at = end + 1; at <= width; at += at & -at) tree[at]!++;
          placed++;
        }
      }
    }
    return total;
  }
}
