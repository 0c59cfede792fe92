// A text that grows has the blocks of the whole text, wherever it is cut: tools/web --check runs it.

import { marked, type Token } from "marked";
import { GrowingBlocks } from "../src/blocks";

const pieces = [
  "text", "word ", "- a", "- b", "  more", "    code", "\t", "\\", "# head", "---", "===", "* * *", "```", "```js", "~~~", "> quote", "> - x", "1. one",
  "2) two", "| a | b |", "|---|---|", "| 1 | 2 |", "<div>", "</div>", "<!-- c", "-->", "<pre>", "<script>", "</script>", "[x]", "**b**", "*", "`", "_",
  "- [ ] task", "+", "-", "1.", "#", ">", "=", "|", ":-", "<b>t</b>", "a  \nb", "![i](u)", "~~s~~", "&amp;", "http://e.org ", " ", "\r\n", "\r", "\n\n\n",
  "\f", "\v", "\u00a0", "\u3000", "   ", "      ", "\n\n\f\n\n", "\n\n \n\n", "\n \n", "1", ".", "`", "2.",
];
const definition = "[x]: http://example.org/\n";

let seed = 1;
function random(below: number): number {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return (seed >>> 8) % below;
}

function shown(tokens: Token[]): string {
  return JSON.stringify(tokens.filter((token) => token.type !== "space"), (name, value: unknown) => (name === "raw" ? undefined : value));
}

function check(text: string, blocks: GrowingBlocks) {
  const { open, rest } = blocks.update(text);
  // With too many marks, the end is shown as it was written.
  if (open && shown([...blocks.settled, ...open]) !== shown(marked.lexer(text))) throw new Error(`${JSON.stringify(text)} is shown as another text`);
  if (!open && !text.replace(/\r\n?/g, "\n").endsWith(rest)) throw new Error(`${JSON.stringify(text)} has another end`);
}

// Lines of white space are no blocks: what follows them may continue a list.
for (const blank of [" ", "\f", "\v", "\u00a0", "\u3000"]) {
  for (const [begin, end] of [[`1. >\n\n${blank}\n\n1`, "."], [`- \`\n\n\f\n\n${blank}\n`, "  q"]]) {
    const blocks = new GrowingBlocks(Infinity);
    for (const text of [begin, begin + end]) check(text, blocks);
  }
}

let settled = 0;
for (let round = 0; round < 400; ++round) {
  const unlimited = new GrowingBlocks(Infinity);
  const limited = new GrowingBlocks(40);
  let text = "";
  for (let at = 0; at < 25; ++at) {
    const piece = (round % 5 === 0 && random(25) === 0 ? definition : pieces[random(pieces.length)]) + ["", "\n", "\n\n"][random(3)];
    for (const part of random(4) === 0 ? piece : [piece]) {
      text += part;
      for (const blocks of [unlimited, limited]) check(text, blocks);
    }
  }
  settled += limited.settled.length;
}
if (settled < 1000) throw new Error(`only ${settled} blocks did not change`);
