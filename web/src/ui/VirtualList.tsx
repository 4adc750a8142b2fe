import type { ComponentChild } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A list of any length of which only the visible rows exist. */
export function VirtualList<Row>({
  rows,
  height,
  current,
  render,
  ...rest
}: {
  rows: Row[];
  height: number;
  /** The row that is kept in view. */
  current?: number;
  render: (row: Row, index: number) => ComponentChild;
} & Record<string, unknown>) {
  const box = useRef<HTMLDivElement>(null);
  const [span, setSpan] = useState({ top: 0, room: 800 });
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = (): void => setSpan({ top: element.scrollTop, room: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  useLayoutEffect(() => {
    const element = box.current!;
    if (current === undefined || current < 0) return;
    const top = current * height;
    if (top < element.scrollTop + height) element.scrollTop = Math.max(0, top - height * 2);
    else if (top + height * 2 > element.scrollTop + element.clientHeight) element.scrollTop = top - element.clientHeight + height * 4;
  }, [current, rows.length]);
  const first = Math.max(0, Math.floor(span.top / height) - 6);
  const last = Math.min(rows.length, Math.ceil((span.top + span.room) / height) + 6);
  return (
    <div ref={box} class="virtual" {...rest}>
      <div role="presentation" style={{ height: `${rows.length * height}px`, position: "relative" }}>
        {rows.slice(first, last).map((row, index) => (
          <div role="presentation" key={first + index} style={{ position: "absolute", top: `${(first + index) * height}px`, left: 0, right: 0, height: `${height}px` }}>
            {render(row, first + index)}
          </div>
        ))}
      </div>
    </div>
  );
}
