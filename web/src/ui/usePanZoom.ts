import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";
import type { Viewport } from "../graph/viewport";

/** Drag to move, wheel or pinch to zoom, arrow keys to walk. */
export function usePanZoom(box: RefObject<HTMLElement | null>, viewport: Viewport): void {
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = (): void => {
      const { clientWidth: width, clientHeight: height } = element;
      const old = viewport.size.value;
      if (old.width === width && old.height === height) return;
      viewport.size.value = { width, height };
      // What was in the middle stays there.
      if (old.width) viewport.move((width - old.width) / 2, (height - old.height) / 2);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      const frame = element.getBoundingClientRect();
      const unit = event.deltaMode === 1 ? 18 : 1;
      if (event.shiftKey) viewport.move(-event.deltaX * unit - event.deltaY * unit, 0);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) viewport.move(-event.deltaX * unit, 0);
      else viewport.zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0016)), event.clientX - frame.left, event.clientY - frame.top);
    };
    let dragged = 0;
    const down = (event: PointerEvent): void => {
      if (event.button !== 0) return;
      dragged = 0;
      let [x, y] = [event.clientX, event.clientY];
      const move = (next: PointerEvent): void => {
        dragged += Math.abs(next.clientX - x) + Math.abs(next.clientY - y);
        if (dragged > 4) element.classList.add("dragging");
        viewport.move(next.clientX - x, next.clientY - y);
        [x, y] = [next.clientX, next.clientY];
      };
      const up = (): void => {
        element.classList.remove("dragging");
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", up);
        removeEventListener("pointercancel", up);
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", up);
      addEventListener("pointercancel", up);
    };
    // The end of a drag is no click.
    const click = (event: MouseEvent): void => {
      if (dragged > 4) event.stopImmediatePropagation();
    };
    const key = (event: KeyboardEvent): void => {
      const by = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] }[event.key];
      if (!by) return;
      event.preventDefault();
      viewport.move(by[0]!, by[1]!);
    };
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", down);
    element.addEventListener("click", click, { capture: true });
    element.addEventListener("keydown", key);
    return () => {
      observer.disconnect();
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("click", click, { capture: true });
      element.removeEventListener("keydown", key);
    };
  }, []);
}
