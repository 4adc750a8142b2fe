/** A docstring: paragraphs, of which those with a label begin a line of their own, and code set as code. */
const LABEL = /^(Rewrites|Refuses|Exactness):\s*/;

export function Prose({ text }: { text: string }) {
  const paragraphs = text.trim().split(/\n\s*\n|\n(?=(?:Rewrites|Refuses|Exactness):)/);
  return (
    <div class="prose">
      {paragraphs.map((paragraph, index) => {
        const label = LABEL.exec(paragraph);
        return (
          <p key={index}>
            {label && <b>{label[1]} </b>}
            {withCode(paragraph.slice(label?.[0].length ?? 0))}
          </p>
        );
      })}
    </div>
  );
}

function withCode(text: string) {
  return text.split(/``([^`]+)``/).map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part.replaceAll(/\s*\n\s*(?!-)/g, " ")));
}
