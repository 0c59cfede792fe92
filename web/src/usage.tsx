// What users and chats have used today of their limits.

import { useEffect, useState } from "preact/hooks";
import { type Usage, type Use, get } from "./api";
import { Problem, Visible, countOf, useLoaded } from "./parts";

const shown = 50;

/** Returns the text that the user has entered, a moment after the last key. */
export function useEntered(): { text: string; entered: string; set: (text: string) => void } {
  const [text, set] = useState("");
  const [entered, setEntered] = useState("");
  useEffect(() => {
    const timer = window.setTimeout(() => setEntered(text.trim()), 300);
    return () => window.clearTimeout(timer);
  }, [text]);
  return { text, entered, set };
}

function money(usd: number): string {
  return `$${usd.toFixed(usd > 0 && usd < 1 ? 4 : 2)}`;
}

function Amount({ used, most, unit, text }: { used: number; most?: number; unit: string; text: (value: number) => string }) {
  if (used === 0 && most === undefined) return null;
  return (
    <span class="dim">
      {text(used)}
      {most === undefined ? "" : ` of ${text(most)}`}
      {unit}
    </span>
  );
}

function UseRow({ use }: { use: Use }) {
  const [kind = "", channel = "", ...id] = use.counter.split(":");
  const count = (value: number) => value.toLocaleString();
  const isReached =
    use.messages >= (use.most_messages ?? Infinity) ||
    use.tokens >= (use.most_tokens ?? Infinity) ||
    use.cost >= (use.most_cost ?? Infinity);
  return (
    <li>
      <span class="grow">
        {id.length > 0 ? <Visible text={id.join(":")} /> : <strong>All users and chats</strong>}
        {id.length > 0 ? (
          <span class="dim block">
            {kind} of <Visible text={channel} />
          </span>
        ) : null}
      </span>
      {isReached ? <span class="state waiting">limit reached</span> : null}
      <Amount used={use.messages} most={use.most_messages} unit=" messages" text={count} />
      <Amount used={use.tokens} most={use.most_tokens} unit=" tokens" text={count} />
      <Amount used={use.cost} most={use.most_cost} unit="" text={money} />
    </li>
  );
}

export function UsageView({ onLogout }: { onLogout: () => void }) {
  const search = useEntered();
  const read = () => get<Usage>(`usage?limit=${shown}&search=${encodeURIComponent(search.entered)}`);
  const usage = useLoaded(read, `usage ${search.entered}`, onLogout, () => 5000);
  const { value } = usage;
  return (
    <section aria-labelledby="used">
      <h2 id="used">Used today</h2>
      {value ? (
        <p class="dim">
          The day is <time>{value.day}</time>; the counters begin at zero at {new Date(value.ends * 1000).toLocaleString()}.
        </p>
      ) : null}
      <div class="row" role="search">
        <label class="grow">
          <span class="dim">Find a user or a chat by id</span>
          <input type="search" value={search.text} onInput={(event) => search.set(event.currentTarget.value)} />
        </label>
      </div>
      <Problem text={usage.problem} />
      {value?.used.length === 0 ? <p class="empty">Nothing was used{search.entered ? " by that id" : ""}.</p> : null}
      <ul class="list" aria-label="Use">
        {value?.used.map((use) => (
          <UseRow key={use.counter} use={use} />
        ))}
      </ul>
      {value?.has_more ? <p class="dim">These are the {countOf(value.used.length, "counter")} with the highest use.</p> : null}
    </section>
  );
}
