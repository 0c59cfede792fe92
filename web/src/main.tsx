// The web console: who is logged in, and which page is shown.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, type Question, type User, currentUser, list, logIn, logOut, textOf } from "./api";
import "./app.css";
import { NewSessionPage } from "./chat";
import { GatewayPage } from "./gateway";
import { listPause, onLists, useListStream } from "./lists";
import { LoginsPage } from "./logins";
import { Problem, Visible } from "./parts";
import { QuestionsPage } from "./questions";
import { SessionPage, SessionsPage } from "./sessions";

/** The secret of a link is removed from the address, so that it is neither in the history nor in a bookmark. */
function takeLink(text: string): string | undefined {
  return /#login=([0-9a-f]{64})$/.exec(text)?.[1];
}

function LoginPage({ problem, onUser }: { problem: string; onUser: (user: User) => void }) {
  const [text, setText] = useState("");
  const [failure, setFailure] = useState(problem);
  const enter = async (event: Event) => {
    event.preventDefault();
    const link = takeLink(text.trim());
    if (!link) return setFailure("This is not a link of the console.");
    try {
      onUser(await logIn(link));
    } catch (error) {
      setFailure(textOf(error));
    }
  };
  return (
    <main class="login">
      <h1>CubePi console</h1>
      {failure ? (
        <p class="problem" role="alert">
          {failure}
        </p>
      ) : null}
      <p>Run this command on the host of the gateway, and open the link that it prints, or paste it here:</p>
      <pre>
        <code>cubepi gateway console</code>
      </pre>
      <p class="dim">
        If you have started the console with <code>cubepi web</code>, run that in the same directory again.
      </p>
      <form class="row" onSubmit={(event) => void enter(event)}>
        <label class="grow">
          <span>Link</span>
          <input type="text" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
    </main>
  );
}

function useAddress(): string {
  const [address, setAddress] = useState(location.hash);
  useEffect(() => {
    const change = () => setAddress(location.hash);
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  return address;
}

/** Counts the open questions for the title while another page is shown. */
function useCount(isCounted: boolean, onCount: (count: number) => void) {
  useEffect(() => {
    if (!isCounted) return;
    const count = () => {
      if (document.hidden) return;
      list<Question>("questions").then(
        (read) => onCount(read.all.length),
        () => {},
      );
    };
    let timer = 0;
    const again = () => {
      count();
      timer = window.setTimeout(again, listPause(5000));
    };
    again();
    const forget = onLists(["questions"], count);
    return () => {
      forget();
      window.clearTimeout(timer);
    };
  }, [isCounted]);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function Console({ user, onLogout }: { user: User; onLogout: () => void }) {
  const address = useAddress();
  const [count, setCount] = useState(0);
  const [problem, setProblem] = useState("");
  const leave = async () => {
    try {
      await logOut();
      onLogout();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) onLogout();
      else setProblem(`You are still logged in: ${textOf(error)}`);
    }
  };
  const session = /^#\/session\/(.+)$/.exec(address)?.[1];
  const named = /^#\/(sessions|gateway|new|logins)$/.exec(address)?.[1];
  const page = session ? "session" : (named ?? "questions");
  useCount(page !== "questions", setCount);
  useListStream(page !== "session");
  useEffect(() => {
    document.title = (count > 0 ? `(${count}) ` : "") + "CubePi console";
  }, [count]);
  const tab = (name: string, text: string, isHere: boolean) => (
    <a href={`#/${name}`} aria-current={isHere ? "page" : undefined}>
      {text}
    </a>
  );
  return (
    <>
      <header class="top">
        <a
          class="skip"
          href="#content"
          onClick={(event) => {
            event.preventDefault();
            document.querySelector<HTMLElement>("main")?.focus();
          }}
        >
          Skip to the content
        </a>
        <span class="brand">CubePi</span>
        <nav aria-label="Pages">
          {tab("questions", count > 0 ? `Questions (${count})` : "Questions", page === "questions")}
          {tab("sessions", "Sessions", ["sessions", "session", "new"].includes(page))}
          {tab("gateway", "Gateway", page === "gateway")}
          {user.role === "operator" ? tab("logins", "Logins", page === "logins") : null}
        </nav>
        <span class="who">
          <span class="dim">
            <Visible text={user.name} /> ({user.role})
          </span>
          <button type="button" onClick={() => void leave()}>
            Log out
          </button>
        </span>
      </header>
      <main id="content" tabIndex={-1}>
        <Problem text={problem} />
        {page === "questions" ? <QuestionsPage user={user} onLogout={onLogout} onCount={setCount} /> : null}
        {page === "sessions" ? <SessionsPage user={user} onLogout={onLogout} /> : null}
        {page === "session" ? <SessionPage id={decoded(session ?? "")} user={user} onLogout={onLogout} /> : null}
        {page === "new" ? <NewSessionPage user={user} /> : null}
        {page === "logins" ? <LoginsPage onLogout={onLogout} /> : null}
        {page === "gateway" ? <GatewayPage user={user} onLogout={onLogout} /> : null}
      </main>
    </>
  );
}

function App({ start, startProblem }: { start?: User; startProblem: string }) {
  const [user, setUser] = useState(start);
  const [problem, setProblem] = useState(startProblem);
  if (!user) return <LoginPage key={problem} problem={problem} onUser={setUser} />;
  const onLogout = () => {
    setProblem("You are not logged in any longer.");
    setUser(undefined);
  };
  return <Console user={user} onLogout={onLogout} />;
}

async function begin() {
  const link = takeLink(location.hash);
  let user: User | undefined;
  let problem = "";
  let keepsLink = false;
  try {
    user = link ? await logIn(link) : await currentUser();
  } catch (error) {
    // Without a link, not to be logged in is no news.
    if (link || !(error instanceof ApiError) || error.status !== 401) problem = textOf(error);
    const isUnused = error instanceof ApiError && (error.status === 0 || error.status === 503);
    if (link) user = await currentUser().catch(() => undefined);
    // The link is still good: the page can be loaded again.
    if (isUnused && !user) keepsLink = true;
  }
  if (link && !keepsLink) history.replaceState(null, "", location.pathname);
  const place = document.getElementById("app");
  if (place) render(<App start={user} startProblem={problem} />, place);
}

// The link of another user, opened in a tab that is open.
window.addEventListener("hashchange", () => {
  if (takeLink(location.hash)) location.reload();
});
void begin();
