// The text of a model as elements. Only the lexer of marked is used: no text becomes HTML anywhere.

import { marked, type Token, type Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
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

function inner(token: { tokens?: Token[]; text?: string }): ComponentChildren {
  return token.tokens ? token.tokens.map(one) : <Visible text={plain(token.text ?? "")} />;
}

function link(token: Tokens.Link): JSX.Element {
  const address = safeAddress(token.href);
  if (!address)
    return (
      <span>
        {inner(token)} (<Visible text={token.href} />)
      </span>
    );
  return (
    <a href={address} title={address} target="_blank" rel="noopener noreferrer">
      {inner(token)}
    </a>
  );
}

function table(token: Tokens.Table): JSX.Element {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell) => (
              <th>{inner(cell)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{inner(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function one(token: Token): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "heading":
      return <p class="heading">{inner(token as Tokens.Heading)}</p>;
    case "paragraph":
      return <p>{inner(token as Tokens.Paragraph)}</p>;
    case "blockquote":
      return <blockquote>{inner(token as Tokens.Blockquote)}</blockquote>;
    case "code":
      return <Code text={(token as Tokens.Code).text} label="Code" />;
    case "codespan":
      return (
        <code>
          <Visible text={plain((token as Tokens.Codespan).text)} />
        </code>
      );
    case "strong":
      return <strong>{inner(token as Tokens.Strong)}</strong>;
    case "em":
      return <em>{inner(token as Tokens.Em)}</em>;
    case "del":
      return <del>{inner(token as Tokens.Del)}</del>;
    case "link":
      return link(token as Tokens.Link);
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
          {inner(item)}
        </li>
      ));
      return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return table(token as Tokens.Table);
    case "checkbox":
      return null;
    case "text":
      return inner(token as Tokens.Text);
    case "escape":
      return <Visible text={(token as Tokens.Escape).text} />;
    default:
      // HTML is shown as it was written.
      return <Visible text={token.raw} />;
  }
}

export function Markdown({ text }: { text: string }) {
  let tokens: Token[];
  try {
    tokens = marked.lexer(text);
  } catch {
    return (
      <p class="plain">
        <Visible text={text} />
      </p>
    );
  }
  return <div class="markdown">{tokens.map(one)}</div>;
}
