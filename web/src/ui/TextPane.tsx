import { useMemo } from "preact/hooks";
import { type Line, textDiff } from "../data/text";
import { plural } from "../data/words";
import { useStore } from "./context";
import { Icon } from "./Icon";
import { Splitter } from "./Splitter";

/** The difference as text, for those who read and those who copy. */
export function TextPane() {
  const store = useStore();
  const diff = store.diff.value;
  const { lines, left } = useMemo(() => textDiff(diff), [diff]);
  const open = store.textOpen.value;
  return (
    <>
      {open && <Splitter name="text" from={60} to={700} side="top" />}
      <section class={`text${open ? "" : " closed"}`} aria-label="Text of the difference">
        <button type="button" class="text-head" aria-expanded={open} title="Text (t)" onClick={() => (store.textOpen.value = !open)}>
          <Icon name={open ? "down" : "right"} /> Text
          <span class="quiet">{lines.length ? plural(diff.changed.length, "changed node") : "nothing changed"}</span>
        </button>
        {open && (
          <div class="lines" tabIndex={0}>
            {lines.map((line, index) => (
              <TextLine key={index} line={line} selected={line.id !== undefined && line.id === store.node.value} />
            ))}
            {left > 0 && <div class="line-row quiet">⋯ {left} more</div>}
          </div>
        )}
      </section>
    </>
  );
}

const KIND: Record<Line["mark"], string> = { " ": "same", "+": "added", "−": "removed", "⋯": "gap" };

function TextLine({ line, selected }: { line: Line; selected: boolean }) {
  const store = useStore();
  const [, outputs, operator, rest] = /^(.*? = )([\w.]+)(.*)$/.exec(line.text) ?? [];
  return (
    <div class={`line-row text-${KIND[line.mark]}${selected ? " selected" : ""}`} onClick={() => line.id !== undefined && store.selectNode(line.id)}>
      <span class="line-mark">{line.mark}</span>
      <span>
        {operator ? (
          <>
            {outputs}
            <b>{operator}</b>
            {rest}
          </>
        ) : (
          line.text
        )}
      </span>
    </div>
  );
}
