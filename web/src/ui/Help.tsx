import { KEYS } from "../state/keys";
import { useStore } from "./context";
import { Dialog } from "./Dialog";

export function Help() {
  const store = useStore();
  return (
    <Dialog label="Help" close={() => (store.helping.value = false)}>
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <p>Drag to move the graph, wheel or pinch to zoom, click a node for its details, double-click to open a group or a subgraph.</p>
      <p class="quiet">
        onnx-passes {store.report.version}.{" "}
        <details>
          <summary>Licences of what this page contains</summary>
          <pre>{document.getElementById("licences")?.textContent?.trim()}</pre>
        </details>
      </p>
    </Dialog>
  );
}
