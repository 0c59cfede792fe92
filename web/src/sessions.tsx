// The list of sessions, and the history of one.

import { useState } from "preact/hooks";
import { type BusySession, type Call, type History, type Live, type Message, type Question, type User, get, list, post, textOf } from "./api";
import { Markdown } from "./markdown";
import { Age, Code, ConfirmButton, Guard, Problem, Visible, useLoaded } from "./parts";
import { QuestionCard, useNotices } from "./questions";

interface Row {
  session: string;
  state: string;
  note: string;
}

/** The sessions that do something, or wait for an answer. */
async function readRows(): Promise<Row[]> {
  const [busy, questions] = await Promise.all([list<BusySession>("sessions"), list<Question>("questions")]);
  const rows = new Map<string, Row>();
  for (const one of busy) {
    const waiting = one.waiting + one.steering;
    rows.set(one.session, {
      session: one.session,
      state: one.running ? "running" : "pending",
      note: waiting > 0 ? `${waiting} message${waiting === 1 ? "" : "s"} waiting` : "",
    });
  }
  for (const one of questions) {
    const session = one.asker.session ?? "";
    const row = rows.get(session);
    if (row) row.note = row.note || "asks a question";
    else rows.set(session, { session, state: "waiting", note: "asks a question" });
  }
  return [...rows.values()].sort((a, b) => (a.session < b.session ? -1 : 1));
}

export function SessionsPage({ onLogout }: { onLogout: () => void }) {
  const rows = useLoaded(readRows, "sessions", onLogout);
  const [search, setSearch] = useState("");
  const wanted = search.trim();
  const shown = rows.value?.filter((row) => row.session.toLowerCase().includes(wanted.toLowerCase()));
  return (
    <>
      <h1>Sessions</h1>
      <form
        class="row"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          if (wanted) location.hash = `#/session/${encodeURIComponent(wanted)}`;
        }}
      >
        <label class="grow">
          <span class="dim">Find below, or open any session by its name, such as telegram:42</span>
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={!wanted}>
          Open
        </button>
      </form>
      <Problem text={rows.problem} />
      {shown?.length === 0 ? <p class="empty">No session runs, waits or asks a question{wanted ? " by that name" : ""}.</p> : null}
      <ul class="list">
        {shown?.map((row) => (
          <li key={row.session}>
            <a href={`#/session/${encodeURIComponent(row.session)}`}>
              <Visible text={row.session} />
            </a>
            <span class={`state ${row.state}`}>{row.state}</span>
            <span class="dim">{row.note}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function ToolResult({ message }: { message: Message }) {
  return (
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

function MessageView({ message }: { message: Message }) {
  if (message.role === "tool") return <ToolResult message={message} />;
  return (
    <section class={`message ${message.role}`} aria-label={message.role === "user" ? "User" : "Assistant"}>
      <p class="dim facts">
        <span>{message.role === "user" ? "User" : "Assistant"}</span>
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
      {message.calls?.map((call) => (
        <CallView key={call.id} call={call} state="called" />
      ))}
      {message.error ? (
        <p class="problem">
          <Visible text={message.error} />
        </p>
      ) : null}
    </section>
  );
}

interface Shown {
  history: History;
  questions: Question[];
}

async function readSession(id: string): Promise<Shown> {
  const history = await get<History>(`sessions/${encodeURIComponent(id)}`);
  const all = history.questions.length > 0 ? await list<Question>("questions") : [];
  return { history, questions: all.filter((one) => one.asker.session === id) };
}

export function SessionPage({ id, user, onLogout }: { id: string; user: User; onLogout: () => void }) {
  const shown = useLoaded(
    () => readSession(id),
    id,
    onLogout,
    (now) => (now.history.state === "running" ? 500 : 2000),
  );
  const notices = useNotices();
  const [earlier, setEarlier] = useState<{ id: string; messages: Message[]; before?: number }>({ id, messages: [] });
  const [problem, setProblem] = useState("");
  const history = shown.value?.history;
  const isEarlier = earlier.id === id && earlier.messages.length > 0;
  const before = isEarlier ? earlier.before : history?.before;

  const readEarlier = async () => {
    setProblem("");
    try {
      const page = await get<History>(`sessions/${encodeURIComponent(id)}?before=${before}`);
      const known = isEarlier ? earlier.messages : (history?.messages ?? []);
      setEarlier({ id, messages: [...page.messages, ...known], before: page.before });
    } catch (error) {
      setProblem(textOf(error));
    }
  };
  const stop = async () => {
    setProblem("");
    try {
      await post(`sessions/${encodeURIComponent(id)}/stop`);
      notices.add("The turn was stopped.", false);
      shown.reload();
    } catch (error) {
      setProblem(textOf(error));
    }
  };

  // An entry of the tape may have several messages.
  const newest = history?.messages ?? [];
  const first = newest[0]?.entry ?? Infinity;
  const messages = isEarlier ? [...earlier.messages.filter((one) => one.entry < first), ...newest] : newest;
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
          {user.role === "operator" && history.state === "running" ? (
            <ConfirmButton text="Stop" question="End the running turn?" disabled={false} onConfirm={() => void stop()} />
          ) : null}
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
          <MessageView message={message} />
        </Guard>
      ))}
      {history?.live ? (
        <Guard value={history.live}>
          <LiveView live={history.live} />
        </Guard>
      ) : null}
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
    </>
  );
}
