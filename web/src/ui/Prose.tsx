/** A docstring: paragraphs, with code set as code. */
export function Prose({ text }: { text: string }) {
  return (
    <div class="prose">
      {text
        .trim()
        .split(/\n\s*\n/)
        .map((paragraph, index) => (
          <p key={index}>
            {paragraph.split(/``([^`]+)``/).map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part.replaceAll(/\s*\n\s*(?!-)/g, " ")))}
          </p>
        ))}
    </div>
  );
}
