// The members, ids and reasoning that the program sends back to an endpoint, and what it does when they are refused.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;

/// `cubepi run` of a prompt of the session s1 with one of the APIs.
Piped prompt(const Home& home, const ModelServer& server, const std::string& provider,
             const std::string& text = "hello", const std::string& model = "local") {
    return run_piped(home, {"run", "-s", "s1", "--provider", provider, "--base-url", server.url(),
                            "-m", model, text});
}

/// A whole answer of the Responses API with these items.
std::string response(const std::string& items) {
    return R"({"id":"r","object":"response","status":"completed","output":[)" + items + "]}";
}

std::string function_call(const std::string& id, const std::string& call_id,
                          const std::string& more = {}) {
    return R"({"type":"function_call","id":")" + id + R"(","call_id":")" + call_id +
           R"(","name":"list","arguments":"{\"path\":\".\"}")" + more + "}";
}

const std::string responses_text =
    R"({"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Done."}]})";
const std::string sealed =
    R"({"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"},)";

/// A whole answer of the Messages API with these blocks.
std::string message(const std::string& blocks, const std::string& reason = "end_turn") {
    return R"({"type":"message","id":"m","role":"assistant","content":[)" + blocks +
           R"(],"stop_reason":")" + reason + R"("})";
}

const std::string messages_text = R"({"type":"text","text":"Done."})";

std::string serialized(const boost::json::value& value) { return boost::json::serialize(value); }

/// The items of a type in a request of the Responses API.
std::vector<boost::json::object> items(const boost::json::value& body, std::string_view type) {
    std::vector<boost::json::object> found;
    for (const boost::json::value& item : body.at("input").as_array()) {
        const boost::json::value* at = item.as_object().if_contains("type");
        if (at && at->as_string() == type) found.push_back(item.as_object());
    }
    return found;
}

/// How an API carries a call with unknown members, and where it expects them.
struct MemberCase {
    std::string provider;
    std::string call;    ///< the answer with the call
    std::string answer;  ///< the answer to its result
    std::string expected;
};

std::vector<MemberCase> member_cases() {
    const boost::json::object members =
        boost::json::parse(R"({"extra_content":{"google":{"thought_signature":"c2ln"}},
                               "provider_specific_fields":{"x":[1,null]}})")
            .as_object();
    const std::string more = serialized(members);
    const std::string tail = "," + more.substr(1, more.size() - 2);
    return {
        {"openai", chat_answer("", {{"list", R"({"path":"."})", "c1", members}}),
         chat_answer("Done."), tail.substr(1)},
        {"openai-responses", response(function_call("fc_1", "c1", tail)), response(responses_text),
         tail.substr(1)},
        {"anthropic",
         message(R"({"type":"tool_use","id":"c1","name":"list","input":{"path":"."})" + tail + "}",
                 "tool_use"),
         message(messages_text), tail.substr(1)}};
}

TEST(Members, D88_MembersOfCall_ReturnToTheirEndpoint) {
    for (const MemberCase& at : member_cases()) {
        const Home home;
        ModelServer server({at.call, at.answer});
        EXPECT_EQ(prompt(home, server, at.provider).status, 0);
        EXPECT_EQ(prompt(home, server, at.provider, "again").status, 0);
        const std::vector<std::string> requests = server.requests();
        ASSERT_EQ(requests.size(), 3u) << at.provider;
        EXPECT_EQ(requests[0].find("thought_signature"), std::string::npos);
        EXPECT_NE(requests[1].find(at.expected), std::string::npos) << requests[1];
        EXPECT_NE(requests[2].find(at.expected), std::string::npos) << requests[2];
    }
}

