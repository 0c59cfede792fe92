// The routes of the gateway. All addresses are relative to the page, which a proxy may serve below a prefix.

export interface User {
  /** Of the login. */
  id: string;
  role: "viewer" | "operator";
  name: string;
  csrf: string;
}

/** One of the gateways that share their messages by a database. */
export interface ClusterGateway {
  id: string;
  host: string;
  pid: number;
  here: boolean;
  state: string;
  version: string;
  started: number;
  running_turns: number;
  waiting_messages: number;
  held: number;
  problem?: string;
}

export interface Status {
  state: string;
  pid: number;
  version: string;
  started: number;
  model: string;
  workspaces: string;
  channels: string[];
  problem?: string;
  running_turns: number;
  waiting_messages: number;
  held: number;
  limits: { key: string; value: string }[];
  gateways?: ClusterGateway[];
  configurations_differ?: boolean;
}

/** What a user, a chat or all of them have used today, and their limits. */
export interface Use {
  counter: string;
  messages: number;
  tokens: number;
  cost: number;
  most_messages?: number;
  most_tokens?: number;
  most_cost?: number;
}

export interface Usage {
  day: string;
  ends: number;
  used: Use[];
  has_more: boolean;
}

export interface BusySession {
  session: string;
  running: boolean;
  waiting: number;
  steering: number;
}

export interface Held {
  id: string;
  channel: string;
  chat: string;
  date: string;
  text: string;
}

/** What a list does not have: that of databases which cannot be read, and of gateways which did not answer. */
export interface Missing {
  unread_databases?: string[];
  unanswered?: string[];
}

export interface HeldList extends Missing {
  messages: Held[];
  answers: Held[];
}

export interface Option {
  label: string;
  value: string;
  description?: string;
  allow_input?: boolean;
}

export interface Part {
  key: string;
  prompt: string;
  options?: Option[] | null;
  multi_select?: boolean;
  required?: boolean;
}

export type Payload =
  | { kind: "approve"; tool_name: string; args: Record<string, unknown>; details?: unknown }
  | { kind: "confirm"; prompt: string; details?: unknown }
  | { kind: "ask"; questions: Part[] };

export interface Question {
  id: string;
  asker: { channel?: string; chat?: string; user?: string; name?: string; session?: string };
  request: { payload: Payload; created_at: number };
  summary: string;
  expires_at?: number;
}

export interface Call {
  id: string;
  name: string;
  /** JSON, its beginning */
  arguments?: string;
}

/** What a running turn has produced and not stored yet. */
export interface Live {
  text: string;
  thinking: string;
  truncated: boolean;
  calls: Call[];
}

export interface Message {
  role: "user" | "assistant" | "tool" | "command";
  text: string;
  /** The id that its sender gave it. */
  message?: string;
  from?: string;
  call?: string;
  name?: string;
  is_error?: boolean;
  truncated?: boolean;
  thinking?: string;
  calls?: Call[];
  /** The numbers of its pictures in the entry. */
  images?: number[];
  error?: string;
  entry: number;
  date: string;
}

/** What the console's channel was told and the history does not have. */
export interface Notice {
  /** A file that the session has sent. */
  file?: { id: string; name: string; size: number; is_image: boolean };
  text: string;
  is_error: boolean;
  date: string;
}

export interface StoredSession {
  session: string;
  title: string;
  forked_from: string;
  state: "running" | "pending" | "idle";
  used: number;
  messages: number;
}

export interface StoredPage extends Missing {
  sessions: StoredSession[];
  next?: string;
}

export interface Spending {
  calls: number;
  tokens_in: number;
  tokens_out: number;
  cost: number;
  unpriced: number;
}

export interface Trace {
  id: string;
  status: string;
  facts: string;
  input: string;
  start: number;
}

export interface Login {
  id: string;
  name: string;
  role: string;
  since: number;
  /** Missing: a link that was not opened yet. */
  used?: number;
  current: boolean;
}

export interface Sent {
  session: string;
  message: string;
  channel: string;
  /** What `@` has named. */
  attached?: string;
}

export interface History {
  session: string;
  state: "running" | "waiting" | "pending" | "idle";
  pending: number;
  questions: { request_id?: string }[];
  messages: Message[];
  live?: Live;
  notices?: Notice[];
  before?: number;
}

/** A response that is not a success. Status 0: the gateway was not reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let csrf = "";
let who = "";

async function send(method: string, path: string, body?: unknown, more: Record<string, string> = {}): Promise<unknown> {
  const headers: Record<string, string> = { "x-csrf-token": csrf, ...more };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    });
  } catch {
    throw new ApiError(0, "the gateway does not answer; it may be starting again");
  }
  const text = await response.text();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (response.ok) return value;
  const problem = (value as { error?: { message?: string } } | undefined)?.error?.message;
  throw new ApiError(response.status, problem ?? `the gateway answered with the status ${response.status}`);
}

function enter(user: unknown): User {
  const entered = user as User;
  csrf = entered.csrf;
  who = `${entered.role} ${entered.name}`;
  return entered;
}

export async function logIn(link: string): Promise<User> {
  return enter(await send("POST", "login", undefined, { "x-console-link": link }));
}

export async function currentUser(): Promise<User> {
  return enter(await send("GET", "session"));
}

export async function logOut(): Promise<void> {
  await change("logout");
}

export async function get<T>(path: string): Promise<T> {
  return (await send("GET", `v1/admin/${path}`)) as T;
}

async function change(path: string, body?: unknown): Promise<unknown> {
  const before = csrf;
  const earlier = who;
  try {
    return await send("POST", path, body);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403) throw error;
    // Another tab may have logged in meanwhile, so that this one has the token of a session that has ended.
    await currentUser();
    if (csrf === before) throw error;
    if (who !== earlier) {
      location.reload();
      throw new ApiError(403, "another user has logged in in this browser; nothing was changed");
    }
    return await send("POST", path, body);
  }
}

export async function post<T = unknown>(path: string, body: unknown = {}): Promise<T> {
  return (await change(`v1/admin/${path}`, body)) as T;
}

/** The path of a session below the routes of operators. */
export function sessionPath(id: string): string {
  return `sessions/${encodeURIComponent(id)}`;
}

/** The address of a session in this page. */
export function sessionAddress(id: string): string {
  return `#/session/${encodeURIComponent(id)}`;
}

export interface Listed<T> extends Missing {
  all: T[];
}

/** Reads a list with all of its pages. */
export async function list<T>(name: string): Promise<Listed<T>> {
  const read: Listed<T> = { all: [] };
  let after = "";
  do {
    const query = after ? `?after=${encodeURIComponent(after)}` : "";
    const page = await get<Record<string, unknown> & Missing>(name + query);
    read.all.push(...(page[name] as T[]));
    if (page.unread_databases) read.unread_databases = page.unread_databases;
    if (page.unanswered) read.unanswered = page.unanswered;
    after = (page.next as string | undefined) ?? "";
  } while (after);
  return read;
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
