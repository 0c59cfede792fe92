// Invalid UTF-8 in the output of tools.

#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

const std::string invalid = "caf\xE9 \xF0\x9F";
const std::string sanitized = "caf\xEF\xBF\xBD \xEF\xBF\xBD";

/// All places where the output of a call is visible.
struct Seen {
    std::vector<std::string> texts;
    std::vector<Json> details;
};

Seen everything(const Recorder& recorder, const Agent& agent, const Requests& requests,
                Checkpointer& store) {
    Seen seen;
    const auto add = [&](const Message& message) {
        const ToolResultMessage* result = message.tool_result();
        if (!result) return;
        seen.texts.push_back(message.text());
        seen.details.push_back(result->details);
    };
    for (const AgentEvent& event : recorder.events) {
        if (const auto* end = event.get_if<ToolExecutionEndEvent>()) {
            seen.texts.push_back(end->result.text());
            seen.details.push_back(end->result.details);
        }
        if (const auto* start = event.get_if<MessageStartEvent>()) add(start->message);
        if (const auto* end = event.get_if<MessageEndEvent>()) add(end->message);
    }
    for (const Message& message : agent.state().messages) add(message);
    for (const Message& message : requests.seen.back().messages) add(message);
    for (const Message& message : stored(store, "t")) add(message);
    return seen;
}

Json details_with(const std::string& text, const std::string& key) {
    JsonObject inner;
    inner[key] = JsonArray{Json(text), Json(1)};
    JsonObject details;
    details["path"] = text;
    details["inner"] = std::move(inner);
    return details;
}

Json invalid_details() { return details_with(invalid, "key\xFF"); }
Json sanitized_details() { return details_with(sanitized, "key\xEF\xBF\xBD"); }

void expect_same_everywhere(AgentTool tool, AfterToolCallHook after, bool with_details) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer(calling({echo_call("a")})), requests.answer("done")});
    Agent agent({.model = faux.model(),
                 .tools = {std::move(tool)},
                 .after_tool_call = std::move(after),
                 .checkpointer = store,
                 .thread_id = "t"});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    const Seen seen = everything(recorder, agent, requests, *store);
    EXPECT_EQ(seen.texts.size(), 6u);
    for (const std::string& text : seen.texts) EXPECT_EQ(text, sanitized);
    if (!with_details) return;
    for (const Json& details : seen.details) EXPECT_EQ(details, sanitized_details());
}

TEST(ToolText, InvalidUtf8IsReplacedOnceAndTheSameInEventsMemoryRequestAndStore) {
    auto tool_with_details = tool<EchoArgs>("echo", "Returns bytes.", [](EchoArgs) {
        AgentToolResult result(invalid);
        result.details = invalid_details();
        return result;
    });
    expect_same_everywhere(std::move(tool_with_details), {}, true);
}

TEST(ToolText, InvalidUtf8InAnExceptionIsReplaced) {
    auto throwing = tool<EchoArgs>(
        "echo", "Throws.", [](EchoArgs) -> std::string { throw std::runtime_error(invalid); });
    expect_same_everywhere(std::move(throwing), {}, false);
}

TEST(ToolText, InvalidUtf8OfAfterToolCallIsReplaced) {
    AfterToolCallHook after = [](AfterToolCallContext&) {
        AfterToolCallResult changed;
        changed.content = ContentList<Content>{TextContent{invalid}};
        changed.details = invalid_details();
        return std::optional<AfterToolCallResult>(std::move(changed));
    };
    expect_same_everywhere(echo_tool(), std::move(after), true);
}

TEST(ToolText, InvalidUtf8OfAnUpdateIsReplaced) {
    auto reporting =
        tool<EchoArgs>("echo", "Reports.", [](EchoArgs, ToolContext& ctx) -> Task<std::string> {
            Json partial = invalid_details();
            co_await ctx.update(std::move(partial));
            co_return std::string("done");
        });
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent({.model = faux.model(), .tools = {reporting}});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    std::vector<Json> updates;
    for (const AgentEvent& event : recorder.events) {
        if (const auto* update = event.get_if<ToolExecutionUpdateEvent>())
            updates.push_back(update->partial_result);
    }
    EXPECT_EQ(updates, std::vector<Json>{sanitized_details()});
}

TEST(ToolText, TheReasonOfABlockedCallIsSanitized) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .before_tool_call = [](BeforeToolCallContext&) {
                     BeforeToolCallResult block;
                     block.block = true;
                     block.reason = invalid;
                     return std::optional<BeforeToolCallResult>(std::move(block));
                 }});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    for (const AgentEvent& event : recorder.events) {
        if (const auto* end = event.get_if<ToolExecutionEndEvent>()) {
            EXPECT_EQ(std::string(end->block_reason), sanitized);
            EXPECT_EQ(end->result.text(), sanitized);
        }
    }
}

}  // namespace
}  // namespace cubepi
