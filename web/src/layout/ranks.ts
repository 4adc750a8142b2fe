/** Assign a layer to every node so that edges point downwards and are short. */

export interface Ranked {
  ranks: Int32Array;
  /** Edges that had to be turned round, because the graph is not acyclic (merged views and groups need not be). */
  reversed: boolean[];
}

export function ranked(count: number, edges: [number, number][]): Ranked {
  const reversed = backEdges(count, edges);
  const ins: number[][] = Array.from({ length: count }, () => []);
  const outs: number[][] = Array.from({ length: count }, () => []);
  edges.forEach(([a, b], index) => {
    const [from, to] = reversed[index] ? [b, a] : [a, b];
    outs[from]!.push(to);
    ins[to]!.push(from);
  });
  const order = topological(ins, outs);
  const ranks = new Int32Array(count);
  for (const node of order) for (const from of ins[node]!) ranks[node] = Math.max(ranks[node]!, ranks[from]! + 1);
  // What feeds one node alone follows it wherever it goes, and so holds nothing back.
  const follows = new Uint8Array(count);
  for (const node of order) follows[node] = Number(outs[node]!.length === 1 && ins[node]!.every((from) => follows[from]));
  const holding = ins.map((from) => from.filter((each) => !follows[each]).length);
  for (let round = 0; round < 4; round++) tighten(order, ins, outs, holding, ranks);
  let lowest = Infinity;
  for (const rank of ranks) lowest = Math.min(lowest, rank);
  return { ranks: ranks.map((rank) => rank - lowest), reversed };
}

/** Move each node to the end of its freedom that shortens more edges than it stretches. */
function tighten(order: number[], ins: number[][], outs: number[][], holding: number[], ranks: Int32Array): void {
  const settle = (node: number): void => {
    let low = -Infinity;
    let high = Infinity;
    for (const from of ins[node]!) low = Math.max(low, ranks[from]! + 1);
    for (const to of outs[node]!) high = Math.min(high, ranks[to]! - 1);
    const pull = outs[node]!.length - holding[node]!;
    if (pull > 0 && high < Infinity) ranks[node] = high;
    else if (pull < 0 && low > -Infinity) ranks[node] = low;
  };
  for (let index = order.length - 1; index >= 0; index--) settle(order[index]!);
  order.forEach(settle);
}

export function topological(ins: number[][], outs: number[][]): number[] {
  const waiting = ins.map((from) => from.length);
  const order: number[] = [];
  waiting.forEach((left, node) => {
    if (!left) order.push(node);
  });
  for (const node of order) for (const to of outs[node]!) if (!--waiting[to]!) order.push(to);
  return order;
}

/** Edges that close a cycle, found depth first with a stack of our own: graphs are deeper than the call stack. */
function backEdges(count: number, edges: [number, number][]): boolean[] {
  const outs: number[][] = Array.from({ length: count }, () => []);
  edges.forEach(([from], index) => outs[from]!.push(index));
  const state = new Uint8Array(count);
  const back = edges.map(() => false);
  for (let start = 0; start < count; start++) {
    if (state[start]) continue;
    const stack: [number, number][] = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack.at(-1)!;
      const edge = outs[top[0]]![top[1]++];
      if (edge === undefined) {
        state[top[0]] = 2;
        stack.pop();
        continue;
      }
      const to = edges[edge]![1];
      if (state[to] === 1) back[edge] = true;
      else if (!state[to]) {
        state[to] = 1;
        stack.push([to, 0]);
      }
    }
  }
  return back;
}
