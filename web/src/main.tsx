import { render } from "preact";
import { loadReport } from "./data/load";
import { followAddress } from "./state/address";
import { Store } from "./state/store";
import { App } from "./ui/App";

async function start(): Promise<void> {
  const root = document.getElementById("app")!;
  try {
    const report = await loadReport();
    document.title = `${report.title || "report"} · onnx-passes`;
    const store = new Store(report);
    followAddress(store);
    render(<App store={store} />, root);
  } catch (error) {
    render(<p class="unreadable">{error instanceof Error ? error.message : String(error)}</p>, root);
    throw error;
  }
}

void start();