TEST(Members, D88_MembersOfAnswer_ReturnToTheirEndpoint) {
    const std::string member = R"("extra_content":{"google":{"thought_signature":"c2ln"}})";
    const std::string chat = R"({"id":"c","object":"chat.completion","choices":[{"index":0,
        "message":{"role":"assistant","content":"Hi","annotations":[7],)" +
                             member + R"(},"finish_reason":"stop"}]})";
    const std::string chunks =
        R"(data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"H"}}]})"
        "\n\n"
        R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":"i",)" +
        member +
        "}}]}\n\n"
        R"(data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
        "\n\ndata: [DONE]\n\n";
    const std::string part = R"({"type":"output_text","text":"Hi",)" + member + "}";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"openai", chat},
        {"openai", chunks},
        {"openai-responses", response(R"({"type":"message","id":"msg_1","role":"assistant",
                                          "content":[)" +
                                      part + "]}")}};
    for (const auto& [provider, answer] : cases) {
        const Home home;
        ModelServer server({answer, answer});
        EXPECT_EQ(prompt(home, server, provider).status, 0);
        EXPECT_EQ(prompt(home, server, provider, "again").status, 0);
        const std::vector<std::string> requests = server.requests();
        ASSERT_EQ(requests.size(), 2u) << answer;
        EXPECT_NE(requests[1].find(member), std::string::npos) << requests[1];
        EXPECT_EQ(requests[1].find("[7]"), std::string::npos) << "members of answers only";
        ModelServer other({provider == "openai" ? response(responses_text) : chat_answer("Done.")});
        const std::string elsewhere = provider == "openai" ? "openai-responses" : "openai";
        EXPECT_EQ(prompt(home, other, elsewhere, "again").status, 0);
        ASSERT_EQ(other.requests().size(), 1u);
        EXPECT_EQ(other.requests()[0].find("c2ln"), std::string::npos) << other.requests()[0];
    }
}

TEST(Members, D88_MembersOfCall_StayWithTheirEndpoint) {
    for (const MemberCase& from : member_cases()) {
        for (const MemberCase& to : member_cases()) {
            const Home home;
            ModelServer server({from.call, from.answer});
            ModelServer other({to.answer});
            EXPECT_EQ(prompt(home, server, from.provider).status, 0);
            const Piped run = prompt(home, other, to.provider, "again");
            EXPECT_EQ(run.status, 0) << run.err;
            ASSERT_EQ(other.requests().size(), 1u);
            const std::string request = other.requests()[0];
            EXPECT_NE(request.find("list"), std::string::npos) << request;
            EXPECT_EQ(request.find("c2ln"), std::string::npos) << request;
        }
    }
}

TEST(Members, D88_UnsignedThinking_ReturnsAsThinking) {
    const Home home;
    ModelServer server({message(R"({"type":"thinking","thinking":"SECRET-THOUGHT"},
                    {"type":"tool_use","id":"t1","name":"list","input":{"path":"."}})",
                                "tool_use"),
                        message(messages_text)});
    EXPECT_EQ(prompt(home, server, "anthropic", "hello", "deepseek-chat").status, 0);
    EXPECT_EQ(prompt(home, server, "anthropic", "again", "deepseek-chat").status, 0);
    const auto bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 3u);
    const boost::json::value thinking =
        boost::json::parse(R"({"type":"thinking","thinking":"SECRET-THOUGHT"})");
    for (const std::size_t request : {1u, 2u})
        EXPECT_EQ(bodies[request].at_pointer("/messages/1/content/0"), thinking);
}

TEST(RefusedHistory, D89_Reasoning_IsLeftOutOnce) {
    const std::vector<std::string> refusals = {
        refusal(400, R"({"error":{"message":"Upstream request failed: reasoning `encrypted_content`
                         was not issued to this caller","type":"invalid_request_error"}})"),
        refusal(404, R"({"error":{"message":"Item with id 'rs_1' not found."}})"),
        refusal(400, R"({"error":{"message":"Duplicate item found with id fc_1."}})"),
        refusal(400, R"({"error":{"message":"x","code":"INVALID_ENCRYPTED_CONTENT"}})")};
    for (const std::string& refused : refusals) {
        const Home home;
        // Also the first request of a later prompt is refused.
        ModelServer server({response(sealed + function_call("fc_1", "c1")), refused,
                            response(responses_text), refused, response(responses_text)});
        const Piped first = prompt(home, server, "openai-responses", "hello", "gpt-5.1");
        EXPECT_EQ(first.status, 0) << first.err;
        EXPECT_NE(first.err.find("without"), std::string::npos) << first.err;
        const Piped later = prompt(home, server, "openai-responses", "again", "gpt-5.1");
        EXPECT_EQ(later.status, 0) << later.err;
        const auto bodies = server.bodies();
        ASSERT_EQ(bodies.size(), 5u) << refused;
        for (const std::size_t with : {1u, 3u}) {
            EXPECT_EQ(items(bodies[with], "reasoning").size(), 1u);
            EXPECT_EQ(items(bodies[with], "function_call")[0].at("id"), "fc_1");
        }
        for (const std::size_t without : {2u, 4u}) {
            EXPECT_TRUE(items(bodies[without], "reasoning").empty());
            EXPECT_FALSE(items(bodies[without], "function_call")[0].contains("id"));
        }
    }
}

