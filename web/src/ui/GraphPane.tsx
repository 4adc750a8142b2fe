import type { RefObject } from "preact";
import { useRef } from "preact/hooks";
import { GraphToolbar } from "./GraphToolbar";
import { GraphView } from "./GraphView";
import { useStore } from "./context";

/** The graph of the chosen step or rewrite: once, or both sides next to each other with the same selection. */
export function GraphPane({ fit }: { fit: RefObject<() => void> }) {
  const store = useStore();
  const shown = store.shown.value;
  const fits = useRef(new Map<string, () => void>());
  fit.current = () => fits.current.forEach((each) => each());
  return (
    <div class="graph" id="graph">
      <GraphToolbar fit={() => fit.current()} />
      <div class="canvases">
        {shown === "both" ? (
          <>
            <GraphView key="before" mode="before" titled fits={fits.current} />
            <GraphView key="after" mode="after" titled fits={fits.current} />
          </>
        ) : (
          <GraphView key="one" mode={shown} fits={fits.current} />
        )}
      </div>
    </div>
  );
}
