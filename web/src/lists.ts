// Which lists of the gateway have changed: the stream that a page holds says so, and the page reads again what it shows.

import { useEffect } from "preact/hooks";

export type ListName = "questions" | "sessions";
const names: ListName[] = ["questions", "sessions"];

const listeners = new Set<(changed: Set<ListName>) => void>();
const changed = new Set<ListName>();
let timer = 0;
let current: EventSource | undefined;

/** Changes that come together are one. */
function announce(list: ListName) {
  changed.add(list);
  window.clearTimeout(timer);
  timer = window.setTimeout(() => {
    const all = new Set(changed);
    changed.clear();
    for (const listener of listeners) listener(all);
  }, 50);
}

/** Returns the function that ends it. */
export function onLists(lists: ListName[], listener: () => void): () => void {
  const own = (all: Set<ListName>) => {
    if (lists.some((one) => all.has(one))) listener();
  };
  listeners.add(own);
  return () => listeners.delete(own);
}

/** Returns the time until a list is read again in any case: `without` a stream, changes are not announced. */
export function listPause(without: number): number {
  return current?.readyState === EventSource.OPEN ? 15000 : without;
}

/**
 * Holds a stream open while the page is visible, and returns the function that ends it. `begin` is called for each connection, `onState`
 * when it is open or not; `isNews`: something may have happened meanwhile.
 */
export function holdStream(
  path: () => string,
  begin: (source: EventSource) => void,
  onState: (isOpen: boolean, isNews: boolean) => void,
): () => void {
  let source: EventSource | undefined;
  let again = 0;
  const close = () => {
    window.clearTimeout(again);
    source?.close();
    source = undefined;
  };
  const tell = (isOpen: boolean) => {
    onState(isOpen, true);
    for (const name of names) announce(name);
  };
  const open = () => {
    close();
    onState(false, false);
    if (document.hidden) return;
    const opened = new EventSource(path());
    source = opened;
    current = opened;
    opened.onopen = () => tell(true);
    opened.onerror = () => {
      // What the page reads now says why, or that the gateway starts again.
      tell(false);
      // A refusal ends the attempts of the browser.
      if (opened.readyState !== EventSource.CLOSED) return;
      window.clearTimeout(again);
      again = window.setTimeout(open, 5000);
    };
    for (const name of names) opened.addEventListener(name, () => announce(name));
    begin(opened);
  };
  document.addEventListener("visibilitychange", open);
  open();
  return () => {
    document.removeEventListener("visibilitychange", open);
    close();
  };
}

/** Holds the stream of the lists. A page with the stream of a session needs no other: browsers limit connections to a host. */
export function useListStream(isHeld: boolean) {
  useEffect(() => {
    if (!isHeld) return;
    return holdStream(
      () => "v1/admin/events",
      () => {},
      () => {},
    );
  }, [isHeld]);
}
