// The agent of Vercel's ai package, with the least model that its interface allows.
import { tool, ToolLoopAgent } from "ai";
import { z } from "zod";
import { answer, measure } from "./measure.mjs";

const pieces = answer.match(/.{4}/g);
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const echo = tool({ description: "Says it again.", inputSchema: z.object({ value: z.string() }), execute: async ({ value }) => value });

const script = { calls: true, pieces };

function* parts(prompt) {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "1" };
  if (script.calls && prompt.at(-1).role !== "tool") {
    const input = '{"value":"a"}';
    yield { type: "text-delta", id: "1", delta: "Look" };
    yield { type: "text-end", id: "1" };
    yield { type: "tool-input-start", id: "c1", toolName: "echo" };
    yield { type: "tool-input-delta", id: "c1", delta: input };
    yield { type: "tool-input-end", id: "c1" };
    yield { type: "tool-call", toolCallId: "c1", toolName: "echo", input };
    yield { type: "finish", usage, finishReason: { unified: "tool-calls", raw: "tool_calls" } };
    return;
  }
  for (const delta of script.pieces) yield { type: "text-delta", id: "1", delta };
  yield { type: "text-end", id: "1" };
  yield { type: "finish", usage, finishReason: { unified: "stop", raw: "stop" } };
}

const model = {
  specificationVersion: "v3",
  provider: "scripted",
  modelId: "m",
  supportedUrls: {},
  doStream: async ({ prompt }) => ({ stream: ReadableStream.from(parts(prompt)) }),
};

await measure({
  events: 0,
  servesAll: true,
  agent: () => new ToolLoopAgent({ model, tools: { echo } }),
  script() {
    script.calls = true;
    script.pieces = pieces;
  },
  long(deltas) {
    script.calls = false;
    script.pieces = Array(deltas).fill("xxxx");
  },
  async run(agent) {
    const result = await agent.stream({ prompt: "hi" });
    for await (const part of result.fullStream) if (part) ++this.events;
    return (await result.response).messages;
  },
});
