// The turn of a session as it runs: a stream of the gateway, without which the page reads the history from time to time.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Call, type Live, sessionPath } from "./api";
import { holdStream } from "./lists";

/** The gateway sends the end of a longer text, too. */
const mostCharacters = 64 * 1024;

interface Followed {
  session: string;
  /** Without it, the history has what is not stored yet. */
  isOpen: boolean;
  now?: Live;
  /** Names the message of `now`. */
  answer: string;
  /** Complete messages, until a history has been read that has them. */
  ended: { live: Live; change: number }[];
}

function hasContent(live: Live | undefined): live is Live {
  return live !== undefined && (live.text !== "" || live.thinking !== "");
}

function appended(text: string, more: string): { text: string; isCut: boolean } {
  const whole = text + more;
  return whole.length > 2 * mostCharacters ? { text: whole.slice(-mostCharacters), isCut: true } : { text: whole, isCut: false };
}

/**
 * Follows a session while the page is visible. Calls `onChanged` when its history has changed. `changes()` is the number of changes so
 * far: a history that was read after it has the messages before it.
 */
export function useLive(session: string, onChanged: () => void) {
  const empty: Followed = { session, isOpen: false, answer: "", ended: [] };
  const [state, setState] = useState<Followed>(empty);
  const changes = useRef(0);
  const notify = useRef(onChanged);
  notify.current = onChanged;
  useEffect(() => {
    let last = "";
    setState(empty);
    // What arrives between two frames is one change of the page.
    let waiting: ((old: Followed) => Followed)[] = [];
    let frame = 0;
    let pause = 0;
    /** After a change that took longer than a frame, as in a long list, the page is free for as long. */
    let free = 0;
    const cancel = () => {
      cancelAnimationFrame(frame);
      clearTimeout(pause);
      frame = pause = 0;
    };
    const flush = () => {
      cancel();
      const begin = performance.now();
      // After the page has been laid out.
      setTimeout(() => {
        const end = performance.now();
        free = end - begin > 16 ? 2 * end - begin : 0;
      });
      const all = waiting;
      waiting = [];
      if (all.length > 0) setState((old) => (old.session === session ? all.reduce((state, change) => change(state), old) : old));
    };
    const update = (change: (old: Followed) => Followed) => {
      waiting.push(change);
      if (frame || pause) return;
      const wait = free - performance.now();
      if (wait > 0) {
        pause = setTimeout(() => {
          pause = 0;
          frame = requestAnimationFrame(flush);
        }, wait);
      } else frame = requestAnimationFrame(flush);
    };
    const begin = (opened: EventSource) => {
      const on = <T>(name: string, take: (data: T, answer: string) => void) =>
        opened.addEventListener(name, (event) => {
          const { data, lastEventId } = event as MessageEvent<string>;
          if (lastEventId) last = lastEventId;
          take(JSON.parse(data) as T, lastEventId.split(".")[0] ?? "");
        });
      on<Live>("live", (live, answer) => {
        const change = changes.current + 1;
        update((old) => {
          const isEnded = hasContent(old.now) && (old.answer !== answer || !hasContent(live));
          const ended = isEnded && old.now ? [...old.ended, { live: { ...old.now, calls: [] }, change }].slice(-4) : old.ended;
          return { ...old, now: live, answer, ended };
        });
      });
      on<{ text?: string; thinking?: string }>("delta", (delta, answer) =>
        update((old) => {
          const before = old.now ?? { text: "", thinking: "", truncated: false, calls: [] };
          const text = appended(before.text, delta.text ?? "");
          const thinking = appended(before.thinking, delta.thinking ?? "");
          const truncated = before.truncated || text.isCut || thinking.isCut;
          return { ...old, answer, now: { ...before, text: text.text, thinking: thinking.text, truncated } };
        }),
      );
      on<{ calls: Call[] }>("calls", ({ calls }) =>
        update((old) => ({ ...old, now: { ...(old.now ?? { text: "", thinking: "", truncated: false }), calls } })),
      );
      on("changed", () => {
        // A history that is read now replaces what has arrived.
        flush();
        ++changes.current;
        notify.current();
      });
    };
    const end = holdStream(
      () => `v1/admin/${sessionPath(session)}/events${last ? `?after=${encodeURIComponent(last)}` : ""}`,
      begin,
      (isOpen, isNews) => {
        update((old) => ({ ...old, isOpen }));
        // A hidden page has no frames.
        if (!isOpen) flush();
        if (isNews) notify.current();
      },
    );
    return () => {
      cancel();
      end();
    };
  }, [session]);
  return { state: state.session === session ? state : empty, changes: () => changes.current };
}
