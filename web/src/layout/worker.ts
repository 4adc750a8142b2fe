import { layered, type LayoutGraph } from "./layered";

self.onmessage = (message: MessageEvent<{ id: number; graph: LayoutGraph }>) => {
  const { id, graph } = message.data;
  try {
    self.postMessage({ id, layout: layered(graph) });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};
