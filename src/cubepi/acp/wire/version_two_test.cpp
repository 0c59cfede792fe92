#include <cubepi/acp/wire/messages.hpp>

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/acp/acp_test.hpp>
#include <cubepi/acp/agent_host.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

using namespace acp_test;

constexpr const char* initialize_params =
    R"({"protocolVersion":2,"info":{"name":"judge","version":"1"},"capabilities":{}})";

struct WriteArgs {
    std::string path;
    std::string content;
};

/// A host that offers version 2, whose agents answer with the script and ask before each call of `write`.
std::shared_ptr<AcpHost> host_of(FauxProvider faux) {
    AcpAgentHostOptions options;
    options.abilities.version = "1";
    options.abilities.protocol = 2;
    options.make_agent = [faux](const std::shared_ptr<AcpEditor>&, const std::string&,
                                const AcpSetup&) {
        AgentOptions agent;
        agent.model = faux.model("offline");
        agent.tools.push_back(tool<WriteArgs>("write", "Writes a file.",
                                              [](WriteArgs) { return std::string("written"); }));
        agent.channel = std::make_shared<InMemoryChannel>();
        agent.middleware.emplace_back(std::make_shared<ConfirmToolCallMiddleware>(agent.channel));
        return agent;
    };
    return acp_agent_host(std::move(options));
}

AssistantMessage writing() {
    return faux_assistant_message(
        faux_tool_call("write", {{"path", "a.txt"}, {"content", "hello\n"}}), "tool_use");
}

Task<std::string> open_two(ScriptedEditor& editor) {
    (void)co_await editor.call("initialize", initialize_params);
    RpcMessage made = co_await editor.call("session/new", R"({"cwd":"/project"})");
    co_return std::string(made.result.at("sessionId").as_string());
}

/// The states of the session, each with its reason: "running idle:end_turn ".
std::string states(const ScriptedEditor& editor) {
    std::string found;
    for (const JsonObject& update : editor.updates) {
        if (update.at("sessionUpdate") != Json("state_update")) continue;
        found += update.at("state").as_string();
        if (const Json* reason = update.if_contains("stopReason"))
            found += ":" + std::string(reason->as_string());
        found += ' ';
    }
    return found;
}

/// Reads updates until the foreground work ends. Other messages fail the test.
Task<> until_idle(ScriptedEditor& editor) {
    while (states(editor).find("idle") == std::string::npos) {
        RpcMessage update = co_await editor.next_of_any_kind();
        if (update.method != "session/update") throw Error(ErrorCode::protocol, rpc_text(update));
    }
}

TEST(AcpVersionTwoTest, Initialize_ChoosesHighestCommonVersion) {
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        RpcMessage none = co_await editor.call("initialize", R"({"protocolVersion":0})");
        EXPECT_EQ(none.code, acp_error::unsupported_version);
        EXPECT_EQ(none.data, parse_json(R"({"requested":0,"supported":[1,2]})"));
        for (const char* bad : {R"({"protocolVersion":2})", R"({"protocolVersion":70000})", "{}"}) {
            RpcMessage refused = co_await editor.call("initialize", bad);
            EXPECT_EQ(refused.code, acp_error::invalid_params) << bad;
        }
        // A newer editor, with members that are unknown here.
        RpcMessage made = co_await editor.call("initialize", R"({"protocolVersion":9,"info":7})");
        EXPECT_EQ(made.result.at("protocolVersion"), Json(2));
        EXPECT_EQ(
            made.result.at("capabilities"),
            parse_json(R"({"session":{"prompt":{"embeddedContext":{}},"mcp":{"stdio":{}}}})"));
        RpcMessage lower = co_await editor.call("initialize", R"({"protocolVersion":1})");
        EXPECT_EQ(lower.code, acp_error::invalid_request);
        RpcMessage again = co_await editor.call("initialize", initialize_params);
        EXPECT_EQ(again.kind, RpcMessage::Kind::result);
        (void)co_await editor.call("session/list", "{}");
        RpcMessage late = co_await editor.call("initialize", initialize_params);
        EXPECT_EQ(late.code, acp_error::invalid_request);
    };
    run(with_editor(host_of(FauxProvider()), script));
}

TEST(AcpVersionTwoTest, EditorOfVersionOne_IsServedVersionOne) {
    FauxProvider faux;
    faux.set_responses({"Hello."});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        RpcMessage end = co_await editor.call("session/prompt", prompt_json(session, "Hi"));
        EXPECT_EQ(end.result.at("stopReason"), Json("end_turn"));
        EXPECT_EQ(states(editor), "");
    };
    run(with_editor(host_of(faux), script));
}

