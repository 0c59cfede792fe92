// Writing into a session: text, files, and what a running turn does with them.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Sent, type User, post, sessionAddress, sessionPath, textOf } from "./api";
import { Completions, completionId, ownCommands, useCompletion } from "./complete";
import { ConfirmButton, Problem, Visible, isComposing } from "./parts";

/** In bytes, of all files of a message; the gateway takes a little more. */
const mostBytes = 8 * 1024 * 1024;
const mostFiles = 10;

interface Attached {
  name: string;
  type: string;
  content: string;
  size: number;
}

/** A message that was sent and is not in the history yet. */
export interface Waiting {
  key: string;
  text: string;
  files: string[];
  /** For the turn that runs. */
  steers: boolean;
}

/** Those of the sessions of this page, the last ones. */
const sent = new Map<string, Waiting[]>();

export function sentTo(session: string): Waiting[] {
  return sent.get(session) ?? [];
}

function noteSent(session: string, message: Waiting) {
  const all = [...sentTo(session), message].slice(-20);
  sent.delete(session);
  sent.set(session, all);
  const [oldest] = sent.keys();
  if (sent.size > 20 && oldest !== undefined) sent.delete(oldest);
}

function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function base64(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += 32768) parts.push(String.fromCharCode(...bytes.subarray(at, at + 32768)));
  return btoa(parts.join(""));
}

async function attach(files: Iterable<File>, before: Attached[]): Promise<Attached[]> {
  const all = [...before];
  for (const file of files) {
    const size = all.reduce((sum, one) => sum + one.size, file.size);
    if (all.length === mostFiles || size > mostBytes)
      throw new Error(`A message has at most ${mostFiles} files and ${mostBytes / 1024 / 1024} MB.`);
    const type = /^[\w.+-]+\/[\w.+-]+$/.test(file.type) ? file.type : "application/octet-stream";
    all.push({ name: file.name.slice(0, 100) || "file", type, content: await base64(file), size: file.size });
  }
  return all;
}

/** On the keyboard of a touch screen, Enter begins a line. */
function enterSends(): boolean {
  return window.matchMedia("(pointer: fine)").matches;
}

/** Other kinds of input are typed, also with an input method. Undoing brings pasted text back. */
const pastes = ["insertFromPaste", "insertFromDrop", "insertFromYank", "insertFromPasteAsQuotation", "historyUndo", "historyRedo"];

/** Whether the input has changed the beginning of the text, which decides about commands. */
function changesBeginning(before: string, after: string): boolean {
  let same = 0;
  while (same < before.length && before[same] === after[same]) same++;
  return before.slice(0, same).trim() === "";
}

function sends(event: KeyboardEvent): boolean {
  if (event.key !== "Enter" || isComposing(event)) return false;
  if (event.ctrlKey || event.metaKey) return true;
  return !event.shiftKey && !event.altKey && enterSends();
}

