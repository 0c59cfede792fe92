#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/gemini.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "wire_cases.hpp"

// A conversation started with one provider is continued with each other one, and then with the first again.

namespace cubepi::wire {
namespace {

struct Family {
    const char* name;
    const char* model;
    const char* answer;  ///< a recorded answer with thinking, or the answer itself
    const char* calls;   ///< a recorded answer with calls
};

constexpr Family families[] = {
    {"anthropic", "claude-sonnet-4-5", "responses/anthropic-redacted-thinking.json",
     "responses/anthropic-parallel-tools.json"},
    {"openai-chat", "gpt-4.1", "responses/openai-chat-thinking-reasoning-content.json",
     "responses/openai-chat-parallel-tools.json"},
    {"openai-responses", "gpt-5", "responses/openai-responses-thinking-encrypted.json",
     "responses/openai-responses-parallel-tools.json"},
    {"gemini", "gemini-3.8-flash",
     R"(data: {"candidates":[{"content":{"parts":[{"text":"Hm","thought":true},{"text":"Sunny."},)"
     R"({"text":"","thoughtSignature":"EjQKMgEMOdbH"}]},"finishReason":"STOP"}]})"
     "\n\n",
     R"(data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"weather","args":)"
     R"({"city":"Oslo"}},"thoughtSignature":"EjQKMgEMOdbC"},{"functionCall":{"name":"time",)"
     R"("args":{}}}]},"finishReason":"STOP"}]})"
     "\n\n"},
};

std::string body_of(const std::string& recorded) {
    return recorded.starts_with("data: ") ? recorded : text_of(read_case(recorded), "response_sse");
}

template <class P, class Options>
std::shared_ptr<Provider> made(std::string base_url, std::string id) {
    Options options;
    options.api_key = "k";
    options.base_url = std::move(base_url);
    options.provider_id = std::move(id);
    return std::make_shared<P>(std::move(options));
}

BoundModel model_of(const Family& family) {
    const std::string name = family.name;
    Model model;
    model.id = family.model;
    if (name == "anthropic")
        return BoundModel(made<AnthropicProvider, AnthropicOptions>("http://a", name), model);
    if (name == "openai-chat")
        return BoundModel(made<OpenAIProvider, OpenAIOptions>("http://c", name), model);
    if (name == "gemini")
        return BoundModel(made<GeminiProvider, GeminiOptions>("http://g", name), model);
    return BoundModel(made<OpenAIResponsesProvider, OpenAIResponsesOptions>("http://r", name),
                      model);
}

/// The answer to `messages`, as loaded from a store, and the request.
struct Turn {
    Message answer;
    std::string sent;
};
Turn turn(const Family& family, const char* recorded, const MessageList& messages) {
    const std::string body = body_of(recorded);
    auto transport =
        std::make_shared<testing::MemoryTransport>(std::vector<testing::MemoryResponse>{
            testing::MemoryResponse(200, body).with_header("content-type", "text/event-stream")});
    auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    const Message answer =
        run(model_of(family).generate(messages, {}, {}, StreamOptions().runtime(runtime)));
    EXPECT_EQ(answer.assistant()->error, nullptr) << answer.assistant()->error_message;
    const Json stored = to_json(answer);
    return Turn{message_from_json(parse_json(boost::json::serialize(stored))),
                transport->requests().at(0).body};
}

void add_results(MessageList& messages, const AssistantMessage& answer) {
    for (const ToolCall* call : answer.tool_calls()) {
        ToolResultMessage result;
        result.tool_call_id = call->id;
        result.tool_name = call->name;
        result.content.emplace_back(TextContent{"sunny"});
        messages.push_back(std::move(result));
    }
}

/// Every value under `key`, at any depth.
void collect(const Json& value, std::string_view key, std::vector<std::string>& into) {
    if (value.is_array()) {
        for (const Json& item : value.get_array()) collect(item, key, into);
    } else if (value.is_object()) {
        for (const auto& [name, item] : value.get_object()) {
            if (name == key && item.is_string()) into.emplace_back(item.get_string());
            collect(item, key, into);
        }
    }
}

std::vector<std::string> all_of(const std::string& body, std::string_view key) {
    std::vector<std::string> found;
    collect(parse_json(body), key, found);
    return found;
}

/// The ids of the calls in a request and of its results, both in order.
void expect_answered(const Family& to, const std::string& body) {
    std::vector<std::string> calls;
    std::vector<std::string> results;
    const std::string name = to.name;
    const Json sent = parse_json(body);
    if (name == "anthropic") {
        for (const Json& message : sent.at("messages").as_array()) {
            for (const Json& block : message.at("content").as_array()) {
                if (block.at("type") == Json("tool_use")) calls.push_back(text_of(block, "id"));
                if (block.at("type") == Json("tool_result"))
                    results.push_back(text_of(block, "tool_use_id"));
            }
        }
        for (const std::string& id : calls)
            EXPECT_EQ(id.find_first_of("|:. "), std::string::npos) << id;
    } else if (name == "openai-chat") {
        results = all_of(body, "tool_call_id");
        for (const Json& message : sent.at("messages").as_array()) {
            const Json* made_calls = member(message, "tool_calls");
            if (!made_calls) continue;
            for (const Json& call : made_calls->as_array()) calls.push_back(text_of(call, "id"));
        }
    } else if (name == "gemini") {
        // Most calls have no id: names and their order connect them with their results.
        for (const Json& content : sent.at("contents").as_array()) {
            for (const Json& part : content.at("parts").as_array()) {
                if (const Json* call = member(part, "functionCall"))
                    calls.push_back(text_of(*call, "name") + std::to_string(calls.size()));
                if (const Json* result = member(part, "functionResponse"))
                    results.push_back(text_of(*result, "name") + std::to_string(results.size()));
            }
        }
    } else {
        for (const Json& item : sent.at("input").as_array()) {
            const std::string type = text_of(item, "type");
            if (type == "function_call") calls.push_back(text_of(item, "call_id"));
            if (type == "function_call_output") results.push_back(text_of(item, "call_id"));
        }
    }
    EXPECT_EQ(calls.size(), 2u) << body;
    EXPECT_EQ(calls, results) << body;
    EXPECT_EQ(std::set<std::string>(calls.begin(), calls.end()).size(), calls.size());
}

TEST(Handover, D13_EveryFamily_ContinuesConversationsOfEveryOther) {
    for (const Family& from : families) {
        for (const Family& to : families) {
            SCOPED_TRACE(std::string(from.name) + " to " + to.name);
            MessageList messages{user_message("Think, then look at the weather.")};
            messages.push_back(turn(from, from.answer, messages).answer);
            messages.push_back(user_message("Continue."));
            messages.push_back(turn(from, from.calls, messages).answer);
            add_results(messages, *messages.back().assistant());
            const Turn next = turn(to, to.answer, messages);
            expect_answered(to, next.sent);
            const bool same = std::string(from.name) == to.name;
            // Content for one family is sent only to that family, unchanged.
            const bool is_anthropic = std::string(from.name) == "anthropic";
            EXPECT_EQ(next.sent.find("EmwKAhgBEgy3va3pzix") != std::string::npos,
                      same && is_anthropic);
            if (!same) {
                EXPECT_TRUE(all_of(next.sent, "encrypted_content").empty());
                EXPECT_TRUE(all_of(next.sent, "signature").empty());
            }
            // Returns to the first, with the other family's answer in between.
            messages.push_back(next.answer);
            messages.push_back(user_message("And now?"));
            const Turn back = turn(from, from.answer, messages);
            expect_answered(from, back.sent);
            EXPECT_EQ(back.sent.find("EmwKAhgBEgy3va3pzix") != std::string::npos, is_anthropic);
            EXPECT_EQ(back.sent.find("EjQKMgEMOdbC") != std::string::npos,
                      std::string(from.name) == "gemini");
        }
    }
}

testing::MemoryResponse recorded(const Family& family) {
    const std::string body = body_of(family.answer);
    return testing::MemoryResponse(200, body).with_header("content-type", "text/event-stream");
}

TEST(Handover, D13_SetModel_KeepsForeignContentForItsFamily) {
    const Family& anthropic = families[0];
    const Family& openai = families[1];
    auto transport =
        std::make_shared<testing::MemoryTransport>(std::vector<testing::MemoryResponse>{
            recorded(anthropic), recorded(openai), recorded(anthropic)});
    auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    Agent agent({.model = model_of(anthropic), .runtime = runtime});
    EXPECT_TRUE(run(agent.prompt("Think.")));
    agent.set_model(model_of(openai));
    EXPECT_TRUE(run(agent.prompt("Continue.")));
    agent.set_model(model_of(anthropic));
    EXPECT_TRUE(run(agent.prompt("And now?")));
    const auto& requests = transport->requests();
    ASSERT_EQ(requests.size(), 3U);
    EXPECT_NE(requests[1].url.find("http://c"), std::string::npos);
    EXPECT_NE(requests[1].body.find(openai.model), std::string::npos);
    EXPECT_EQ(requests[1].body.find("EmwKAhgBEgy3va3pzix"), std::string::npos);
    EXPECT_NE(requests[2].url.find("http://a"), std::string::npos);
    EXPECT_NE(requests[2].body.find("EmwKAhgBEgy3va3pzix"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::wire

// Agents whose conversation the endpoint stores (D57): their requests over several turns, hooks and restarts.

namespace cubepi {
namespace {

using testing::MemoryResponse;

/// Answers each request: with a call of `add` where requested, else with text.
class Endpoint {
public:
    explicit Endpoint(std::vector<std::string> turns)
        : transport_(std::make_shared<testing::MemoryTransport>(
              [this](const HttpRequest& request) { return answer(request); })),
          turns_(std::move(turns)) {}

    std::shared_ptr<const Runtime> runtime() const {
        return std::make_shared<const Runtime>(Runtime().with_transport(transport_));
    }
    AgentOptions options() const {
        OpenAIResponsesOptions how;
        how.api_key = "k";
        how.base_url = "http://endpoint/v1";
        how.server_state = true;
        const OpenAIResponsesProvider provider(how);
        struct Args {
            int a = 0;
        };
        AgentOptions made;
        made.model = provider.model("gpt-4.1");
        made.system_prompt = "Be brief.";
        made.tools.push_back(
            tool<Args>("add", "Adds one.", [](Args args) { return std::to_string(args.a + 1); }));
        made.runtime = runtime();
        return made;
    }
    /// The response from which the n-th request continued; empty: it contained the whole history.
    std::string previous(std::size_t n) const {
        const Json* id = bodies.at(n).if_contains("previous_response_id");
        return id ? std::string(id->as_string()) : std::string();
    }
    std::size_t items(std::size_t n) const { return bodies.at(n).at("input").as_array().size(); }

    std::vector<JsonObject> bodies;

private:
    MemoryResponse answer(const HttpRequest& request) {
        bodies.push_back(boost::json::parse(request.body).as_object());
        const std::size_t number = bodies.size();
        const std::string id = "r" + std::to_string(number);
        const std::string turn = turns_.at(number - 1);
        const std::string item =
            turn == "call"
                ? R"({"id":"fc_)" + id + R"(","type":"function_call","call_id":"c_)" + id +
                      R"(","name":"add","arguments":"{\"a\":1}"})"
                : R"({"id":"msg_)" + id +
                      R"(","type":"message","role":"assistant","content":[{"type":"output_text","text":")" +
                      turn + R"(","annotations":[]}]})";
        return MemoryResponse(200)
            .with_event(R"({"type":"response.output_item.done","output_index":0,"item":)" + item +
                        "}")
            .with_event(R"({"type":"response.completed","response":{"id":")" + id +
                        R"(","status":"completed","error":null}})");
    }

    std::shared_ptr<testing::MemoryTransport> transport_;
    std::vector<std::string> turns_;
};

