import type { ReportEvent } from "../data/contract";
import { type Row, stepRows } from "../data/rows";
import { plural, secondsText, shortName, signed } from "../data/words";
import { StepSign } from "./Badge";
import { useStore } from "./context";
import { Icon } from "./Icon";
import { VirtualList } from "./VirtualList";

const ROW_HEIGHT = 28;

export function StepList() {
  const store = useStore();
  const rows = stepRows(store.steps, store.unfolded.value, store.step.value);
  const isCurrent = (row: Row): boolean =>
    row.kind === "event"
      ? row.event === store.event.value
      : row.kind === "step" && row.step.record.number === store.step.value && store.event.value === undefined;
  const current = rows.findIndex(isCurrent);
  const choose = (row: Row): void => {
    if (row.kind === "event") store.selectEvent(row.event);
    else if (row.kind === "fold") store.toggle(row.id);
    else store.selectStep(row.step.record.number);
  };
  const key = (event: KeyboardEvent): void => {
    const row = rows[current];
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      const next = rows.slice(0).findIndex((each, index) => (move > 0 ? index > current : index === current - 1) && each.kind !== "fold");
      if (next >= 0) choose(rows[next]!);
    } else if (row && row.kind === "step" && ((event.key === "ArrowRight" && !row.open) || (event.key === "ArrowLeft" && row.open))) {
      if (!row.leaf) store.toggle(row.id);
    } else if (row?.kind === "event" && event.key === "ArrowLeft") {
      store.selectStep(store.step.value!);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <nav class="steps" aria-label="Steps of the run">
      <VirtualList
        rows={rows}
        height={ROW_HEIGHT}
        current={current}
        role="tree"
        aria-label="Steps"
        tabIndex={0}
        aria-activedescendant={current >= 0 ? `row-${current}` : undefined}
        onKeyDown={key}
        render={(row, index) => (
          <div
            id={`row-${index}`}
            role="treeitem"
            aria-level={row.level + 1}
            aria-selected={index === current}
            aria-expanded={row.kind === "event" || (row.kind === "step" && row.leaf) ? undefined : row.open}
            class={`row row-${row.kind}${row.kind === "step" && !row.step.changed ? " still" : ""}`}
            style={{ paddingLeft: `${6 + row.level * 14}px` }}
            onClick={() => choose(row)}
          >
            <RowContent row={row} />
          </div>
        )}
      />
    </nav>
  );
}

function RowContent({ row }: { row: Row }) {
  const store = useStore();
  const caret = (open: boolean) => (
    <span
      class="caret"
      onClick={(event) => {
        event.stopPropagation();
        store.toggle(row.id);
      }}
    >
      <Icon name={open ? "down" : "right"} />
    </span>
  );
  if (row.kind === "fold") {
    const skipped = row.steps.filter((step) => step.record.status === "skipped").length;
    return (
      <>
        {caret(row.open)}
        <span class="quiet">
          {row.steps.length - skipped ? `${row.steps.length - skipped} unchanged` : ""}
          {skipped && row.steps.length > skipped ? ", " : ""}
          {skipped ? `${skipped} skipped` : ""}
        </span>
      </>
    );
  }
  if (row.kind === "event") return <EventRow event={store.steps.event(row.event)!} />;
  const { record } = row.step;
  const delta = record.nodes_after - record.nodes_before;
  return (
    <>
      {row.leaf ? <span class="caret" /> : caret(row.open)}
      <span class="row-name" title={`${record.text}\n${record.why}${record.reason ? `\n${record.reason}` : ""}`}>
        {record.pass}
      </span>
      {row.step.events.length > 1 && <span class="count" title={plural(record.applications, "rewrite")}>{row.step.events.length}</span>}
      {delta !== 0 && <span class={`delta ${delta < 0 ? "fewer" : "more"}`}>{signed(delta)}</span>}
      {record.status !== "skipped" && row.step.changed && <span class="time">{secondsText(record.cpu_seconds)}</span>}
      {record.status === "skipped" ? <span class="time">skipped</span> : row.step.changed && <StepSign step={record} />}
    </>
  );
}

function EventRow({ event }: { event: ReportEvent }) {
  const store = useStore();
  const at = event.node ?? event.removed[0] ?? event.added[0];
  const name = at === undefined ? "" : shortName(store.history.nameOf(at), 22);
  return (
    <>
      <span class="event-rule">{event.rule ?? "other changes"}</span>
      <span class="event-node" title={at === undefined ? "" : store.history.nameOf(at)}>
        {name}
      </span>
      {event.removed.length + event.added.length ? (
        <span class="event-size">
          {event.removed.length}→{event.added.length}
        </span>
      ) : null}
    </>
  );
}
