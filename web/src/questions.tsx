// The questions of all sessions, and how one of them is shown and answered.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, type Part, type Payload, type Question, type User, list, post, textOf } from "./api";
import { listPause } from "./lists";
import { Age, Code, ConfirmButton, Guard, MissingParts, Problem, Visible, asText, beginningOf, hasOdd, isLong, useLoaded } from "./parts";

function textArgument(args: Record<string, unknown>, name: string): string | undefined {
  const value = args[name];
  return typeof value === "string" ? value : undefined;
}

type Shorten = (text: string) => string;

function Lines({ sign, text, kind }: { sign: string; text: string; kind: string }) {
  const signed = text.replace(/\n$/, "").replace(/^/gm, `${sign} `);
  return (
    <span class={`line ${kind}`}>
      <Visible text={`${signed}\n`} />
    </span>
  );
}

/** What the tools `write` and `edit` would do to a file. */
function Change({ tool, args, shorten }: { tool: string; args: Record<string, unknown>; shorten: Shorten }) {
  const added = shorten(textArgument(args, tool === "edit" ? "new_text" : "content") ?? "");
  const removed = shorten(tool === "edit" ? (textArgument(args, "old_text") ?? "") : "");
  return (
    <pre tabIndex={0} aria-label="Change" class="change">
      <code>
        {removed ? <Lines sign="-" text={removed} kind="removed" /> : null}
        {added ? <Lines sign="+" text={added} kind="added" /> : null}
      </code>
    </pre>
  );
}

/** Every argument is shown: those without a view of their own by name. */
export function Arguments({ tool, args, shorten }: { tool: string; args: Record<string, unknown>; shorten: Shorten }) {
  const isChange = tool === "write" || tool === "edit";
  const isText = isChange ? ["content", "old_text", "new_text"] : [];
  const names = Object.keys(args).filter((name) => !isText.includes(name) || typeof args[name] !== "string");
  return (
    <>
      <dl class="arguments">
        {names.map((name) => {
          const text = shorten(asText(args[name]));
          return (
            <>
              <dt>
                <Visible text={name} />
              </dt>
              <dd>
                {text.includes("\n") || name === "command" ? (
                  <Code text={text} label={name} />
                ) : (
                  <code>
                    <Visible text={text} />
                  </code>
                )}
              </dd>
            </>
          );
        })}
      </dl>
      {isChange ? <Change tool={tool} args={args} shorten={shorten} /> : null}
    </>
  );
}

/** What the host says about a call. Its own approvals have a text with remarks, whose first line repeats the call. */
function Details({ details, shorten }: { details: unknown; shorten: Shorten }) {
  if (details === null || details === undefined) return null;
  const { question, rule: _, ...rest } =
    typeof details === "object" ? (details as Record<string, unknown>) : { question: details, rule: undefined };
  const remarks = typeof question === "string" ? question : JSON.stringify(question);
  return (
    <>
      {remarks ? (
        <p class="plain dim">
          <Visible text={shorten(remarks)} />
        </p>
      ) : null}
      {Object.keys(rest).length > 0 ? <Code text={shorten(asText(rest))} label="Details" /> : null}
    </>
  );
}

/** The arguments of a call as texts that are edited: a text as it is, other values as JSON. */
type Edited = Map<string, string>;

function editable(args: Record<string, unknown>): Edited {
  return new Map(Object.entries(args).map(([name, value]) => [name, asText(value)]));
}

/** JavaScript rounds large integers: arguments with such a number cannot be sent back as they were. */
function isExact(value: unknown): boolean {
  if (typeof value === "number") return !Number.isInteger(value) || Number.isSafeInteger(value);
  return value === null || typeof value !== "object" || Object.values(value).every(isExact);
}

/** Returns the arguments; throws an error that names one that is not JSON, or has too many digits. */
function edited(args: Record<string, unknown>, texts: Edited): Record<string, unknown> {
  const all = Object.entries(args).map(([name, before]): [string, unknown] => {
    const text = texts.get(name) ?? "";
    if (typeof before === "string") return [name, text];
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw new Error(`"${name}" must be JSON, like the value before.`);
    }
    if (!isExact(value)) throw new Error(`"${name}" has a number with too many digits.`);
    return [name, value];
  });
  return Object.fromEntries(all);
}

