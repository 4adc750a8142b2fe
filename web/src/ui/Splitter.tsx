/** A line between two parts that can be dragged, or moved with the arrow keys. */
export function Splitter({ name, from, to, side }: { name: string; from: number; to: number; side: "left" | "right" | "top" }) {
  const vertical = side !== "top";
  const resize = (line: HTMLElement, by: number): void => {
    const pane = (side === "right" ? line.previousElementSibling : line.nextElementSibling) as HTMLElement;
    const now = vertical ? pane.offsetWidth : pane.offsetHeight;
    const size = Math.min(to, Math.max(from, now + (side === "right" ? by : -by)));
    document.documentElement.style.setProperty(`--pane-${name}`, `${size}px`);
  };
  const drag = (event: PointerEvent): void => {
    const line = event.currentTarget as HTMLElement;
    let last = vertical ? event.clientX : event.clientY;
    const move = (next: PointerEvent): void => {
      const at = vertical ? next.clientX : next.clientY;
      resize(line, at - last);
      last = at;
    };
    line.setPointerCapture(event.pointerId);
    line.addEventListener("pointermove", move);
    line.addEventListener("pointerup", () => line.removeEventListener("pointermove", move), { once: true });
  };
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -24, ArrowRight: 24, ArrowUp: -24, ArrowDown: 24 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    resize(event.currentTarget as HTMLElement, by);
  };
  return (
    <div
      class={`splitter ${vertical ? "upright" : "level"}`}
      role="separator"
      aria-orientation={vertical ? "vertical" : "horizontal"}
      aria-label={`Resize the ${name} part`}
      tabIndex={0}
      onPointerDown={drag}
      onKeyDown={key}
    />
  );
}
