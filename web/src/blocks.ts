// The blocks of a text that grows, such as the answer of a running turn: those that no further text changes are read once.

import { marked, type Token } from "marked";

const mark = /[*_~`[\]<>|!]/g;

/** Returns the end of the part of `text` after `begin` with at most `mostMarks` marks: the lexer's time grows with their square. */
function endOf(text: string, begin: number, mostMarks: number): number {
  mark.lastIndex = begin;
  for (let marks = 0; mark.test(text); ++marks) if (marks === mostMarks) return mark.lastIndex - 1;
  return text.length;
}

function lex(text: string): (Token[] & { links?: object }) | undefined {
  try {
    return marked.lexer(text);
  } catch {
    return undefined;
  }
}

/** Returns nothing for a text that is shown as it was written. */
export function tokensOf(text: string): Token[] | undefined {
  return endOf(text, 0, 1500) < text.length ? undefined : lex(text);
}

/**
 * Returns the number of tokens that further text does not change, as web/tests observes: it can change the last two blocks, and what no
 * blank line separates from them. A line of other white space, such as a form feed, is a paragraph, but ends no list: it is no block.
 */
function settledCount(tokens: Token[]): number {
  let open = 0;
  for (let at = tokens.length - 1; at >= 0; --at) {
    const { type, raw } = tokens[at] as Token;
    if (open >= 2 && (type === "space" || raw.endsWith("\n\n"))) return at + 1;
    if (raw.trim() !== "") ++open;
  }
  return 0;
}

export class GrowingBlocks {
  /** Blocks that do not change; another array after a text that does not continue the one before. */
  settled: Token[] = [];
  /** The blocks after them; nothing if `rest`, their text, is shown as it was written. */
  open: Token[] | undefined = [];
  rest = "";
  /** The text of the settled blocks. */
  private done = "";
  /** A definition changes links before it, too. */
  private hasDefinitions = false;

  /** Limits the blocks that may still change. */
  constructor(private readonly mostMarks: number) {}

  /** Reads `text`, of which usually only the end is new. */
  update(text: string): this {
    // With the line ends of the lexer, so that its parts have the lengths of the text.
    const whole = text.replace(/\r\n?/g, "\n");
    if (!whole.startsWith(this.done)) {
      this.hasDefinitions = false;
      this.restart();
    }
    this.read(whole);
    if (this.hasDefinitions && this.done !== "") {
      this.restart();
      this.read(whole);
    }
    return this;
  }

  private restart() {
    this.settled = [];
    this.done = "";
  }

  /** Reads a text with many marks in parts, as if it had grown. */
  private read(whole: string) {
    for (;;) {
      const before = this.done.length;
      const end = endOf(whole, before, this.mostMarks);
      this.readTo(whole.slice(before, end));
      if (end === whole.length) return;
      if (this.done.length > before) continue;
      this.open = undefined;
      this.rest = whole.slice(before);
      return;
    }
  }

  private readTo(rest: string) {
    const tokens = lex(rest);
    this.open = tokens;
    this.rest = rest;
    if (!tokens) return;
    if (Object.keys(tokens.links ?? {}).length > 0) this.hasDefinitions = true;
    const settled = this.hasDefinitions ? [] : tokens.slice(0, settledCount(tokens));
    const text = settled.map((token) => token.raw).join("");
    if (!rest.startsWith(text)) return;
    this.settled.push(...settled);
    this.open = tokens.slice(settled.length);
    this.done += text;
    this.rest = rest.slice(text.length);
  }
}
