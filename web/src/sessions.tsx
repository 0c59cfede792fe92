// The list of sessions, and the history of one.

import { useEffect, useRef, useState } from "preact/hooks";
import {
  type BusySession,
  type Call,
  type History,
  type Live,
  type Message,
  type Notice,
  type Question,
  type Spending,
  type StoredPage,
  type StoredSession,
  type Trace,
  type User,
  get,
  list,
  post,
  sessionAddress,
  sessionPath,
  textOf,
} from "./api";
import { Composer, type Waiting } from "./chat";
import { useLive } from "./live";
import { Markdown } from "./markdown";
import { Age, Code, ConfirmButton, Guard, Problem, Visible, useLoaded } from "./parts";
import { QuestionCard, useNotices } from "./questions";

interface Row {
  stored: StoredSession;
  state: string;
  note: string;
}

interface Rows {
  rows: Row[];
  next?: string;
}

function storedPath(search: string, after: string): string {
  const query = new URLSearchParams({ limit: "25" });
  if (search) query.set("search", search);
  if (after) query.set("after", after);
  // Not "+" for a blank.
  return `stored-sessions?${query.toString().replace(/\+/g, "%20")}`;
}

/** Reads a page of sessions that has some; a search may have to read several. */
async function readStored(search: string, after: string): Promise<StoredPage> {
  let page = await get<StoredPage>(storedPath(search, after));
  for (let pages = 1; pages < 20 && page.sessions.length === 0 && page.next; ++pages)
    page = await get<StoredPage>(storedPath(search, page.next));
  return page;
}

function toRow(stored: StoredSession, busy: BusySession | undefined, asks: boolean): Row {
  const waiting = busy ? busy.waiting + busy.steering : 0;
  const state = busy ? (busy.running ? "running" : "pending") : asks ? "waiting" : "idle";
  const note = waiting > 0 ? `${waiting} message${waiting === 1 ? "" : "s"} waiting` : asks ? "asks a question" : "";
  return { stored, state, note };
}

/** The newest sessions; without a search, those that do something or wait for an answer come first. */
async function readRows(search: string): Promise<Rows> {
  const [page, busy, questions] = await Promise.all([
    readStored(search, ""),
    list<BusySession>("sessions"),
    list<Question>("questions"),
  ]);
  const byName = new Map(busy.map((one) => [one.session, one]));
  const asking = new Set(questions.map((one) => one.asker.session ?? ""));
  const listed = new Set(page.sessions.map((one) => one.session));
  const others = search ? [] : [...byName.keys(), ...asking].filter((name) => name && !listed.has(name));
  const unlisted = [...new Set(others)].map((session) => ({
    session,
    title: "",
    forked_from: "",
    state: "idle" as const,
    used: 0,
    messages: 0,
  }));
  const rows = [...unlisted, ...page.sessions].map((one) => toRow(one, byName.get(one.session), asking.has(one.session)));
  rows.sort((a, b) => Number(a.state === "idle") - Number(b.state === "idle"));
  return { rows, next: page.next };
}

function costText(spent: Spending): string {
  if (spent.calls === 0) return "";
  if (spent.cost === 0 && spent.unpriced > 0) return `${spent.tokens_in + spent.tokens_out} tokens`;
  return `$${spent.cost.toFixed(spent.cost < 1 ? 4 : 2)}${spent.unpriced > 0 ? " or more" : ""}`;
}

/** Read once, and again after the session was used. */
function useSpending(session: string, used: number): Spending | undefined {
  const [spent, setSpent] = useState<Spending>();
  useEffect(() => {
    let ended = false;
    get<Spending>(`${sessionPath(session)}/spending`).then(
      (value) => {
        if (!ended) setSpent(value);
      },
      () => {},
    );
    return () => {
      ended = true;
    };
  }, [session, used]);
  return spent;
}

function SessionRow({ row }: { row: Row }) {
  const { stored } = row;
  const spent = useSpending(stored.session, stored.used);
  return (
    <li>
      <a href={sessionAddress(stored.session)}>
        <Visible text={stored.title || stored.session} />
        {stored.title ? (
          <span class="dim block">
            <Visible text={stored.session} />
          </span>
        ) : null}
      </a>
      {row.state === "idle" ? null : <span class={`state ${row.state}`}>{row.state}</span>}
      <span class="dim">{row.note}</span>
      {stored.used > 0 ? (
        <span class="dim">
          {stored.messages} messages{spent ? `, ${costText(spent)}` : ""}, <Age seconds={stored.used} />
        </span>
      ) : null}
    </li>
  );
}