/** Without a session, the message begins a new one. */
export function Composer({ session, isRunning, onSent }: {
  session?: string;
  isRunning: boolean;
  onSent: (session: string) => void;
}) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState<Attached[]>([]);
  const [problem, setProblem] = useState("");
  const [attached, setAttached] = useState("");
  const [busy, setBusy] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  // A message that is sent again after a failure is the same one.
  const key = useRef(newKey());
  const cursor = useRef<number | undefined>(undefined);
  // The gateway runs no command whose beginning was pasted.
  const pasted = useRef(false);
  const completion = useCompletion(session, (start, end, by) => {
    setText(text.slice(0, start) + by + text.slice(end));
    cursor.current = start + by.length;
    key.current = newKey();
  });
  useLayoutEffect(() => {
    if (cursor.current === undefined) return;
    field.current?.setSelectionRange(cursor.current, cursor.current);
    cursor.current = undefined;
  });
  useEffect(() => {
    if (!session) field.current?.focus();
  }, []);
  const isCommand = /^\s*[,/!]/.test(text);
  const isEmpty = text.trim() === "" && files.length === 0;
  const canSteer = isRunning && files.length === 0 && !isCommand;

  const add = async (picked: Iterable<File>) => {
    setProblem("");
    try {
      setFiles(await attach(picked, files));
      key.current = newKey();
    } catch (error) {
      setProblem(textOf(error));
    }
  };
  const stop = async () => {
    setProblem("");
    try {
      if (session) await post(`${sessionPath(session)}/stop`);
    } catch (error) {
      setProblem(textOf(error));
    }
  };
  const send = async (steer: boolean) => {
    if (isEmpty || busy) return;
    setBusy(true);
    setProblem("");
    setAttached("");
    completion.close();
    const own = text.trim();
    if (ownCommands.includes(own) && files.length === 0) {
      if (own === "/new") location.hash = "#/new";
      else await stop();
      setText("");
      pasted.current = false;
      setBusy(false);
      return;
    }
    const message = {
      text,
      typed: true,
      pasted: pasted.current,
      steer,
      key: key.current,
      files: files.map(({ name, type, content }) => ({ name, type, content })),
    };
    try {
      const accepted = await post<Sent>(session ? `${sessionPath(session)}/messages` : "sessions", message);
      setText("");
      pasted.current = false;
      setFiles([]);
      setAttached(accepted.attached ?? "");
      noteSent(accepted.session, { key: accepted.message, text, files: files.map((one) => one.name), steers: steer });
      onSent(accepted.session);
      key.current = newKey();
    } catch (error) {
      setProblem(textOf(error));
    } finally {
      setBusy(false);
      field.current?.focus();
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send(canSteer);
      }}
    >
      <label class="field">
        <span>Message</span> <span class="dim">@ names a file, / begins a command{enterSends() ? ", Enter sends" : ""}</span>
        <textarea
          ref={field}
          rows={2}
          value={text}
          aria-autocomplete="list"
          aria-controls={completion.entries.length > 0 ? completionId : undefined}
          aria-activedescendant={completion.entries.length > 0 ? `${completionId}-${completion.chosen}` : undefined}
          onInput={(event) => {
            const { value, selectionStart } = event.currentTarget;
            if (pastes.includes(event.inputType) && changesBeginning(text, value)) pasted.current = true;
            if (value.trim() === "") pasted.current = false;
            setText(value);
            key.current = newKey();
            completion.update(value, selectionStart);
          }}
          onBlur={completion.close}
          onKeyDown={(event) => {
            if (completion.takes(event)) return;
            if (!sends(event)) return;
            event.preventDefault();
            void send(canSteer);
          }}
          onPaste={(event) => {
            const pasted = event.clipboardData?.files;
            if (!pasted || pasted.length === 0) return;
            event.preventDefault();
            void add(pasted);
          }}
        />
      </label>
      <Completions completion={completion} />
      {attached ? (
        <p class="dim">
          Attached: <Visible text={attached} />
        </p>
      ) : null}
      {files.length > 0 ? (
        <ul class="files" aria-label="Files of the message">
          {files.map((file, at) => (
            <li>
              <Visible text={file.name} /> <span class="dim">{Math.ceil(file.size / 1024)} KB</span>
              <button
                type="button"
                aria-label={`Remove ${file.name}`}
                onClick={() => setFiles(files.filter((_, index) => index !== at))}
              >
                Remove
              </button>
            </li>
          ))}
        </ul>
      ) : null}
      <div class="actions">
        <button type="submit" class="primary" disabled={busy || isEmpty} title={canSteer ? "The running turn takes it after its next answer or tool" : "Enter, or Ctrl+Enter"}>
          {canSteer ? "Steer" : "Send"}
        </button>
        {canSteer ? (
          <button type="button" disabled={busy || isEmpty} onClick={() => void send(false)}>
            Send after the turn
          </button>
        ) : null}
        {isRunning && session ? (
          <ConfirmButton text="Stop" question="End the running turn?" disabled={busy} onConfirm={() => void stop()} />
        ) : null}
        <button type="button" onClick={() => picker.current?.click()}>
          Add files
        </button>
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files"
          onChange={(event) => {
            const picked = [...(event.currentTarget.files ?? [])];
            event.currentTarget.value = "";
            void add(picked);
          }}
        />
      </div>
      <Problem text={problem} />
    </form>
  );
}

export function NewSessionPage({ user }: { user: User }) {
  return (
    <>
      <p>
        <a href="#/sessions">All sessions</a>
      </p>
      <h1>New session</h1>
      {user.role === "operator" ? (
        <Composer
          isRunning={false}
          onSent={(session) => {
            location.hash = sessionAddress(session);
          }}
        />
      ) : (
        <p class="dim">You are logged in as a viewer, who cannot write.</p>
      )}
    </>
  );
}