/// Another server would refuse the member.
TEST(CompactModel, ServerThatCannotCompact_IsNotAsked) {
    const Home home;
    terminal_tests::write_file(
        home.config(), "compact_at: 0.5\ncontext_window: 100000\ncompact_model: provider\n");
    ModelServer server({response(responses_text)});
    EXPECT_EQ(prompt(home, server, "openai-responses").status, 0);
    const auto bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 1u);
    EXPECT_FALSE(bodies[0].as_object().contains("context_management"));
}

TEST(CallIds, ItemIds_AreOmittedWithoutTheirReasoning) {
    const std::string unsealed = R"({"type":"reasoning","id":"rs_1","summary":[]},)";
    for (const std::string& reasoning : {std::string(), sealed, unsealed}) {
        const Home home;
        ModelServer server(
            {response(reasoning + function_call("fc_1", "c1")), response(responses_text)});
        EXPECT_EQ(prompt(home, server, "openai-responses").status, 0);
        const auto bodies = server.bodies();
        ASSERT_EQ(bodies.size(), 2u);
        EXPECT_EQ(items(bodies[1], "reasoning").size(), reasoning == sealed ? 1u : 0u);
        EXPECT_EQ(items(bodies[1], "function_call")[0].contains("id"), reasoning != unsealed);
    }
}

TEST(RefusedHistory, D89_Thinking_IsLeftOutOnce) {
    const std::string refused =
        refusal(400, R"({"type":"error","error":{"type":"invalid_request_error","message":
            "messages.1.content.0: Invalid `signature` in `thinking` block"}})");
    const std::string answer = message(
        R"({"type":"thinking","thinking":"Hm","signature":"c2ln"},
           {"type":"tool_use","id":"t1","name":"list","input":{"path":"."}})",
        "tool_use");
    const Home home;
    ModelServer server(
        {answer, refused, message(messages_text), refused, message(messages_text), refused});
    const Piped first = prompt(home, server, "anthropic");
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_NE(first.err.find("without thinking"), std::string::npos) << first.err;
    EXPECT_EQ(prompt(home, server, "anthropic", "again").status, 0);
    // The second refusal of the same request is final.
    EXPECT_EQ(prompt(home, server, "anthropic", "again").status, 1);
    const std::vector<std::string> requests = server.requests();
    ASSERT_EQ(requests.size(), 7u);
    for (const std::size_t with : {1u, 3u, 5u})
        EXPECT_NE(requests[with].find("c2ln"), std::string::npos);
    for (const std::size_t without : {2u, 4u, 6u}) {
        EXPECT_EQ(requests[without].find("c2ln"), std::string::npos);
        EXPECT_NE(requests[without].find("tool_use"), std::string::npos);
    }
}

TEST(RefusedHistory, D89_SecondRefusal_Fails) {
    const Home home;
    ModelServer server({response(sealed + function_call("fc_1", "c1")),
                        refusal(400, R"({"error":{"message":"encrypted content of rs_1"}})")});
    const Piped run = prompt(home, server, "openai-responses", "hello", "gpt-5.1");
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_EQ(server.requests().size(), 3u);
}

TEST(RefusedHistory, D89_Image_IsLeftOutOnce) {
    using namespace std::string_literals;
    const std::vector<std::string> refusals = {
        refusal(400, R"({"type":"error","error":{"type":"invalid_request_error","message":
            "messages.2.content.0.image.source.base64.data: image exceeds 5 MB maximum"}})"),
        refusal(404, R"({"error":{"message":"No endpoints found that support image input"}})"),
        refusal(400,
                R"({"error":{"message":"messages.2.content.0.type: Input should be 'text'"}})"),
        refusal(422, R"({"error":{"message":"cannot process the request"}})"),
        refusal(413, R"({"error":{"message":"request too large"}})"),
        refusal(500, R"({"error":{"message":"image input is not supported - hint: mmproj"}})")};
    for (const std::string& refused : refusals) {
        const Home home;
        terminal_tests::write_file(home.work() / "a.png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"s);
        const std::string call =
            R"({"type":"tool_use","id":"t1","name":"read","input":{"path":"a.png"}})";
        ModelServer server({message(call, "tool_use"), refused, message(messages_text), refused,
                            message(messages_text)});
        const Piped first = prompt(home, server, "anthropic");
        EXPECT_EQ(first.status, 0) << first.err;
        EXPECT_NE(first.err.find("without images"), std::string::npos) << first.err;
        // Only what the server has stated is reported as the cause.
        const bool names_image = refused.find("image") != std::string::npos;
        EXPECT_EQ(first.err.find("refused an image") != std::string::npos, names_image)
            << first.err;
        const Piped later = prompt(home, server, "anthropic", "again");
        EXPECT_EQ(later.status, 0) << later.err;
        const std::vector<std::string> requests = server.requests();
        ASSERT_EQ(requests.size(), 5u) << refused;
        for (const std::size_t with : {1u, 3u})
            EXPECT_NE(requests[with].find("iVBORw0KGgo"), std::string::npos);
        for (const std::size_t without : {2u, 4u}) {
            EXPECT_EQ(requests[without].find("iVBORw0KGgo"), std::string::npos);
            EXPECT_NE(requests[without].find("An image was omitted"), std::string::npos);
        }
    }
}

