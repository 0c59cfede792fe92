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

struct WriteArgs {
    std::string path;
    std::string content;
};

/// A host whose agents answer with the script, and ask before each call of `write`.
std::shared_ptr<AcpHost> asking_host(FauxProvider faux, std::shared_ptr<int> writes) {
    AcpAgentHostOptions options;
    options.make_agent = [faux, writes](const std::shared_ptr<AcpEditor>&, const std::string&,
                                        const AcpSetup&) {
        AgentOptions agent;
        agent.model = faux.model("offline");
        agent.tools.push_back(tool<WriteArgs>("write", "Writes a file.", [writes](WriteArgs) {
            ++*writes;
            return std::string("written");
        }));
        agent.channel = std::make_shared<InMemoryChannel>();
        agent.middleware.emplace_back(std::make_shared<ConfirmToolCallMiddleware>(agent.channel));
        return agent;
    };
    return acp_agent_host(std::move(options));
}

AssistantMessage writing() {
    return faux_assistant_message(
        faux_tool_call("write", {{"path", "a.txt"}, {"content", "hello"}}), "tool_use");
}

TEST(AcpAgentHostTest, Prompt_StreamsTextAndEnds) {
    FauxProvider faux;
    faux.set_responses({"Hello, editor."});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        RpcMessage end = co_await editor.call("session/prompt", prompt_json(session, "Hi"));
        EXPECT_EQ(end.result.at("stopReason"), Json("end_turn"));
        EXPECT_EQ(editor.text_of("agent_message_chunk"), "Hello, editor.");
    };
    run(with_editor(asking_host(faux, std::make_shared<int>()), script));
}

/// Prompts, answers the question with `outcome`, and returns the reason of the end.
Task<std::string> answer_question(ScriptedEditor& editor, std::string outcome) {
    const std::string session = co_await editor.open();
    const std::int64_t prompt = editor.start("session/prompt", prompt_json(session, "Write"));
    RpcMessage question = co_await editor.next();
    EXPECT_EQ(question.method, "session/request_permission");
    const JsonObject& call = question.params.at("toolCall").as_object();
    const JsonObject* announced = editor.update_of("tool_call");
    EXPECT_NE(announced, nullptr);
    if (announced) {
        EXPECT_EQ(announced->at("toolCallId"), call.at("toolCallId"));
        EXPECT_EQ(announced->at("kind"), Json("edit"));
    }
    EXPECT_EQ(call.at("content").as_array()[0].at("type"), Json("diff"));
    EXPECT_EQ(call.at("content").as_array()[0].at("path"), Json("/project/a.txt"));
    JsonObject result;
    result["outcome"] = parse_json(outcome);
    editor.send(rpc_result(question.id, std::move(result)));
    RpcMessage end = co_await editor.next();
    EXPECT_EQ(end.id, Json(prompt));
    co_return std::string(end.result.at("stopReason").as_string());
}

TEST(AcpAgentHostTest, AllowedCall_RunsAndCompletes) {
    FauxProvider faux;
    faux.set_responses({writing(), "Done."});
    const auto writes = std::make_shared<int>(0);
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string end =
            co_await answer_question(editor, R"({"outcome":"selected","optionId":"allow"})");
        EXPECT_EQ(end, "end_turn");
        const JsonObject* update = editor.update_of("tool_call_update");
        EXPECT_NE(update, nullptr);
        if (update) {
            EXPECT_EQ(update->at("status"), Json("completed"));
        }
    };
    run(with_editor(asking_host(faux, writes), script));
    EXPECT_EQ(*writes, 1);
}

TEST(AcpAgentHostTest, OptionThatWasNotOffered_AllowsNothing) {
    for (const std::string outcome :
         {R"({"outcome":"selected","optionId":"always"})",
          R"({"outcome":"selected","optionId":"reject"})", R"({"outcome":"cancelled"})", "null"}) {
        FauxProvider faux;
        faux.set_responses({writing(), "Done."});
        const auto writes = std::make_shared<int>(0);
        const auto script = [outcome](ScriptedEditor& editor) {
            return [](ScriptedEditor& its_editor, std::string its_outcome) -> Task<> {
                (void)co_await answer_question(its_editor, std::move(its_outcome));
                const JsonObject* update = its_editor.update_of("tool_call_update");
                EXPECT_NE(update, nullptr);
                if (update) {
                    EXPECT_EQ(update->at("status"), Json("failed"));
                }
            }(editor, outcome);
        };
        run(with_editor(asking_host(faux, writes), script));
        EXPECT_EQ(*writes, 0) << outcome;
    }
}