TEST(AcpVersionTwoTest, Prompt_IsInsertedThenEndsAsIdle) {
    FauxProvider faux;
    faux.set_responses({"Hello."});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await open_two(editor);
        RpcMessage accepted = co_await editor.call("session/prompt", prompt_json(session, "Hi"));
        const std::string id(accepted.result.at("messageId").as_string());
        EXPECT_FALSE(id.empty());
        co_await until_idle(editor);
        EXPECT_EQ(states(editor), "running idle:end_turn ");
        const JsonObject* message = editor.update_of("user_message");
        EXPECT_NE(message, nullptr);
        if (message) {
            EXPECT_EQ(message->at("messageId"), Json(id));
            EXPECT_EQ(message->at("content"), parse_json(R"([{"type":"text","text":"Hi"}])"));
        }
        EXPECT_EQ(editor.text_of("agent_message_chunk"), "Hello.");
        const JsonObject* chunk = editor.update_of("agent_message_chunk");
        EXPECT_TRUE(chunk && chunk->contains("messageId"));
    };
    run(with_editor(host_of(faux), script));
}

TEST(AcpVersionTwoTest, Failure_IsTheErrorOfIdle) {
    FauxProvider faux;
    faux.set_responses({faux_failure("the model is gone")});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await open_two(editor);
        RpcMessage accepted = co_await editor.call("session/prompt", prompt_json(session, "Hi"));
        EXPECT_EQ(accepted.kind, RpcMessage::Kind::result);
        co_await until_idle(editor);
        EXPECT_EQ(states(editor), "running idle:error ");
        const JsonObject* idle = editor.update_of("state_update");
        EXPECT_TRUE(idle && idle->at("error").at("message").as_string().find("gone") !=
                                boost::json::string::npos);
    };
    run(with_editor(host_of(faux), script));
}

TEST(AcpVersionTwoTest, Question_HasSubjectAndBlocksTheSession) {
    FauxProvider faux;
    faux.set_responses({writing(), "Done."});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await open_two(editor);
        (void)co_await editor.call("session/prompt", prompt_json(session, "Write"));
        RpcMessage question = co_await editor.next();
        EXPECT_EQ(question.method, "session/request_permission");
        EXPECT_FALSE(question.params.at("title").as_string().empty());
        const JsonObject& call =
            question.params.at("subject").as_object().at("toolCall").as_object();
        const JsonObject& diff = call.at("content").as_array()[0].as_object();
        EXPECT_EQ(diff.at("changes"),
                  parse_json(R"([{"operation":"add","path":"/project/a.txt"}])"));
        EXPECT_EQ(diff.at("patch").at("text"),
                  Json("diff --git /project/a.txt /project/a.txt\nnew file mode 100644\n"
                       "--- /dev/null\n+++ /project/a.txt\n@@ -0,0 +1 @@\n+hello\n"));
        editor.send_line(R"({"jsonrpc":"2.0","id":)" + json_text(question.id) +
                         R"(,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}})");
        co_await until_idle(editor);
        EXPECT_EQ(states(editor), "running requires_action running idle:end_turn ");
        EXPECT_EQ(editor.update_of("tool_call"), nullptr);
        const JsonObject* update = editor.update_of("tool_call_update");
        EXPECT_TRUE(update && update->at("status") == Json("completed"));
    };
    run(with_editor(host_of(faux), script));
}

TEST(AcpVersionTwoTest, PromptThatSteers_IsInsertedWhenTaken) {
    FauxProvider faux;
    faux.set_responses({writing(), "Both."});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await open_two(editor);
        (void)co_await editor.call("session/prompt", prompt_json(session, "Write"));
        RpcMessage question = co_await editor.next();
        const std::int64_t second = editor.start("session/prompt", prompt_json(session, "Also"));
        editor.send_line(R"({"jsonrpc":"2.0","id":)" + json_text(question.id) +
                         R"(,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}})");
        RpcMessage accepted = co_await editor.next();
        EXPECT_EQ(accepted.id, Json(second));
        const JsonObject* message = editor.update_of("user_message");
        EXPECT_TRUE(message && message->at("messageId") == accepted.result.at("messageId"));
        co_await until_idle(editor);
        EXPECT_EQ(states(editor), "running requires_action running idle:end_turn ");
    };
    run(with_editor(host_of(faux), script));
}

TEST(AcpVersionTwoTest, PromptNotTaken_IsCancelledWithTheSession) {
    FauxProvider faux;
    faux.set_responses({writing()});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await open_two(editor);
        (void)co_await editor.call("session/prompt", prompt_json(session, "Write"));
        RpcMessage question = co_await editor.next();
        const std::int64_t second = editor.start("session/prompt", prompt_json(session, "Also"));
        const std::int64_t closing =
            editor.start("session/close", R"({"sessionId":")" + session + "\"}");
        for (int left = 2; left > 0;) {
            RpcMessage message = co_await editor.next();
            if (message.id == Json(second)) {
                EXPECT_EQ(message.code, acp_error::cancelled);
                --left;
            } else if (message.id == Json(closing)) {
                EXPECT_EQ(message.kind, RpcMessage::Kind::result);
                EXPECT_TRUE(states(editor).ends_with("idle:cancelled ")) << states(editor);
                --left;
            }
        }
        // Closing what is closed has no effect; using it is an error that names it.
        RpcMessage again =
            co_await editor.call("session/close", R"({"sessionId":")" + session + "\"}");
        EXPECT_EQ(again.kind, RpcMessage::Kind::result);
        RpcMessage gone = co_await editor.call("session/prompt", prompt_json(session, "Hi"));
        EXPECT_EQ(gone.code, acp_error::not_found);
        EXPECT_EQ(gone.data.at("sessionId"), Json(session));
    };
    run(with_editor(host_of(faux), script));
}

