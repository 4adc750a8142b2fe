import { useStore } from "./context";
import { NodeDetails } from "./NodeDetails";
import { StepDetails } from "./StepDetails";

/** The right side: the selected node, then the step or rewrite that is shown. */
export function Details() {
  const store = useStore();
  const node = store.selected.value;
  return (
    <aside class="details" aria-label="Details">
      {node !== undefined && <NodeDetails key={node} id={node} />}
      <StepDetails />
    </aside>
  );
}