function CallEditor({ texts, onChange }: { texts: Edited; onChange: (texts: Edited) => void }) {
  return (
    <fieldset>
      <legend>Arguments of the call</legend>
      {[...texts].map(([name, text]) => (
        <div>
          <label class="field">
            <Visible text={name} />
            <textarea
              class="code"
              rows={Math.min(12, text.split("\n", 12).length + 1)}
              value={text}
              spellcheck={false}
              onInput={(event) => onChange(new Map(texts).set(name, event.currentTarget.value))}
            />
          </label>
          {hasOdd(text) ? <Code text={text} label={`${name}, with hidden characters`} /> : null}
        </div>
      ))}
    </fieldset>
  );
}

/** By keys that a model has chosen, so that no object will do. */
type Values = Map<string, string[]>;

function PartField({ id, part, shorten, values, other, onChange, onOther }: {
  id: string;
  part: Part;
  shorten: Shorten;
  values: string[];
  other: string;
  onChange: (values: string[]) => void;
  onOther: (text: string) => void;
}) {
  const options = part.options ?? [];
  if (options.length === 0)
    return (
      <label class="field">
        <Visible text={shorten(part.prompt)} />
        <textarea rows={2} value={other} required={part.required !== false} onInput={(event) => onOther(event.currentTarget.value)} />
      </label>
    );
  const pick = (value: string, on: boolean) => {
    if (!part.multi_select) return onChange([value]);
    onChange(on ? [...values, value] : values.filter((one) => one !== value));
  };
  return (
    <fieldset>
      <legend>
        <Visible text={shorten(part.prompt)} />
      </legend>
      {options.map((option) => {
        const on = values.includes(option.value);
        return (
          <div>
            <label class="choice">
              <input
                type={part.multi_select ? "checkbox" : "radio"}
                name={`${id}-${part.key}`}
                checked={on}
                onChange={(event) => pick(option.value, event.currentTarget.checked)}
              />
              <span>
                <Visible text={shorten(option.label)} />
                {option.description ? (
                  <span class="dim">
                    {" "}
                    <Visible text={shorten(option.description)} />
                  </span>
                ) : null}
              </span>
            </label>
            {option.allow_input && on ? (
              <input
                type="text"
                aria-label={`Text for ${option.label}`}
                value={other}
                onInput={(event) => onOther(event.currentTarget.value)}
              />
            ) : null}
          </div>
        );
      })}
    </fieldset>
  );
}

/** Returns the answer as an object of values by key; nothing if a part that must have one has none. */
function answerOf(parts: Part[], values: Values, others: Map<string, string>): string | undefined {
  const answer: [string, unknown][] = [];
  for (const part of parts) {
    const other = (others.get(part.key) ?? "").trim();
    const options = part.options ?? [];
    const chosen = (values.get(part.key) ?? []).map((value) => {
      const option = options.find((one) => one.value === value);
      return option?.allow_input && other ? other : value;
    });
    const given = options.length === 0 ? (other ? [other] : []) : chosen;
    if (given.length > 0) answer.push([part.key, part.multi_select ? given : given[0]]);
    else if (part.required !== false) return undefined;
  }
  return JSON.stringify(Object.fromEntries(answer));
}

/** The texts of a question that are shown at length. */
function textsOf(payload: Payload): string[] {
  if (payload.kind === "ask")
    return payload.questions.flatMap((part) => [
      part.prompt,
      ...(part.options ?? []).flatMap((option) => [option.label, option.description ?? ""]),
    ]);
  const details = payload.details as Record<string, unknown> | string | null | undefined;
  const remarks = typeof details === "object" && details !== null ? Object.values(details) : [details];
  const own = payload.kind === "approve" ? Object.values(payload.args) : [payload.prompt];
  return [...own, ...remarks].map(asText);
}

function kindOf(payload: Payload): string {
  if (payload.kind === "approve") return `Approve ${payload.tool_name}?`;
  return payload.kind === "confirm" ? "Confirm?" : "Question";
}

/** The rule that the answer "always" adds; empty: there is none. */
function ruleOf(payload: Payload): string {
  if (payload.kind !== "approve" || typeof payload.details !== "object" || payload.details === null) return "";
  const { rule } = payload.details as { rule?: unknown };
  return typeof rule === "string" && !hasOdd(rule) ? rule : "";
}

