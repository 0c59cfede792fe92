// How to test an agent: no network, no waiting, no test framework needed. cubepi::testing is installed with CubePi.
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/cubepi.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>
#include <cubepi/testing/store_conformance.hpp>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

using namespace cubepi;
using cubepi::testing::ManualClock;
using cubepi::testing::MemoryResponse;
using cubepi::testing::MemoryTransport;

int failures = 0;
void expect(bool holds, const std::string& what) {
    std::cout << (holds ? "ok      " : "FAILED  ") << what << '\n';
    if (!holds) ++failures;
}

struct AddArgs {
    int a;
    int b;
};
AgentTool add_tool() {
    return tool<AddArgs>("add", "Adds two numbers.",
                         [](AddArgs args) { return std::to_string(args.a + args.b); });
}

/// The model is scripted; the steps inspect the requests.
void the_model_is_a_script() {
    FauxProvider faux;
    faux.set_responses({
        faux_assistant_message(faux_tool_call("add", {{"a", 2}, {"b", 3}}), stop_reason::tool_use),
        [](const ModelRequest& request) {
            return faux_assistant_message("It is " + request.messages.back().text());
        },
    });
    Agent agent(AgentOptions{.model = faux.model(), .tools = {add_tool()}});
    const RunResult result = run(agent.prompt("2 + 3?"));
    expect(result.text() == "It is 5", "the tool's result reaches the model");
    expect(faux.call_count() == 2, "the model is called twice");
}

struct WaitArgs {};
Task<std::string> wait_a_day(WaitArgs, ToolContext& context) {
    co_await context.runtime().clock->sleep_for(std::chrono::hours(24));
    co_return "done";
}

/// Time is a parameter: days pass instantly.
void time_stands_still_until_told() {
    auto clock = std::make_shared<ManualClock>();
    FauxProvider faux;
    faux.set_responses({
        faux_assistant_message(faux_tool_call("wait"), stop_reason::tool_use),
        "It did not answer in time.",
    });
    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool<WaitArgs>("wait", "Waits.", wait_a_day).timeout(std::chrono::minutes(1))},
        .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock)),
    });
    const RunResult result = cubepi::testing::run_advancing(*clock, agent.prompt("Wait"));
    const ToolResultMessage* waited = result.new_messages[2].tool_result();
    expect(result && waited != nullptr && waited->is_error, "a tool that hangs meets its limit");
}

/// The network is a parameter: a provider uses an in-memory transport.
void the_network_is_a_script() {
    std::vector<MemoryResponse> answers;
    answers.push_back(MemoryResponse(429, "{}").with_header("retry-after", "20"));
    answers.push_back(
        MemoryResponse(200)
            .with_event(R"({"id":"r1","choices":[{"index":0,"delta":{"content":"Hello"}}]})")
            .with_event(R"({"id":"r1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})")
            .with_event("[DONE]")
            .in_pieces_of(7));  // the result must not depend on how the bytes are split
    auto clock = std::make_shared<ManualClock>();
    auto transport = std::make_shared<MemoryTransport>(std::move(answers), clock);
    OpenAIProvider openai({.api_key = "for-a-test", .base_url = "http://model.test/v1"});
    Agent agent(AgentOptions{
        .model = openai.model("some-model"),
        .runtime =
            std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport)),
    });
    int retries = 0;
    agent.subscribe([&](const AgentEvent& event) {
        if (auto* notice = event.get_if<NoticeEvent>()) retries += notice->notice.code == "retry";
    });
    const RunResult result = cubepi::testing::run_advancing(*clock, agent.prompt("Hi"));
    expect(result.text() == "Hello" && retries == 1, "a 429 is retried after 20 s, and seen");
    expect(transport->requests().at(1).url == "http://model.test/v1/chat/completions",
           "the request goes where it should");
    expect(transport->open_exchanges() == 0, "nothing is left open");
}

/// A correct custom store passes this suite.
void a_store_is_right() {
    cubepi::testing::StoreUnderTest store;
    store.make = [] { return std::make_shared<MemoryCheckpointer>(); };
    for (const auto& failure : cubepi::testing::check_store(store)) {
        expect(false, failure.check + ": " + failure.text);
    }
    expect(true, std::to_string(cubepi::testing::store_checks().size()) + " checks of the store");
}

int main() {
    the_model_is_a_script();
    time_stands_still_until_told();
    the_network_is_a_script();
    a_store_is_right();
    return failures == 0 ? 0 : 1;
}
