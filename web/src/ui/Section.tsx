import type { ComponentChildren } from "preact";

/** A titled part of the details that can be closed. */
export function Section({ title, count, open = true, children }: { title: string; count?: number; open?: boolean; children: ComponentChildren }) {
  return (
    <details class="section" open={open}>
      <summary>
        {title}
        {count !== undefined && <span class="quiet"> {count}</span>}
      </summary>
      {children}
    </details>
  );
}