export function SessionsPage({ user, onLogout }: { user: User; onLogout: () => void }) {
  const [search, setSearch] = useState("");
  const [wanted, setWanted] = useState("");
  const rows = useLoaded(
    () => readRows(wanted),
    `sessions ${wanted}`,
    onLogout,
    () => 5000,
  );
  const [more, setMore] = useState<{ wanted: string; rows: Row[]; next?: string }>({ wanted, rows: [] });
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const timer = window.setTimeout(() => setWanted(search.trim()), 300);
    return () => window.clearTimeout(timer);
  }, [search]);
  const isMore = more.wanted === wanted && more.rows.length > 0;
  const first = rows.value?.rows;
  const known = new Set(first?.map((row) => row.stored.session));
  const shown = first && [...first, ...(isMore ? more.rows.filter((row) => !known.has(row.stored.session)) : [])];
  const next = isMore ? more.next : rows.value?.next;
  const readMore = async () => {
    setProblem("");
    try {
      const page = await readStored(wanted, next ?? "");
      const added = page.sessions.map((one) => toRow(one, undefined, false));
      setMore({ wanted, rows: [...(isMore ? more.rows : []), ...added], next: page.next });
    } catch (error) {
      setProblem(textOf(error));
    }
  };
  return (
    <>
      <h1>Sessions</h1>
      <form
        class="row"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          if (search.trim()) location.hash = sessionAddress(search.trim());
        }}
      >
        <label class="grow">
          <span class="dim">Find by name or first words, or open one by its whole name, such as telegram:42</span>
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={!search.trim()}>
          Open
        </button>
        {user.role === "operator" ? (
          <button type="button" class="primary" onClick={() => (location.hash = "#/new")}>
            New session
          </button>
        ) : null}
      </form>
      <Problem text={problem || rows.problem} />
      {shown?.length === 0 ? <p class="empty">There is no session{wanted ? " by that name" : " yet"}.</p> : null}
      <ul class="list">
        {shown?.map((row) => (
          <SessionRow key={row.stored.session} row={row} />
        ))}
      </ul>
      {next ? (
        <p>
          <button type="button" onClick={() => void readMore()}>
            More sessions
          </button>
        </p>
      ) : null}
    </>
  );
}

/** The gateway decides which bytes are a picture; others cannot be shown, and are only downloaded. */
function Picture({ address, name }: { address: string; name: string }) {
  const [isBad, setIsBad] = useState(false);
  return (
    <p class="picture">
      {isBad ? null : <img src={address} alt={name} loading="lazy" onError={() => setIsBad(true)} />}
      <a href={address} download={name}>
        Download <Visible text={name} />
      </a>
    </p>
  );
}

function Pictures({ session, message }: { session: string; message: Message }) {
  return (
    <>
      {message.images?.map((number) => (
        <Picture key={number} address={`v1/admin/${sessionPath(session)}/images/${message.entry}/${number}`} name="picture" />
      ))}
    </>
  );
}

/** Larger pictures are not loaded without a click. */
const mostShownBytes = 5 * 1024 * 1024;

function NoticeView({ session, notice }: { session: string; notice: Notice }) {
  const { file } = notice;
  if (!file)
    return (
      <p class={notice.is_error ? "problem" : "dim"}>
        <Visible text={notice.text} />
      </p>
    );
  const address = `v1/admin/${sessionPath(session)}/files/${encodeURIComponent(file.id)}`;
  const kilobytes = Math.max(1, Math.round(file.size / 1024));
  return (
    <div role="group" class="message" aria-label="File">
      <p class="dim facts">
        <span>File, {kilobytes} KB</span>
        <Age seconds={Date.parse(notice.date) / 1000} />
      </p>
      {file.is_image && file.size <= mostShownBytes ? (
        <Picture address={address} name={file.name} />
      ) : (
        <a href={address} download={file.name}>
          Download <Visible text={file.name} />
        </a>
      )}
    </div>
  );
}

function ToolResult({ session, message }: { session: string; message: Message }) {
  const result = (
    <details class={message.is_error ? "tool failed" : "tool"}>
      <summary>
        <code>
          <Visible text={message.name ?? "tool"} />
        </code>{" "}
        {message.is_error ? "failed" : "result"}
        {message.truncated ? ", its beginning" : ""}
      </summary>
      <Code text={message.text} label={`Result of ${message.name ?? "a tool"}`} />
    </details>
  );
  return (
    <>
      {result}
      <Pictures session={session} message={message} />
    </>
  );
}

function Thinking({ text }: { text: string }) {
  return (
    <details class="tool">
      <summary>Thinking</summary>
      <p class="plain">
        <Visible text={text} />
      </p>
    </details>
  );
}

