// The routes of the gateway. All addresses are relative to the page, which a proxy may serve below a prefix.

export interface User {
  role: "viewer" | "operator";
  name: string;
  csrf: string;
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

export interface HeldList {
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

export interface Message {
  role: "user" | "assistant" | "tool";
  text: string;
  call?: string;
  name?: string;
  is_error?: boolean;
  truncated?: boolean;
  calls?: { id: string; name: string }[];
  error?: string;
  entry: number;
  date: string;
}

export interface History {
  session: string;
  state: "running" | "waiting" | "pending" | "idle";
  pending: number;
  questions: { request_id?: string }[];
  messages: Message[];
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

async function send(method: string, path: string, body?: unknown): Promise<unknown> {
  const headers: Record<string, string> = { "x-csrf-token": csrf };
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
  csrf = (user as User).csrf;
  return user as User;
}

export async function logIn(link: string): Promise<User> {
  return enter(await send("POST", "login", { link }));
}

export async function currentUser(): Promise<User> {
  return enter(await send("GET", "session"));
}

export async function logOut(): Promise<void> {
  await send("POST", "logout");
}

export async function get<T>(path: string): Promise<T> {
  return (await send("GET", `v1/admin/${path}`)) as T;
}

export async function post(path: string, body: unknown = {}): Promise<void> {
  const before = csrf;
  try {
    await send("POST", `v1/admin/${path}`, body);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403) throw error;
    // Another tab may have logged in meanwhile, so that this one has the token of a session that has ended.
    await currentUser();
    if (csrf === before) throw error;
    await send("POST", `v1/admin/${path}`, body);
  }
}

/** Reads a list with all of its pages. */
export async function list<T>(name: string): Promise<T[]> {
  const all: T[] = [];
  let after = "";
  do {
    const query = after ? `?after=${encodeURIComponent(after)}` : "";
    const page = await get<Record<string, unknown>>(name + query);
    all.push(...(page[name] as T[]));
    after = (page.next as string | undefined) ?? "";
  } while (after);
  return all;
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