TEST(ServerState, D57_Request_ContainsOnlyNewMessages) {
    Endpoint endpoint({"call", "Two", "Three"});
    Agent agent(endpoint.options());
    ASSERT_TRUE(run(agent.prompt("a")));
    ASSERT_TRUE(run(agent.prompt("b")));
    ASSERT_EQ(endpoint.bodies.size(), 3u);
    EXPECT_EQ(endpoint.previous(0), "");
    EXPECT_EQ(endpoint.previous(1), "r1");
    EXPECT_EQ(endpoint.items(1), 1u);
    EXPECT_EQ(endpoint.bodies[1].at("input").at(0).at("output"), Json("2"));
    EXPECT_EQ(endpoint.previous(2), "r2");
    EXPECT_EQ(endpoint.items(2), 1u);
}

TEST(ServerState, D57_OtherAgent_ContinuesTheStoredThread) {
    Endpoint endpoint({"call", "Two", "Three"});
    auto store = std::make_shared<MemoryCheckpointer>();
    const auto on_thread = [&] {
        AgentOptions options = endpoint.options();
        options.checkpointer = store;
        options.thread_id = "t";
        return options;
    };
    {
        Agent agent(on_thread());
        ASSERT_TRUE(run(agent.prompt("a")));
    }
    Agent agent(on_thread());
    ASSERT_TRUE(run(agent.prompt("b")));
    EXPECT_EQ(endpoint.previous(2), "r2");
}

