// The list of sessions, and the history of one.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type BusySession,
  type Call,
  type History,
  type Live,
  type Message,
  type Missing,
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
import { Composer, type Waiting, sentTo } from "./chat";
import { listPause } from "./lists";
import { useLive } from "./live";
import { GrowingMarkdown, Markdown } from "./markdown";
import { Age, Code, Guard, MissingParts, Problem, Visible, countOf, useLoaded } from "./parts";
import { Arguments, QuestionCard, useNotices } from "./questions";
import { useEntered } from "./usage";

interface Row {
  stored: StoredSession;
  state: string;
  note: string;
}

interface Rows extends Missing {
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
  const note = waiting > 0 ? `${countOf(waiting, "message")} waiting` : asks ? "asks a question" : "";
  return { stored, state, note };
}

/** The newest sessions; without a search, those that do something or wait for an answer come first. */
async function readRows(search: string): Promise<Rows> {
  const [page, busy, questions] = await Promise.all([
    readStored(search, ""),
    list<BusySession>("sessions"),
    list<Question>("questions"),
  ]);
  for (const one of page.sessions) if (one.title) titles.set(one.session, one.title);
  const byName = new Map(busy.all.map((one) => [one.session, one]));
  const asking = new Set(questions.all.map((one) => one.asker.session ?? ""));
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
  return { rows, next: page.next, unread_databases: page.unread_databases, unanswered: busy.unanswered };
}

function costText(spent: Spending): string {
  if (spent.calls === 0) return "";
  if (spent.cost === 0 && spent.unpriced > 0) return countOf(spent.tokens_in + spent.tokens_out, "token");
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
          {countOf(stored.messages, "message")}{spent ? `, ${costText(spent)}` : ""}, <Age seconds={stored.used} />
        </span>
      ) : null}
    </li>
  );
}