TEST(AcpVersionTwoTest, MethodsAndParametersOfVersionOne_AreRefused) {
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await open_two(editor);
        const std::string id = R"("sessionId":")" + session + "\"";
        for (const char* method : {"session/load", "session/set_mode"}) {
            RpcMessage refused =
                co_await editor.call(method, "{" + id + R"(,"cwd":"/","modeId":"x"})");
            EXPECT_EQ(refused.code, acp_error::method_not_found) << method;
        }
        for (const char* servers :
             {R"([{"type":"sse","name":"a","url":"https://a"}])",
              R"([{"name":"a","command":"/b"}])", R"([{"type":"stdio","name":"a","command":"b"}])",
              R"([{"type":"stdio","name":"a","command":"/b"},
                  {"type":"http","name":"a","url":"https://a"}])"}) {
            RpcMessage refused = co_await editor.call(
                "session/new", R"({"cwd":"/","mcpServers":)" + std::string(servers) + "}");
            EXPECT_EQ(refused.code, acp_error::invalid_params) << servers;
        }
        for (const char* method : {"tool_call/cancel", "terminal/cancel"}) {
            RpcMessage refused = co_await editor.call(method, "{" + id + R"(,"toolCallId":"x"})");
            EXPECT_EQ(refused.code, acp_error::invalid_params) << method;
        }
        RpcMessage cursor = co_await editor.call(
            "session/resume", "{" + id + R"(,"cwd":"/","replayFrom":{"type":"_end"}})");
        EXPECT_EQ(cursor.code, acp_error::invalid_params);
        RpcMessage resumed = co_await editor.call("session/resume", "{" + id + R"(,"cwd":"/"})");
        EXPECT_EQ(resumed.code, acp_error::not_found);
        RpcMessage list = co_await editor.call("session/list", "{}");
        EXPECT_EQ(list.result, parse_json(R"({"sessions":[]})").as_object());
    };
    run(with_editor(host_of(FauxProvider()), script));
}

TEST(AcpVersionTwoTest, Updates_AreTranslated) {
    const auto translated = [](const char* text) {
        auto made = detail::update_two(parse_json(text).as_object());
        return made ? Json(std::move(*made)) : Json();
    };
    EXPECT_TRUE(
        translated(R"({"sessionUpdate":"current_mode_update","currentModeId":"a"})").is_null());
    EXPECT_EQ(translated(R"({"sessionUpdate":"plan","entries":[{"content":"a"}]})"),
              parse_json(R"({"sessionUpdate":"plan_update","plan":{"type":"items",
                  "planId":"todos","entries":[{"content":"a"}]}})"));
    EXPECT_EQ(translated(R"({"sessionUpdate":"available_commands_update","availableCommands":
                  [{"name":"a","description":"b","input":{"hint":"c"}}]})"),
              parse_json(R"({"sessionUpdate":"available_commands_update","availableCommands":
                  [{"type":"command","name":"a","description":"b",
                    "input":{"type":"text","hint":"c"}}]})"));
    EXPECT_EQ(translated(R"({"sessionUpdate":"config_option_update","configOptions":
                  [{"id":"mode","type":"select"}]})"),
              parse_json(R"({"sessionUpdate":"config_option_update","configOptions":
                  [{"configId":"mode","type":"select"}]})"));
}

TEST(AcpVersionTwoTest, Difference_IsShownWithoutInventedLines) {
    JsonObject call = parse_json(R"({"content":[{"type":"diff","path":"/a","oldText":"``` 1",
        "newText":"2\n"}]})")
                          .as_object();
    call = detail::tool_call_two(std::move(call));
    const JsonArray& content = call.at("content").as_array();
    ASSERT_EQ(content.size(), 2U);
    EXPECT_EQ(content[0],
              parse_json(R"({"type":"diff","changes":[{"operation":"modify","path":"/a"}]})"));
    EXPECT_EQ(content[1].at("content").at("text"),
              Json("````diff\n-``` 1\n\\ No newline at end of file\n+2\n````"));
    const JsonObject change = detail::diff_two("/a b\"\xC3\xA4", "@@ -1 +1 @@\n-1\n+2\n", false);
    EXPECT_EQ(change.at("patch").at("text"),
              Json("diff --git \"/a b\\\"\\303\\244\" \"/a b\\\"\\303\\244\"\n"
                   "--- \"/a b\\\"\\303\\244\"\t\n+++ \"/a b\\\"\\303\\244\"\t\n"
                   "@@ -1 +1 @@\n-1\n+2\n"));
}

}  // namespace
}  // namespace cubepi