/** Indents complete JSON; a beginning is shown as it is. */
function readable(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function CallView({ call, state }: { call: Call; state: string }) {
  return (
    <details class="tool">
      <summary>
        <code>
          <Visible text={call.name} />
        </code>{" "}
        {state}
      </summary>
      {call.arguments ? <Code text={readable(call.arguments)} label={`Arguments of ${call.name}`} /> : null}
    </details>
  );
}

/** The answer that is being generated. Not announced as it grows: a screen reader would read each part of it. */
function LiveView({ live }: { live: Live }) {
  return (
    <section class="message live" aria-label="In progress" aria-busy="true">
      <p class="dim facts">
        <span>Assistant, in progress</span>
        {live.truncated ? <span>its end</span> : null}
      </p>
      {live.thinking ? <Thinking text={live.thinking} /> : null}
      <Markdown text={live.text} mostMarks={300} />
      {live.calls.map((call) => (
        <CallView key={call.id} call={call} state="runs" />
      ))}
    </section>
  );
}

function CommandOutput({ message }: { message: Message }) {
  return (
    <div role="group" class="message" aria-label="Output of a command">
      <p class="dim facts">
        <span>{message.is_error ? "Command failed" : "Output"}</span>
        {message.truncated ? <span>its beginning</span> : null}
      </p>
      <Code text={message.text} label="Output" />
    </div>
  );
}

function MessageView({ session, message }: { session: string; message: Message }) {
  if (message.role === "tool") return <ToolResult session={session} message={message} />;
  if (message.role === "command") return <CommandOutput message={message} />;
  return (
    <div role="group" class={`message ${message.role}`} aria-label={message.role === "user" ? "User" : "Assistant"}>
      <p class="dim facts">
        <span>{message.role === "user" ? <Visible text={message.from || "User"} /> : "Assistant"}</span>
        <Age seconds={Date.parse(message.date) / 1000} />
        {message.truncated ? <span>its beginning</span> : null}
      </p>
      {message.thinking ? <Thinking text={message.thinking} /> : null}
      {message.role === "assistant" ? (
        <Markdown text={message.text} />
      ) : (
        <p class="plain">
          <Visible text={message.text} />
        </p>
      )}
      <Pictures session={session} message={message} />
      {message.calls?.map((call) => (
        <CallView key={call.id} call={call} state="called" />
      ))}
      {message.error ? (
        <p class="problem">
          <Visible text={message.error} />
        </p>
      ) : null}
    </div>
  );
}

/** The turns of the session whose traces the gateway has written to files; read when it is opened. */
function Traces({ session }: { session: string }) {
  const [traces, setTraces] = useState<Trace[]>();
  const [problem, setProblem] = useState("");
  const read = async () => {
    setProblem("");
    try {
      setTraces((await get<{ traces: Trace[] }>(`${sessionPath(session)}/traces`)).traces);
    } catch (error) {
      setProblem(textOf(error));
    }
  };
  return (
    <details
      class="tool"
      onToggle={(event) => {
        if (event.currentTarget.open) void read();
      }}
    >
      <summary>Traces</summary>
      <Problem text={problem} />
      {traces?.length === 0 ? <p class="dim">No turn of this session has a trace.</p> : null}
      <ul class="list">
        {traces?.map((trace) => (
          <li key={trace.id}>
            <a href={`pages/traces/${trace.id}`} target="_blank" rel="noopener">
              <Visible text={trace.input || trace.id} />
            </a>
            <span class={trace.status === "ok" ? "state" : "state waiting"}>{trace.status}</span>
            <span class="dim">
              <Visible text={trace.facts} />
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}

/** What is done with a session that has a history. */
function SessionActions({ id, user, isRunning, onNotice, onChanged }: {
  id: string;
  user: User;
  isRunning: boolean;
  onNotice: (text: string, isProblem: boolean) => void;
  onChanged: () => void;
}) {
  const [busy, setBusy] = useState(false);
  const act = async (action: () => Promise<void>) => {
    setBusy(true);
    try {
      await action();
    } catch (error) {
      onNotice(textOf(error), true);
    } finally {
      setBusy(false);
    }
  };
  const stop = async () => {
    await post(`${sessionPath(id)}/stop`);
    onNotice("The turn was stopped.", false);
    onChanged();
  };
  const fork = async () => {
    const made = await post<{ session: string }>(`${sessionPath(id)}/fork`);
    location.hash = sessionAddress(made.session);
  };
  return (
    <>
      {user.role === "operator" && isRunning ? (
        <ConfirmButton text="Stop" question="End the running turn?" disabled={busy} onConfirm={() => void act(stop)} />
      ) : null}
      {user.role === "operator" ? (
        <button type="button" disabled={busy} onClick={() => void act(fork)} title="Continue in a new session, after the last complete answer">
          Fork
        </button>
      ) : null}
      <a class="button" href={`pages/sessions/${encodeURIComponent(id)}`} download="session.html">
        Export
      </a>
    </>
  );
}

interface Shown {
  /** The changes that the history has. */
  changes: number;
  history: History;
  questions: Question[];
}

async function readSession(id: string, changes: number): Promise<Shown> {
  const history = await get<History>(sessionPath(id));
  const all = history.questions.length > 0 ? await list<Question>("questions") : [];
  return { changes, history, questions: all.filter((one) => one.asker.session === id) };
}

export function SessionPage({ id, user, onLogout }: { id: string; user: User; onLogout: () => void }) {
  const reload = useRef(() => {});
  const followed = useLive(id, () => reload.current());
  // Without the stream of the session it is read more often.
  const shown = useLoaded(
    () => readSession(id, followed.changes()),
    id,
    onLogout,
    () => (followed.state.isOpen ? 5000 : 2000),
  );
  reload.current = shown.reload;
  const notices = useNotices();
  const [earlier, setEarlier] = useState<{ id: string; messages: Message[]; before?: number }>({ id, messages: [] });
  const [problem, setProblem] = useState("");
  const [sent, setSent] = useState<{ id: string; all: Waiting[] }>({ id, all: [] });
  const history = shown.value?.history;
  const isEarlier = earlier.id === id && earlier.messages.length > 0;
  const before = isEarlier ? earlier.before : history?.before;

  const readEarlier = async () => {
    setProblem("");
    try {
      const page = await get<History>(`${sessionPath(id)}?before=${before}`);
      const known = isEarlier ? earlier.messages : (history?.messages ?? []);
      setEarlier({ id, messages: [...page.messages, ...known], before: page.before });
    } catch (error) {
      setProblem(textOf(error));
    }
  };
  // An entry of the tape may have several messages.
  const newest = history?.messages ?? [];
  const spent = useSpending(id, newest.length > 0 && history?.state !== "running" ? (newest[newest.length - 1]?.entry ?? 0) : 0);
  const stored = new Set(newest.map((one) => one.message));
  const waiting = sent.id === id && history?.state !== "idle" ? sent.all.filter((one) => !stored.has(one.key)) : [];
  const first = newest[0]?.entry ?? Infinity;
  const messages = isEarlier ? [...earlier.messages.filter((one) => one.entry < first), ...newest] : newest;
  const { isOpen, now, ended } = followed.state;
  const unread = ended.filter((one) => one.change > (shown.value?.changes ?? 0)).map((one) => one.live);
  const current = isOpen ? now : history?.live;
  const lives = current && (current.text || current.thinking || current.calls.length > 0) ? [...unread, current] : unread;
  return (
    <>
      <p>
        <a href="#/sessions">All sessions</a>
      </p>
      <h1 tabIndex={-1} ref={notices.place} class="name">
        <Visible text={id} />
      </h1>
      {history ? (
        <div class="row">
          <span class={`state ${history.state}`}>{history.state}</span>
          {history.pending > 0 ? <span class="dim">{history.pending} waiting</span> : null}
          {spent && spent.calls > 0 ? <span class="dim">{costText(spent)}</span> : null}
          <SessionActions
            id={id}
            user={user}
            isRunning={history.state === "running"}
            onNotice={notices.add}
            onChanged={shown.reload}
          />
        </div>
      ) : null}
      <Problem text={problem || shown.problem} />
      {notices.view}
      {before ? (
        <button type="button" onClick={() => void readEarlier()}>
          Earlier messages
        </button>
      ) : null}
      {messages.map((message, at) => (
        <Guard key={`${message.entry}-${at - messages.findIndex((one) => one.entry === message.entry)}`} value={message}>
          <MessageView session={id} message={message} />
        </Guard>
      ))}
      {lives.map((live) => (
        <Guard value={live}>
          <LiveView live={live} />
        </Guard>
      ))}
      {waiting.map((one) => (
        <div role="group" key={one.key} class="message user" aria-label="Sent, not processed yet">
          <p class="dim facts">
            <span>Sent, not processed yet</span>
            {one.files.map((name) => (
              <Visible text={name} />
            ))}
          </p>
          <p class="plain">
            <Visible text={one.text} />
          </p>
        </div>
      ))}
      {history?.notices?.map((notice) => (
        <NoticeView key={notice.file?.id ?? notice.date + notice.text} session={id} notice={notice} />
      ))}
      {shown.value?.questions.map((question) => (
        <Guard key={question.id} value={question}>
          <QuestionCard
            question={question}
            user={user}
            onAnswered={(text, isProblem) => {
              notices.add(text, isProblem);
              shown.reload();
            }}
          />
        </Guard>
      ))}
      {user.role === "operator" && history ? (
        <Composer
          key={id}
          session={id}
          isRunning={history.state === "running"}
          onSent={(_, message) => {
            setSent((old) => ({ id, all: [...(old.id === id ? old.all : []), message].slice(-20) }));
            shown.reload();
          }}
        />
      ) : null}
      {history ? <Traces key={`traces ${id}`} session={id} /> : null}
    </>
  );
}
