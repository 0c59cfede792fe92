// Completion of `@file` and of slash commands in a message, by keyboard as in the terminal.

import { type Ref, type TargetedKeyboardEvent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import { Visible, isComposing } from "./parts";

interface Command {
  name: string;
  help: string;
  takes_argument: boolean;
}

export interface Entry {
  /** What replaces the word. */
  text: string;
  label: string;
  help: string;
}

/** The word before the cursor that can be completed. */
interface Word {
  start: number;
  end: number;
  kind: "file" | "command";
  typed: string;
}

/** The commands that the page itself performs. */
export const ownCommands = ["/new", "/stop"];
const ownHelp: Entry[] = [
  { text: "/new", label: "/new", help: "begin a new session" },
  { text: "/stop", label: "/stop", help: "end the running turn" },
];

function wordAt(text: string, cursor: number): Word | undefined {
  const before = text.slice(0, cursor);
  const command = /^\/[a-z-]*$/.exec(before);
  if (command) return { start: 0, end: cursor, kind: "command", typed: before.slice(1) };
  const file = /(?:^|[\s("'])@([^\s"]*)$/.exec(before);
  if (!file) return undefined;
  const typed = file[1] ?? "";
  return { start: cursor - typed.length - 1, end: cursor, kind: "file", typed };
}

async function entriesOf(word: Word, session: string | undefined): Promise<Entry[]> {
  if (word.kind === "command") {
    const all = await get<{ commands: Command[] }>("commands");
    const known = all.commands.map((one) => ({
      text: one.name + (one.takes_argument ? " " : ""),
      label: one.name,
      help: one.help,
    }));
    return [...ownHelp, ...known].filter((one) => one.label.startsWith(`/${word.typed}`)).slice(0, 20);
  }
  const query = `id=${encodeURIComponent(session ?? "")}&search=${encodeURIComponent(word.typed.slice(0, 200))}`;
  const found = await get<{ files: string[] }>(`files?${query}`);
  const nameable = found.files.filter((name) => !/["\n\r]/.test(name));
  return nameable.map((name) => ({ text: /[\s']/.test(name) ? `@"${name}" ` : `@${name} `, label: name, help: "" }));
}

export interface Completion {
  entries: Entry[];
  chosen: number;
  /** Reads what can be completed at the cursor. */
  update: (text: string, cursor: number) => void;
  close: () => void;
  /** Returns true if the key was for the list. */
  takes: (event: TargetedKeyboardEvent<HTMLTextAreaElement>) => boolean;
  pick: (at: number) => void;
}

/** `replace` puts a text in the place of a part of the message. */
export function useCompletion(
  session: string | undefined,
  replace: (start: number, end: number, text: string) => void,
): Completion {
  const [word, setWord] = useState<Word>();
  const [entries, setEntries] = useState<Entry[]>([]);
  const [chosen, setChosen] = useState(0);
  const close = () => setWord(undefined);
  useEffect(() => {
    if (!word) {
      setEntries([]);
      return;
    }
    let isCurrent = true;
    const timer = setTimeout(async () => {
      // Without a list a name is typed.
      const found = await entriesOf(word, session).catch(() => []);
      if (!isCurrent) return;
      setEntries(found);
      setChosen(0);
    }, 120);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [word?.kind, word?.typed, word?.start, session]);
  const pick = (at: number) => {
    const entry = entries[at];
    if (word && entry) replace(word.start, word.end, entry.text);
    close();
  };
  const takes = (event: TargetedKeyboardEvent<HTMLTextAreaElement>): boolean => {
    if (!word || entries.length === 0 || event.ctrlKey || event.metaKey || event.altKey || isComposing(event)) return false;
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") setChosen((chosen + (key === "ArrowDown" ? 1 : entries.length - 1)) % entries.length);
    else if ((key === "Enter" || key === "Tab") && !event.shiftKey) pick(chosen);
    else if (key === "Escape") close();
    else return false;
    event.preventDefault();
    return true;
  };
  const update = (text: string, cursor: number) => setWord(wordAt(text, cursor));
  return { entries: word ? entries : [], chosen, update, close, takes, pick };
}

export const completionId = "completions";

export function Completions({ completion }: { completion: Completion }) {
  const { entries, chosen, pick } = completion;
  const shown: Ref<HTMLLIElement> = (item) => item?.scrollIntoView({ block: "nearest" });
  return (
    <>
      <p class="hidden" role="status">
        {entries.length > 0 ? `${entries.length} completions; Up and Down choose, Enter takes one, Escape closes` : ""}
      </p>
      {entries.length > 0 ? (
        <ul class="completions" id={completionId} role="listbox" aria-label="Completions">
          {entries.map((entry, at) => (
            <li
              id={`${completionId}-${at}`}
              key={entry.label}
              role="option"
              aria-selected={at === chosen}
              ref={at === chosen ? shown : undefined}
              onMouseDown={(event) => {
                // The message keeps the focus.
                event.preventDefault();
                pick(at);
              }}
            >
              <code>
                <Visible text={entry.label} />
              </code>{" "}
              {entry.help ? (
                <span class="dim">
                  <Visible text={entry.help} />
                </span>
              ) : null}
            </li>
          ))}
        </ul>
      ) : null}
    </>
  );
}