export function SessionsPage({ user, onLogout }: { user: User; onLogout: () => void }) {
  const { text: search, entered: wanted, set: setSearch } = useEntered();
  const rows = useLoaded(
    () => readRows(wanted),
    `sessions ${wanted}`,
    onLogout,
    () => listPause(5000),
    ["questions", "sessions"],
  );
  const [more, setMore] = useState<{ wanted: string; rows: Row[]; next?: string }>({ wanted, rows: [] });
  const [problem, setProblem] = useState("");
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
      <MissingParts of={rows.value} />
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
    <details class={message.is_error ? "tool result failed" : "tool result"}>
      <summary>
        <code>
          <Visible text={message.name ?? "tool"} />
        </code>{" "}
        {message.is_error ? "failed" : "result"}
        {message.truncated ? ", its beginning" : ""} <Brief text={message.text} />
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

/** The beginning of a text in the line of a call or a result. */
function Brief({ text }: { text: string }) {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return line ? (
    <span class="dim brief">
      <Visible text={line.slice(0, 200)} />
    </span>
  ) : null;
}

/** Returns the arguments of a call; nothing if they are only a beginning. */
function argumentsOf(call: Call): Record<string, unknown> | undefined {
  try {
    const args: unknown = JSON.parse(call.arguments ?? "");
    return typeof args === "object" && args !== null && !Array.isArray(args) ? (args as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The arguments that say best what a call is about. */
const briefArguments = ["command", "path", "pattern", "url", "query", "prompt", "text"];

function CallView({ call, isRunning }: { call: Call; isRunning?: boolean }) {
  const args = argumentsOf(call);
  const brief = briefArguments.map((name) => args?.[name]).find((value) => typeof value === "string");
  return (
    <details class="tool">
      <summary>
        <code>
          <Visible text={call.name} />
        </code>{" "}
        {isRunning ? "runs " : ""}
        <Brief text={brief ?? (args ? "" : (call.arguments ?? ""))} />
      </summary>
      {args ? (
        <Arguments tool={call.name} args={args} shorten={(text) => text} />
      ) : call.arguments ? (
        <Code text={call.arguments} label={`Arguments of ${call.name}, their beginning`} />
      ) : null}
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
      <GrowingMarkdown text={live.text} />
      {live.calls.map((call) => (
        <CallView key={call.id} call={call} isRunning />
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
        <CallView key={call.id} call={call} />
      ))}
      {message.error ? (
        <p class="problem">
          <Visible text={message.error} />
        </p>
      ) : null}
    </div>
  );
}

/** A message of this page that the history does not have yet. */
function SentView({ message, label }: { message: Waiting; label: string }) {
  return (
    <div role="group" class="message user" aria-label={label}>
      <p class="dim facts">
        <Visible text={label} />
        {message.files.map((name) => (
          <Visible text={name} />
        ))}
      </p>
      <p class="plain">
        <Visible text={message.text} />
      </p>
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
function SessionActions({ id, user, onNotice }: {
  id: string;
  user: User;
  onNotice: (text: string, isProblem: boolean) => void;
}) {
  const [busy, setBusy] = useState(false);
  const fork = async () => {
    setBusy(true);
    try {
      const made = await post<{ session: string }>(`${sessionPath(id)}/fork`);
      location.hash = sessionAddress(made.session);
    } catch (error) {
      onNotice(textOf(error), true);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      {user.role === "operator" ? (
        <button type="button" disabled={busy} onClick={() => void fork()} title="Continue in a new session, after the last complete answer">
          Fork
        </button>
      ) : null}
      <a class="button" href={`pages/sessions/${encodeURIComponent(id)}`} download="session.html">
        Export
      </a>
    </>
  );
}

const noMessages: Message[] = [];

interface Shown {
  /** The changes that the history has. */
  changes: number;
  history: History;
  questions: Question[];
}

/** The titles that the list of sessions has shown. */
const titles = new Map<string, string>();

/** Returns the title of a session, or the first line of a history that is complete. */
function titleOf(id: string, history: History | undefined): string {
  const first = history && !history.before ? history.messages.find((one) => one.role === "user") : undefined;
  const title = titles.get(id) ?? first?.text.trim().split("\n", 1)[0] ?? "";
  return title.length > 120 ? `${title.slice(0, 119)}…` : title;
}

/** Shows the end of a session, and follows it as it grows until the user has scrolled away from it. */
function useEnd(id: string) {
  const isAtEnd = useRef(true);
  useEffect(() => {
    isAtEnd.current = true;
    const note = () => {
      const { scrollHeight } = document.documentElement;
      isAtEnd.current = window.scrollY + window.innerHeight > scrollHeight - 60;
    };
    window.addEventListener("scroll", note, { passive: true });
    return () => window.removeEventListener("scroll", note);
  }, [id]);
  // Once for each frame: the size of a page that grows is not computed for every part of an answer.
  const frame = useRef(0);
  useEffect(() => {
    if (!isAtEnd.current || frame.current) return;
    frame.current = requestAnimationFrame(() => {
      frame.current = 0;
      if (isAtEnd.current) window.scrollTo(0, document.documentElement.scrollHeight);
    });
  });
}

async function readSession(id: string, changes: number): Promise<Shown> {
  const history = await get<History>(sessionPath(id));
  const all = history.questions.length > 0 ? (await list<Question>("questions")).all : [];
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
  useEnd(id);
  const [earlier, setEarlier] = useState<{ id: string; messages: Message[]; before?: number }>({ id, messages: [] });
  const [problem, setProblem] = useState("");
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
  const newest = history?.messages ?? noMessages;
  const spent = useSpending(id, newest.length > 0 && history?.state !== "running" ? (newest[newest.length - 1]?.entry ?? 0) : 0);
  const stored = new Set(newest.map((one) => one.message));
  // A turn stores its message with the first answer.
  const unstored = history && history.state !== "idle" ? sentTo(id).filter((one) => !stored.has(one.key)) : [];
  const own = unstored.filter((one) => !one.steers);
  const begun = own.slice(0, Math.max(0, own.length - (history?.pending ?? 0)));
  const waiting = unstored.filter((one) => !begun.includes(one));
  const oldest = isEarlier ? earlier.messages : noMessages;
  // Not with each part of an answer.
  const messages = useMemo(() => {
    const first = newest[0]?.entry ?? Infinity;
    const all = [...oldest.filter((one) => one.entry < first), ...newest];
    return all.map((message, at) => (
      <Guard key={`${message.entry}-${at - all.findIndex((one) => one.entry === message.entry)}`} value={message}>
        <MessageView session={id} message={message} />
      </Guard>
    ));
  }, [id, oldest, newest]);
  const title = titleOf(id, history);
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
        <Visible text={title || id} />
      </h1>
      {history ? (
        <div class="row">
          {title ? (
            <span class="dim name">
              <Visible text={id} />
            </span>
          ) : null}
          <span class={`state ${history.state}`}>{history.state}</span>
          {history.pending > 0 ? <span class="dim">{history.pending} waiting</span> : null}
          {spent && spent.calls > 0 ? <span class="dim">{costText(spent)}</span> : null}
          <SessionActions id={id} user={user} onNotice={notices.add} />
        </div>
      ) : null}
      {history ? <Traces key={`traces ${id}`} session={id} /> : null}
      <Problem text={problem || shown.problem} />
      {before ? (
        <button type="button" onClick={() => void readEarlier()}>
          Earlier messages
        </button>
      ) : null}
      {messages}
      {begun.map((one) => (
        <SentView key={one.key} message={one} label={user.name} />
      ))}
      {lives.map((live) => (
        <Guard value={live}>
          <LiveView live={live} />
        </Guard>
      ))}
      {waiting.map((one) => (
        <SentView key={one.key} message={one} label="Sent, not processed yet" />
      ))}
      {history?.notices?.map((notice) => (
        <NoticeView key={notice.file?.id ?? notice.date + notice.text} session={id} notice={notice} />
      ))}
      {shown.value?.questions.map((question) => (
        <Guard key={question.id} value={question}>
          <QuestionCard
            question={question}
            user={user}
            isOfPage
            onAnswered={(text, isProblem) => {
              notices.add(text, isProblem);
              shown.reload();
            }}
          />
        </Guard>
      ))}
      <div class="dock">
        {notices.view}
        {user.role === "operator" && history ? (
          <Composer
            key={id}
            session={id}
            isRunning={history.state === "running"}
            onSent={shown.reload}
          />
        ) : null}
      </div>
    </>
  );
}
