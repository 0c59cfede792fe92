// pi-agent-core, with the scripted model that pi-ai ships.
import { Agent } from "@earendil-works/pi-agent-core";
import { fauxAssistantMessage, fauxText, fauxToolCall, registerFauxProvider, Type } from "@earendil-works/pi-ai";
import { answer, measure } from "./measure.mjs";

const faux = registerFauxProvider({ tokenSize: { min: 1, max: 1 } });

const echo = {
  name: "echo",
  label: "Echo",
  description: "Says it again.",
  parameters: Type.Object({ value: Type.String() }),
  execute: async (id, { value }) => ({ content: [{ type: "text", text: value }], details: undefined }),
};

await measure({
  events: 0,
  servesAll: false,
  agent() {
    const agent = new Agent({ initialState: { systemPrompt: "", model: faux.getModel(), tools: [echo] } });
    agent.subscribe(() => {
      ++this.events;
    });
    return agent;
  },
  script(runs) {
    const first = fauxAssistantMessage([fauxText("Look"), fauxToolCall("echo", { value: "a" }, { id: "c1" })], { stopReason: "toolUse" });
    faux.setResponses(Array.from({ length: runs }, () => [first, fauxAssistantMessage(answer)]).flat());
  },
  long(deltas) {
    faux.setResponses([fauxAssistantMessage("x".repeat(4 * deltas))]);
  },
  run: (agent) => agent.prompt("hi"),
});
