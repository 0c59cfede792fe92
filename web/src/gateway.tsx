// The state of the gateway, and the messages that wait for a decision.

import { useState } from "preact/hooks";
import { type ClusterGateway, type Held, type HeldList, type Status, type User, get, post, textOf } from "./api";
import { Age, ConfirmButton, MissingParts, Problem, Visible, countOf, useLoaded } from "./parts";
import { useNotices } from "./questions";
import { UsageView } from "./usage";

interface Shown {
  status: Status;
  held: HeldList;
}

async function read(): Promise<Shown> {
  const [status, held] = await Promise.all([get<Status>("status"), get<HeldList>("held")]);
  return { status, held };
}

function Hosts({ gateways, differ }: { gateways: ClusterGateway[]; differ: boolean }) {
  return (
    <>
      <h2>Hosts</h2>
      {differ ? <Problem text="The configurations of the gateways differ." /> : null}
      <ul class="list">
        {gateways.map((one) => (
          <li key={one.id} class="held">
            <span class="facts">
              <strong>
                <Visible text={one.host} />
              </strong>
              <span class={`state ${one.state}`}>{one.state}</span>
              {one.here ? <span class="dim">this one</span> : null}
              <Age seconds={one.started} />
            </span>
            <p class="plain">
              {countOf(one.running_turns, "turn")} running, {countOf(one.waiting_messages, "message")} waiting, {one.held} held; version <Visible text={one.version} />, process{" "}
              {one.pid}
            </p>
            {one.problem ? <Problem text={one.problem} /> : null}
          </li>
        ))}
      </ul>
    </>
  );
}

export function GatewayPage({ user, onLogout }: { user: User; onLogout: () => void }) {
  const shown = useLoaded(read, "gateway", onLogout);
  const notices = useNotices();
  const [busy, setBusy] = useState(false);
  const may = user.role === "operator";
  const act = async (path: string, done: string) => {
    setBusy(true);
    try {
      await post(path);
      notices.add(done, false);
    } catch (error) {
      notices.add(textOf(error), true);
    } finally {
      setBusy(false);
      shown.reload();
    }
  };
  const status = shown.value?.status;
  const held = shown.value?.held;
  const row = (one: Held, kind: string) => (
    <li key={one.id} class="held">
      <span class="dim facts">
        <span>{kind}</span>
        <Visible text={`${one.channel} ${one.chat}`} />
        <Age seconds={Date.parse(one.date) / 1000} />
      </span>
      <p class="plain">
        <Visible text={one.text} />
      </p>
      {may ? (
        <div class="actions">
          <button type="button" disabled={busy} onClick={() => void act(`held/${encodeURIComponent(one.id)}/release`, "Released.")}>
            {kind === "answer" ? "Send" : "Process"}
          </button>
          <ConfirmButton
            text="Discard"
            question="Discard it for ever?"
            disabled={busy}
            onConfirm={() => void act(`held/${encodeURIComponent(one.id)}/discard`, "Discarded.")}
          />
        </div>
      ) : null}
    </li>
  );
  return (
    <>
      <h1 tabIndex={-1} ref={notices.place}>
        Gateway
      </h1>
      <Problem text={shown.problem} />
      {notices.view}
      {status ? (
        <section class="card" aria-label="State">
          {status.problem ? <Problem text={status.problem} /> : null}
          <dl class="arguments">
            <dt>State</dt>
            <dd>
              <span class={`state ${status.state}`}>{status.state}</span>
            </dd>
            <dt>Started</dt>
            <dd>
              <Age seconds={status.started} />
            </dd>
            <dt>Channels</dt>
            <dd>{status.channels.join(", ") || "none"}</dd>
            <dt>Turns</dt>
            <dd>
              {status.running_turns} running, {countOf(status.waiting_messages, "message")} waiting
            </dd>
            <dt>Model</dt>
            <dd>
              <Visible text={status.model} />
            </dd>
            <dt>Workspaces</dt>
            <dd>
              <code>
                <Visible text={status.workspaces} />
              </code>
            </dd>
            <dt>Version</dt>
            <dd>
              {status.version}, process {status.pid}
            </dd>
          </dl>
          {may ? (
            <div class="actions">
              <button type="button" disabled={busy} onClick={() => void act("reload", "The gateway uses the new configuration.")}>
                Reload configuration
              </button>
              <ConfirmButton
                text="Drain"
                question="End the gateway when its running turns have ended?"
                disabled={busy}
                onConfirm={() => void act("drain", "The gateway ends when its running turns have ended.")}
              />
            </div>
          ) : null}
        </section>
      ) : null}
      {status?.gateways ? <Hosts gateways={status.gateways} differ={status.configurations_differ === true} /> : null}
      {status?.limits.some((one) => one.key.startsWith("gateway.limits.")) ? <UsageView onLogout={onLogout} /> : null}
      {status ? (
        <>
          <h2>Limits</h2>
          <dl class="arguments" aria-label="Limits">
            {status.limits.map((one) => (
              <>
                <dt key={one.key}>
                  <code>{one.key}</code>
                </dt>
                <dd>{one.value}</dd>
              </>
            ))}
          </dl>
        </>
      ) : null}
      <h2>Held messages and answers</h2>
      <MissingParts of={held} />
      {held && held.messages.length + held.answers.length === 0 ? <p class="empty">Nothing is held.</p> : null}
      <ul class="list">
        {held?.messages.map((one) => row(one, "message"))}
        {held?.answers.map((one) => row(one, "answer"))}
      </ul>
    </>
  );
}
