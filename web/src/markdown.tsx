// The text of a model as elements. Only the lexer of marked is used: no text becomes HTML anywhere.

import type { Token, Tokens } from "marked";
import { type ComponentChildren, Fragment, type JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { GrowingBlocks, tokensOf } from "./blocks";
import { Code, Visible } from "./parts";

const entities: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };

function plain(text: string): string {
  return text.replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => entities[entity] ?? entity);
}

/** Returns the address of a link that may be followed. */
function safeAddress(href: string): string | undefined {
  try {
    const url = new URL(plain(href));
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** Parts within parts beyond this are shown as they were written. */
const deepest = 32;

function inner(token: { tokens?: Token[]; text?: string }, depth: number): ComponentChildren {
  return token.tokens ? token.tokens.map((part) => one(part, depth + 1)) : <Visible text={plain(token.text ?? "")} />;
}

function link(token: Tokens.Link, depth: number): JSX.Element {
  const address = safeAddress(token.href);
  if (!address)
    return (
      <span>
        {inner(token, depth)} (<Visible text={token.href} />)
      </span>
    );
  return (
    <a href={address} title={address} target="_blank" rel="noopener noreferrer">
      {inner(token, depth)}
    </a>
  );
}

function table(token: Tokens.Table, depth: number): JSX.Element {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell) => (
              <th>{inner(cell, depth)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{inner(cell, depth)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function one(token: Token, depth: number): ComponentChildren {
  if (depth > deepest) return <Visible text={token.raw} />;
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "heading":
      return <p class="heading">{inner(token as Tokens.Heading, depth)}</p>;
    case "paragraph":
      return <p>{inner(token as Tokens.Paragraph, depth)}</p>;
    case "blockquote":
      return <blockquote>{inner(token as Tokens.Blockquote, depth)}</blockquote>;
    case "code":
      return <Code text={(token as Tokens.Code).text} label="Code" />;
    case "codespan":
      return (
        <code>
          <Visible text={plain((token as Tokens.Codespan).text)} />
        </code>
      );
    case "strong":
      return <strong>{inner(token as Tokens.Strong, depth)}</strong>;
    case "em":
      return <em>{inner(token as Tokens.Em, depth)}</em>;
    case "del":
      return <del>{inner(token as Tokens.Del, depth)}</del>;
    case "link":
      return link(token as Tokens.Link, depth);
    case "image":
      return (
        <span>
          [image: <Visible text={plain((token as Tokens.Image).text)} />]
        </span>
      );
    case "list": {
      const list = token as Tokens.List;
      const items = list.items.map((item) => (
        <li>
          {item.task ? (item.checked ? "[x] " : "[ ] ") : null}
          {inner(item, depth)}
        </li>
      ));
      return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return table(token as Tokens.Table, depth);
    case "checkbox":
      return null;
    case "text":
      return inner(token as Tokens.Text, depth);
    case "escape":
      return <Visible text={(token as Tokens.Escape).text} />;
    default:
      // HTML is shown as it was written.
      return <Visible text={token.raw} />;
  }
}

function plainText(text: string): JSX.Element {
  return (
    <p class="plain">
      <Visible text={text} />
    </p>
  );
}

export function Markdown({ text }: { text: string }) {
  // A page is rendered every two seconds, and its texts seldom change.
  return useMemo(() => {
    const tokens = tokensOf(text);
    return tokens ? <div class="markdown">{tokens.map((token) => one(token, 0))}</div> : plainText(text);
  }, [text]);
}

function block(token: Token, at: number): JSX.Element {
  return <Fragment key={at}>{one(token, 0)}</Fragment>;
}

/** A text that grows: only its last blocks are read and compared again. */
export function GrowingMarkdown({ text }: { text: string }) {
  const blocks = useRef(new GrowingBlocks(300));
  const made = useRef<{ of: Token[]; views: JSX.Element[] }>({ of: [], views: [] });
  return useMemo(() => {
    const { settled, open, rest } = blocks.current.update(text);
    if (made.current.of !== settled) made.current = { of: settled, views: [] };
    const { views } = made.current;
    for (let at = views.length; at < settled.length; ++at) views.push(block(settled[at] as Token, at));
    return (
      <div class="markdown">
        {[...views, ...(open ? open.map((token, at) => block(token, views.length + at)) : [plainText(rest)])]}
      </div>
    );
  }, [text]);
}
