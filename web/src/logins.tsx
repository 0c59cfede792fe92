// Who is logged in to the console.

import { useState } from "preact/hooks";
import { type Login, get, post, textOf } from "./api";
import { Age, ConfirmButton, Problem, Visible, useLoaded } from "./parts";
import { useNotices } from "./questions";

export function LoginsPage({ onLogout }: { onLogout: () => void }) {
  const logins = useLoaded(() => get<{ logins: Login[] }>("logins"), "logins", onLogout);
  const notices = useNotices();
  const [busy, setBusy] = useState(false);
  const end = async (login: Login) => {
    setBusy(true);
    try {
      await post(`logins/${encodeURIComponent(login.id)}/end`);
      notices.add(`Ended: ${login.name}`, false);
    } catch (error) {
      notices.add(textOf(error), true);
    } finally {
      setBusy(false);
      logins.reload();
    }
  };
  return (
    <>
      <h1 tabIndex={-1} ref={notices.place}>
        Logins
      </h1>
      <Problem text={logins.problem} />
      {notices.view}
      <ul class="list">
        {logins.value?.logins.map((login) => (
          <li key={login.id}>
            <span class="grow">
              <Visible text={login.name} /> <span class="dim">({login.role})</span>
            </span>
            <span class="dim">
              since <Age seconds={login.since} />
            </span>
            <span class="dim">
              {login.used === undefined ? (
                "a link, not opened yet"
              ) : (
                <>
                  used <Age seconds={login.used} />
                </>
              )}
            </span>
            {login.current ? (
              <span class="state">this one</span>
            ) : (
              <ConfirmButton text="End" question="End this login?" disabled={busy} onConfirm={() => void end(login)} />
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
