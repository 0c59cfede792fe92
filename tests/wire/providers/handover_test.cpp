#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/anthropic.hpp>
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
    const char* answer;  ///< a recorded answer with thinking
    const char* calls;   ///< a recorded answer with calls
};

constexpr Family families[] = {
    {"anthropic", "claude-sonnet-4-5", "responses/anthropic-redacted-thinking.json",
     "responses/anthropic-parallel-tools.json"},
    {"openai-chat", "gpt-4.1", "responses/openai-chat-thinking-reasoning-content.json",
     "responses/openai-chat-parallel-tools.json"},
    {"openai-responses", "gpt-5", "responses/openai-responses-thinking-encrypted.json",
     "responses/openai-responses-parallel-tools.json"},
};

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
    return BoundModel(made<OpenAIResponsesProvider, OpenAIResponsesOptions>("http://r", name),
                      model);
}

/// The answer to `messages`, as loaded from a store, and the request.
struct Turn {
    Message answer;
    std::string sent;
};
Turn turn(const Family& family, const char* recorded, const MessageList& messages) {
    const std::string body = text_of(read_case(recorded), "response_sse");
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

TEST(Handover, D13_EveryFamilyContinuesConversationsOfEveryOther) {
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
        }
    }
}

testing::MemoryResponse recorded(const Family& family) {
    const std::string body = text_of(read_case(family.answer), "response_sse");
    return testing::MemoryResponse(200, body).with_header("content-type", "text/event-stream");
}

TEST(Handover, D13_SetModelOmitsForeignContentAndPreservesItForItsFamily) {
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