export function QuestionCard({ question, user, isOfPage = false, onAnswered }: {
  question: Question;
  user: User;
  /** The page is that of its session. */
  isOfPage?: boolean;
  onAnswered: (text: string, isProblem: boolean) => void;
}) {
  const [reason, setReason] = useState("");
  const [values, setValues] = useState<Values>(new Map());
  const [others, setOthers] = useState<Map<string, string>>(new Map());
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [isWhole, setIsWhole] = useState(false);
  const [texts, setTexts] = useState<Edited>();
  const { payload } = question.request;
  const isHidden = useMemo(() => textsOf(payload).some(isLong), [question.id]) && !isWhole;
  const shorten: Shorten = isHidden ? beginningOf : (text) => text;
  // The page reads the question again and again, and it does not change.
  const call = useMemo(
    () => (payload.kind === "approve" ? <Arguments tool={payload.tool_name} args={payload.args} shorten={shorten} /> : null),
    [question.id, isHidden],
  );
  const title = kindOf(payload);
  const session = question.asker.session ?? "";
  const place = isOfPage ? "" : ` (${session})`;
  const id = `question-${question.id}`;

  const answer = async (action: string, text: string, done: string, args?: Record<string, unknown>) => {
    setBusy(true);
    setProblem("");
    try {
      const body = { ...(text ? { text } : {}), ...(args ? { arguments: args } : {}) };
      const { state } = await post<{ state: string }>(`questions/${encodeURIComponent(question.id)}/${action}`, body);
      const waits = state === "waiting" ? "; the session reads it after its running turn" : "";
      onAnswered(`${done}: ${title}${place}${waits}`, false);
    } catch (error) {
      const gone = error instanceof ApiError && (error.status === 404 || error.status === 409);
      if (gone) onAnswered(`Your answer to "${title}"${place} was not used: ${error.message}`, true);
      else setProblem(textOf(error));
    } finally {
      setBusy(false);
    }
  };
  const approveEdited = () => {
    if (payload.kind !== "approve" || !texts) return;
    let args: Record<string, unknown>;
    try {
      args = edited(payload.args, texts);
    } catch (error) {
      setProblem(textOf(error));
      return;
    }
    void answer("edit", "", "Approved with your changes", args);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (payload.kind !== "ask") return;
    const text = answerOf(payload.questions, values, others);
    if (text === undefined) setProblem("Answer every question that is required.");
    else void answer("answer", text, "Answered");
  };

  return (
    <article class="card" aria-labelledby={id}>
      <header>
        <h2 id={id}>
          <Visible text={title} />
        </h2>
        <p class="dim facts">
          {isOfPage ? null : (
            <a href={`#/session/${encodeURIComponent(session)}`}>
              <Visible text={session} />
            </a>
          )}
          {question.asker.name || question.asker.user ? (
            <span>
              from <Visible text={question.asker.name || question.asker.user || ""} />
            </span>
          ) : null}
          <Age seconds={question.request.created_at} />
          {question.expires_at ? <span>expires {new Date(question.expires_at * 1000).toLocaleString()}</span> : null}
        </p>
      </header>
      {texts ? <CallEditor texts={texts} onChange={setTexts} /> : call}
      {isHidden ? (
        <p>
          Only the beginning is shown.{" "}
          <button type="button" onClick={() => setIsWhole(true)}>
            Show all of it
          </button>
        </p>
      ) : null}
      {payload.kind === "confirm" ? (
        <p class="plain">
          <Visible text={shorten(payload.prompt)} />
        </p>
      ) : null}
      {payload.kind !== "ask" && !texts ? <Details details={payload.details} shorten={shorten} /> : null}
      {payload.kind === "ask" ? (
        <form onSubmit={submit} id={`${id}-form`}>
          {payload.questions.map((part) => (
            <PartField
              key={part.key}
              id={id}
              part={part}
              shorten={shorten}
              values={values.get(part.key) ?? []}
              other={others.get(part.key) ?? ""}
              onChange={(chosen) => setValues(new Map(values).set(part.key, chosen))}
              onOther={(text) => setOthers(new Map(others).set(part.key, text))}
            />
          ))}
        </form>
      ) : null}
      {user.role === "operator" ? (
        <div class="actions">
          {payload.kind === "ask" ? (
            <button type="submit" form={`${id}-form`} class="primary" disabled={busy || isHidden}>
              Send answer
            </button>
          ) : texts ? (
            <>
              <button type="button" class="primary" disabled={busy} onClick={approveEdited}>
                Approve the changed call
              </button>
              <button type="button" disabled={busy} onClick={() => setTexts(undefined)}>
                Do not change
              </button>
            </>
          ) : (
            <>
              <button type="button" class="primary" disabled={busy || isHidden} onClick={() => void answer("approve", "", "Approved")}>
                {payload.kind === "approve" ? "Approve" : "Yes"}
              </button>
              {ruleOf(payload) ? (
                <ConfirmButton
                  text="Always"
                  question={`Approve, and from now on run what the rule "${ruleOf(payload)}" allows, for this user in this chat?`}
                  disabled={busy || isHidden}
                  onConfirm={() => void answer("always", "", "Approved, from now on")}
                />
              ) : null}
              {payload.kind === "approve" && isExact(payload.args) ? (
                <button type="button" disabled={busy || isHidden} onClick={() => setTexts(editable(payload.args))}>
                  Change
                </button>
              ) : null}
              <button type="button" class="danger" disabled={busy} onClick={() => void answer("deny", reason, "Denied")}>
                {payload.kind === "approve" ? "Deny" : "No"}
              </button>
            </>
          )}
          {payload.kind === "approve" && !texts ? (
            <label class="reason">
              <span>Reason, if you deny</span>
              <input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
            </label>
          ) : null}
          <ConfirmButton
            text="Withdraw"
            title="Ends the turn without an answer"
            question="End the turn without an answer?"
            disabled={busy}
            onConfirm={() => void answer("cancel", "", "Withdrawn")}
          />
        </div>
      ) : null}
      <Problem text={problem} />
    </article>
  );
}

