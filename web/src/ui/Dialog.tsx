import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** A dialog over the page; the browser keeps the focus inside and gives it back. */
export function Dialog({ label, close, children }: { label: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current!;
    element.showModal();
    // Not the first link in it, which the browser would take.
    element.focus();
    return () => element.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      tabIndex={-1}
      aria-label={label}
      onClose={close}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="dialog">{children}</div>
    </dialog>
  );
}
