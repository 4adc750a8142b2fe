import workerSource from "worker-source";
import { layered, type Layout, type LayoutGraph } from "./layered";

/** Below this, a layout is done before a message would have arrived. */
const SMALL = 400;

let worker: Worker | undefined;
let count = 0;
const waiting = new Map<number, { resolve: (layout: Layout) => void; reject: (error: Error) => void }>();

/** Lay a graph out: at once if it is small, else in a worker made from a blob, which pages on disk may start. */
export function layout(graph: LayoutGraph): Layout | Promise<Layout> {
  if (graph.widths.length + graph.edges.length < SMALL) return layered(graph);
  worker ??= start();
  const id = ++count;
  worker.postMessage({ id, graph });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function start(): Worker {
  const fresh = new Worker(URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" })));
  fresh.onmessage = (message: MessageEvent<{ id: number; layout?: Layout; error?: string }>) => {
    const { id, layout: done, error } = message.data;
    const promise = waiting.get(id);
    waiting.delete(id);
    if (done) promise?.resolve(done);
    else promise?.reject(new Error(error ?? "the layout failed"));
  };
  return fresh;
}
