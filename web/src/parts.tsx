// Parts that several pages use.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Missing, textOf } from "./api";
import { type ListName, onLists } from "./lists";

/** Control characters, and characters that reorder or hide text: what is approved must look like what runs. */
const odd = /[\u034f\u2800\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

export function Visible({ text }: { text: string }) {
  const shown: ComponentChildren[] = [];
  let end = 0;
  for (const found of text.matchAll(odd)) {
    shown.push(text.slice(end, found.index));
    const code = found[0].codePointAt(0) ?? 0;
    shown.push(<span class="odd">{`U+${code.toString(16).toUpperCase().padStart(4, "0")}`}</span>);
    end = found.index + found[0].length;
  }
  shown.push(text.slice(end));
  return <>{shown}</>;
}

/** Returns true for a key of an input method. Safari reports the Enter that ends a composition after it, by this code only. */
export function isComposing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

/** Returns true for a text that Visible changes. */
export function hasOdd(text: string): boolean {
  return text.search(odd) >= 0;
}

interface GuardProps {
  /** What cannot be shown. */
  value: unknown;
  children: ComponentChildren;
}

/** Shows a value as text if a part of the page cannot show it: texts are those of a model, and must not disable the rest. */
export class Guard extends Component<GuardProps, { failed: boolean }> {
  state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  render() {
    if (!this.state.failed) return this.props.children;
    return (
      <article class="card">
        <p class="problem">This cannot be shown as usual. A question can be answered with: cubepi inbox --gateway</p>
        <pre tabIndex={0} aria-label="As JSON">
          <code>{JSON.stringify(this.props.value, null, 2).slice(0, 20000)}</code>
        </pre>
      </article>
    );
  }
}

export function Code({ text, label }: { text: string; label: string }) {
  return (
    <pre tabIndex={0} aria-label={label}>
      <code>
        <Visible text={text} />
      </code>
    </pre>
  );
}

/** Longer texts are shown whole on demand, so that one of them cannot make the page slow for all others. */
const mostLines = 200;
const mostCharacters = 20000;

export function isLong(text: string): boolean {
  return text.length > mostCharacters || text.split("\n", mostLines + 1).length > mostLines;
}

export function beginningOf(text: string): string {
  if (!isLong(text)) return text;
  const lines = text.slice(0, mostCharacters).split("\n");
  return lines.slice(0, mostLines).join("\n");
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/** "1 turn", "2,000 turns" */
export function countOf(count: number, what: string): string {
  return `${count.toLocaleString()} ${what}${count === 1 ? "" : "s"}`;
}

export function Problem({ text }: { text: string }) {
  return text ? (
    <p class="problem" role="alert">
      {text}
    </p>
  ) : null;
}

/** A list must not be taken for complete. */
export function MissingParts({ of }: { of: Missing | undefined }) {
  const databases = of?.unread_databases ?? [];
  const gateways = of?.unanswered ?? [];
  return (
    <>
      <Problem
        text={
          databases.length > 0
            ? `Without the database${databases.length === 1 ? "" : "s"} ${databases.join(", ")}, which cannot be read at the moment.`
            : ""
        }
      />
      <Problem text={gateways.length > 0 ? `Without those of gateways that did not answer: ${gateways.join(", ")}.` : ""} />
    </>
  );
}

const ticks = new Set<() => void>();
window.setInterval(() => {
  if (!document.hidden) for (const tick of ticks) tick();
}, 30000);

export function Age({ seconds }: { seconds: number }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const next = () => tick((count) => count + 1);
    ticks.add(next);
    return () => void ticks.delete(next);
  }, []);
  const date = new Date(seconds * 1000);
  const passed = Math.max(0, Math.round(Date.now() / 1000 - seconds));
  const text =
    passed < 60
      ? "just now"
      : passed < 3600
        ? `${Math.floor(passed / 60)} min ago`
        : passed < 86400
          ? `${Math.floor(passed / 3600)} h ago`
          : date.toLocaleString();
  return (
    <time dateTime={date.toISOString()} title={date.toLocaleString()}>
      {text}
    </time>
  );
}

export interface Loaded<T> {
  value: T | undefined;
  problem: string;
  reload: () => void;
}

/** Reads a value, and reads it again while the page is visible, or when one of `lists` changes. After a failure the last value stays. */
export function useLoaded<T>(
  read: () => Promise<T>,
  key: string,
  onLogout: () => void,
  pause: (value: T) => number = () => 2000,
  lists: ListName[] = [],
): Loaded<T> {
  const [state, setState] = useState<{ key: string; value?: T; problem: string }>({ key, problem: "" });
  const wake = useRef<() => void>(() => {});
  const reader = useRef(read);
  reader.current = read;
  const pauseAfter = useRef(pause);
  pauseAfter.current = pause;
  useEffect(() => {
    let timer = 0;
    let ended = false;
    let reading = false;
    let again = false;
    let milliseconds = 2000;
    const next = async () => {
      window.clearTimeout(timer);
      if (reading) {
        again = true;
        return;
      }
      reading = true;
      try {
        const value = await reader.current();
        milliseconds = pauseAfter.current(value);
        if (!ended) setState({ key, value, problem: "" });
      } catch (error) {
        milliseconds = 2000;
        if (ended) return;
        if (error instanceof ApiError && error.status === 401) return onLogout();
        setState((old) => ({ ...old, key, problem: textOf(error) }));
      } finally {
        reading = false;
      }
      if (ended) return;
      if (again) {
        again = false;
        void next();
      } else if (!document.hidden) {
        timer = window.setTimeout(() => void next(), milliseconds);
      }
    };
    const onVisible = () => {
      if (!document.hidden) void next();
    };
    wake.current = () => void next();
    document.addEventListener("visibilitychange", onVisible);
    const forget = onLists(lists, onVisible);
    void next();
    return () => {
      ended = true;
      forget();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [key]);
  return { value: state.key === key ? state.value : undefined, problem: state.problem, reload: () => wake.current() };
}

/** A button whose action is asked about once more in place. */
export function ConfirmButton(props: { text: string; title?: string; question: string; disabled: boolean; onConfirm: () => void }) {
  const [asking, setAsking] = useState(false);
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (asking) first.current?.focus();
  }, [asking]);
  if (!asking)
    return (
      <button type="button" title={props.title} disabled={props.disabled} onClick={() => setAsking(true)}>
        {props.text}
      </button>
    );
  return (
    <span class="row" role="group" aria-label={props.question}>
      <span>{props.question}</span>
      <button
        type="button"
        class="danger"
        onClick={() => {
          setAsking(false);
          props.onConfirm();
        }}
      >
        {props.text}
      </button>
      <button type="button" ref={first} onClick={() => setAsking(false)}>
        Back
      </button>
    </span>
  );
}