TEST(ServerState, D57_ContextChangedByHook_SendsTheWholeHistory) {
    Endpoint endpoint({"One", "Two", "Three"});
    AgentOptions options = endpoint.options();
    bool shorten = false;
    options.transform_context = [&shorten](MessageList messages, HookContext&) {
        MessageList result;
        for (std::size_t i = shorten ? 1 : 0; i < messages.size(); ++i)
            result.push_back(messages[i]);
        return result;
    };
    std::vector<std::string> reasons;
    Agent agent(std::move(options));
    agent.subscribe([&](const AgentEvent& event) {
        const NoticeEvent* seen = event.get_if<NoticeEvent>();
        if (seen && seen->notice.code == "server_state_dropped")
            reasons.emplace_back(seen->notice.details.at("reason").as_string());
    });
    ASSERT_TRUE(run(agent.prompt("a")));
    ASSERT_TRUE(run(agent.prompt("b")));
    shorten = true;
    ASSERT_TRUE(run(agent.prompt("c")));
    EXPECT_EQ(endpoint.previous(1), "r1");
    EXPECT_EQ(endpoint.previous(2), "");
    EXPECT_EQ(endpoint.items(2), 4u);
    EXPECT_EQ(reasons, std::vector<std::string>{"the history was changed"});
}

TEST(ServerState, D57_AbortInTool_NextRequestIsLegal) {
    Endpoint endpoint({"call", "Two"});
    Agent* running = nullptr;
    AgentOptions options = endpoint.options();
    options.before_tool_call = [&running](BeforeToolCallContext&) {
        running->abort();
        return std::optional<BeforeToolCallResult>();
    };
    Agent agent(std::move(options));
    running = &agent;
    EXPECT_FALSE(run(agent.prompt("a")));
    ASSERT_TRUE(run(agent.prompt("b")));
    std::size_t calls = 0;
    std::size_t results = 0;
    for (const Json& item : endpoint.bodies.at(1).at("input").as_array()) {
        const Json* type = item.as_object().if_contains("type");
        calls += type && *type == Json("function_call") ? 1u : 0u;
        results += type && *type == Json("function_call_output") ? 1u : 0u;
    }
    // The call is in the previous response or in the request itself; its result is in the request.
    EXPECT_EQ(calls, endpoint.previous(1).empty() ? 1u : 0u);
    EXPECT_EQ(results, 1u);
}

}  // namespace
}  // namespace cubepi