TEST(AcpAgentHostTest, CancelledTwiceDuringQuestion_EndsAsCancelled) {
    FauxProvider faux;
    faux.set_responses({writing(), "Next."});
    const auto writes = std::make_shared<int>(0);
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        (void)editor.start("session/prompt", prompt_json(session, "Write"));
        RpcMessage question = co_await editor.next();
        editor.notify("session/cancel", R"({"sessionId":")" + session + "\"}");
        editor.notify("session/cancel", R"({"sessionId":")" + session + "\"}");
        RpcMessage message = co_await editor.next();
        if (message.method == "$/cancel_request") message = co_await editor.next();
        EXPECT_EQ(message.result.at("stopReason"), Json("cancelled"));
        // An answer that comes late allows nothing.
        editor.send_line(R"({"jsonrpc":"2.0","id":)" + json_text(question.id) +
                         R"(,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}})");
        (void)editor.start("session/prompt", prompt_json(session, "Continue"));
        while (message.kind != RpcMessage::Kind::result || message.id != Json(4))
            message = co_await editor.next();
        EXPECT_EQ(message.result.at("stopReason"), Json("end_turn"));
    };
    run(with_editor(asking_host(faux, writes), script));
    EXPECT_EQ(*writes, 0);
}

TEST(AcpAgentHostTest, EditorThatLeavesDuringQuestion_EndsTheRun) {
    FauxProvider faux;
    faux.set_responses({writing(), "Never."});
    const auto writes = std::make_shared<int>(0);
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        (void)editor.start("session/prompt", prompt_json(session, "Write"));
        RpcMessage question = co_await editor.next();
        EXPECT_EQ(question.method, "session/request_permission");
    };
    run(with_editor(asking_host(faux, writes), script));
    EXPECT_EQ(*writes, 0);
    EXPECT_EQ(faux.call_count(), 1U);
}

TEST(AcpAgentHostTest, PromptDuringPrompt_SteersIt) {
    FauxProvider faux;
    faux.set_responses({writing(), [](const ModelRequest& request) {
                            return faux_assistant_message(request.messages.back().text());
                        }});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        (void)editor.start("session/prompt", prompt_json(session, "Write"));
        RpcMessage question = co_await editor.next();
        (void)editor.start("session/prompt", prompt_json(session, "Stop that"));
        JsonObject result;
        result["outcome"] = parse_json(R"({"outcome":"selected","optionId":"reject"})");
        editor.send(rpc_result(question.id, std::move(result)));
        RpcMessage first = co_await editor.next();
        RpcMessage second = co_await editor.next();
        EXPECT_EQ(first.result.at("stopReason"), Json("end_turn"));
        EXPECT_EQ(second.result.at("stopReason"), Json("end_turn"));
        EXPECT_EQ(editor.text_of("agent_message_chunk"), "Stop that");
    };
    run(with_editor(asking_host(faux, std::make_shared<int>()), script));
}

TEST(AcpAgentHostTest, PromptDuringFailedRun_RunsNext) {
    FauxProvider faux;
    AsyncEvent arrived;
    FauxStep failing([&arrived](const ModelRequest&) -> Task<AssistantMessage> {
        co_await arrived.wait();
        throw Error(ErrorCode::connect, "the endpoint is down");
    });
    faux.set_responses({std::move(failing), "Second."});
    const auto script = [&arrived](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        (void)editor.start("session/prompt", prompt_json(session, "First"));
        (void)editor.start("session/prompt", prompt_json(session, "Then this"));
        // The agent reads its requests in order.
        (void)co_await editor.call("session/unknown", "{}");
        arrived.set();
        RpcMessage first = co_await editor.next();
        RpcMessage second = co_await editor.next();
        EXPECT_NE(first.text.find("the endpoint is down"), std::string::npos) << first.text;
        EXPECT_EQ(second.result.at("stopReason"), Json("end_turn"));
        EXPECT_EQ(editor.text_of("agent_message_chunk"), "Second.");
    };
    run(with_editor(asking_host(faux, std::make_shared<int>()), script));
}

TEST(AcpAgentHostTest, FailureOfModel_IsErrorWithItsText) {
    FauxProvider faux;
    faux.set_responses({faux_failure("the endpoint is down")});
    const auto script = [](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        RpcMessage end = co_await editor.call("session/prompt", prompt_json(session, "Hi"));
        EXPECT_EQ(end.code, acp_error::internal);
        EXPECT_NE(end.text.find("the endpoint is down"), std::string::npos) << end.text;
    };
    run(with_editor(asking_host(faux, std::make_shared<int>()), script));
}

}  // namespace
}  // namespace cubepi