interface Notice {
  text: string;
  isProblem: boolean;
}

/** How long a notice about a success covers a part of the page. */
const noticeTime = 10000;

/** Says what became of the answers. After an answer its card disappears, so that the focus needs a place. */
export function useNotices() {
  const [notices, setNotices] = useState<Notice[]>([]);
  const place = useRef<HTMLHeadingElement>(null);
  const add = (text: string, isProblem: boolean) => {
    const notice = { text, isProblem };
    setNotices((old) => [notice, ...old].slice(0, 3));
    if (!isProblem) window.setTimeout(() => setNotices((old) => old.filter((one) => one !== notice)), noticeTime);
    // The notices stay in view: the place in a list of questions does not have to be found again.
    place.current?.focus({ preventScroll: true });
  };
  const view = (
    <div role="status" class="notices">
      {notices.map((one) => (
        <p class={one.isProblem ? "problem" : "success"}>
          <Visible text={one.text} />
        </p>
      ))}
    </div>
  );
  return { add, place, view };
}

export function QuestionsPage({ user, onLogout, onCount }: {
  user: User;
  onLogout: () => void;
  onCount: (count: number) => void;
}) {
  const open = useLoaded(
    () => list<Question>("questions"),
    "questions",
    onLogout,
    () => listPause(2000),
    ["questions"],
  );
  const notices = useNotices();
  const count = open.value?.all.length;
  useEffect(() => {
    if (count !== undefined) onCount(count);
  }, [count]);
  return (
    <>
      <h1 tabIndex={-1} ref={notices.place}>
        Questions
      </h1>
      {user.role === "viewer" ? <p class="dim">You are logged in as a viewer, who cannot answer.</p> : null}
      <Problem text={open.problem} />
      <MissingParts of={open.value} />
      {notices.view}
      {count === 0 ? (
        <div class="empty">
          <p>No question waits for an answer. Before a session writes a file or runs a command that no rule allows, it asks here.</p>
          {user.role === "operator" ? (
            <button type="button" class="primary" onClick={() => (location.hash = "#/new")}>
              New session
            </button>
          ) : null}
        </div>
      ) : null}
      {open.value?.all.map((question) => (
        <Guard key={question.id} value={question}>
          <QuestionCard
            question={question}
            user={user}
            onAnswered={(text, isProblem) => {
              notices.add(text, isProblem);
              open.reload();
            }}
          />
        </Guard>
      ))}
    </>
  );
}