TEST(RefusedHistory, D89_OtherRefusal_IsNotRepeatedWithoutImages) {
    const Home home;
    terminal_tests::write_file(home.work() / "a.gif", "GIF89a12");
    ModelServer server({chat_answer("", {{"read", R"({"path":"a.gif"})"}}),
                        refusal(400, R"({"error":{"message":"unknown parameter: top_k"}})")});
    const Piped run = prompt(home, server, "openai");
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_EQ(server.requests().size(), 2u);
}

TEST(ThinkingTags, ConfiguredTag_BecomesThinking) {
    for (const char* config :
         {"thinking_tag: think\n", "providers: {box: {base_url: URL, thinking_tag: think}}\n"}) {
        const Home home;
        ModelServer server(
            {chat_answer("<think>\nThe user greets me.</think>\n\nHello."), chat_answer("Again.")});
        std::string text = config;
        const bool entry = text.find("URL") != std::string::npos;
        if (entry) text.replace(text.find("URL"), 3, "\"" + server.url() + "\"");
        terminal_tests::write_file(home.config(), text);
        const auto ask = [&](const std::string& prompt_text) {
            std::vector<std::string> arguments = {
                "run", "-s", "s1", "-m", "local", "--provider", entry ? "box" : "openai"};
            if (!entry) arguments.insert(arguments.end(), {"--base-url", server.url()});
            arguments.push_back(prompt_text);
            return run_piped(home, arguments);
        };
        const Piped first = ask("hello");
        EXPECT_EQ(first.out, "Hello.\n") << first.err;
        EXPECT_EQ(ask("again").status, 0);
        ASSERT_EQ(server.requests().size(), 2u) << first.err;
        EXPECT_NE(server.requests()[1].find("Hello."), std::string::npos);
        EXPECT_EQ(server.requests()[1].find("greets"), std::string::npos);
    }
}

TEST(NullArguments, D4_NullForOptionalParameter_IsAbsence) {
    const Home home;
    terminal_tests::write_file(home.work() / "seen.txt", "x");
    ModelServer server({chat_answer("", {{"list", R"({"path":".","hidden":null})"}}),
                        chat_answer("", {{"read", R"({"path":null})"}}), chat_answer("Done.")});
    const Piped run = prompt(home, server, "openai");
    EXPECT_EQ(run.status, 0) << run.err;
    const auto bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 3u);
    const std::string listed = serialized(bodies[1]);
    EXPECT_NE(listed.find("seen.txt"), std::string::npos) << listed;
    const std::string refused = serialized(bodies[2]);
    EXPECT_NE(refused.find("path: expected string"), std::string::npos) << refused;
}

TEST(CallIds, D83_RepeatedIds_DifferInTheRequest) {
    const Home home;
    // The same call id, and in the third answer also the same item id.
    ModelServer server({response(function_call("fc_a", "terminal:0")),
                        response(function_call("fc_b", "terminal:0")),
                        response(function_call("fc_a", "terminal:0")), response(responses_text)});
    EXPECT_EQ(prompt(home, server, "openai-responses").status, 0);
    EXPECT_EQ(prompt(home, server, "openai-responses", "again").status, 0);
    const auto bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 5u);
    const auto calls = items(bodies[4], "function_call");
    const auto outputs = items(bodies[4], "function_call_output");
    ASSERT_EQ(calls.size(), 3u);
    ASSERT_EQ(outputs.size(), 3u);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(calls[i].at("call_id"), outputs[i].at("call_id"));
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_NE(calls[i].at("call_id"), calls[j].at("call_id"));
    }
    EXPECT_FALSE(calls[2].contains("id"));
    // The cached prefix stays: each request begins with the items of the one before.
    for (std::size_t request = 1; request < bodies.size(); ++request) {
        const boost::json::array& before = bodies[request - 1].at("input").as_array();
        const boost::json::array& now = bodies[request].at("input").as_array();
        ASSERT_GE(now.size(), before.size());
        for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(now[i], before[i]);
    }
}

}  // namespace
}  // namespace cubepi::joint_tests
