// The errors of a first day: docs/errors.md has them word for word.

#include "failure.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <bub/tape/file_tape_store.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/structured.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "command_line.hpp"
#include "config/model_choice.hpp"
#include "conversation/tool_approval.hpp"
#include "source_tree.hpp"

namespace cubepi::app {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

std::string file_text(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// The text of the page for `name`.
std::string golden(const std::string& name) {
    const std::string page = file_text(cubepi::testing::source_path("docs/errors.md"));
    const std::string fence = "```text " + name + "\n";
    const std::size_t begin = page.find(fence);
    if (begin == std::string::npos) return "docs/errors.md has no text '" + name + "'";
    const std::size_t from = begin + fence.size();
    return page.substr(from, page.find("\n```", from) - from);
}

std::string printed(const Failure& failure) { return "cubepi: " + failure.text; }

std::shared_ptr<MemoryTransport> answering(MemoryResponse response) {
    return std::make_shared<MemoryTransport>(
        [response](const HttpRequest&) -> MemoryResponse { return response; });
}

/// The failure that the user sees if the model call ends like that.
Failure after_call(MemoryResponse response, const std::string& model, const std::string& base_url,
                   const std::string& where) {
    OpenAIOptions provider;
    provider.api_key = "sk-very-secret-key";
    provider.base_url = base_url;
    provider.retry.max_retries = 0;
    AgentOptions options;
    options.model = OpenAIProvider(std::move(provider)).model(model);
    options.runtime =
        std::make_shared<const Runtime>(Runtime().with_transport(answering(std::move(response))));
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("hello"));
    FailureContext context;
    context.where = where;
    context.key_variable = "OPENAI_API_KEY";
    return explain(result.error(), context);
}

MemoryResponse broken(ErrorCode code, const std::string& text) {
    return MemoryResponse::failing(NetworkError(code, "host", false, text));
}

TEST(FirstDayErrors, MissingKey_IsExplained) {
    const ModelSources sources;
    const auto no_server = answering(broken(ErrorCode::connect, "Connection refused"));
    std::string text;
    try {
        run(choose_model(sources, no_server, ChooseModel()));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::not_found);
        text = printed(explain(error));
    }
    EXPECT_EQ(text, golden("no-key"));
}

TEST(FirstDayErrors, UnreachableDatabase_IsNotBlamedOnTheModel) {
    for (const ErrorCode code : {ErrorCode::connect, ErrorCode::dns, ErrorCode::disconnected}) {
        const Failure failure = explain(CheckpointerError(code, "cannot connect to PostgreSQL"));
        EXPECT_EQ(failure.text, "cannot connect to PostgreSQL");
        EXPECT_EQ(failure.exit_code, exit_storage);
    }
}

TEST(FirstDayErrors, WrongPasswordOfDatabase_IsNotTheModels) {
    FailureContext context;
    context.where = "gpt-5.1 at api.openai.com";
    const CheckpointerError refused(ErrorCode::auth, "password authentication failed");
    const Failure failure = explain(refused, context);
    EXPECT_EQ(failure.exit_code, exit_storage);
    EXPECT_EQ(failure.text.find("api"), std::string::npos) << failure.text;
    EXPECT_NE(failure.text.find("password of the database"), std::string::npos) << failure.text;
}

TEST(FirstDayErrors, KeyOfAnotherAddress_IsNamedAsCause) {
    ErrorInfo info;
    info.code = ErrorCode::auth;
    FailureContext context;
    context.where = "m at other.example";
    context.key_variable = "OPENAI_API_KEY";
    context.withheld_key = "OPENAI_API_KEY";
    const Failure failure = explain(ProviderError(info, "there is no API key"), context);
    EXPECT_NE(failure.text.find("--api-key-env NAME"), std::string::npos) << failure.text;
    EXPECT_EQ(failure.text.find("echo $"), std::string::npos) << failure.text;
}

TEST(FirstDayErrors, WebPage_IsExplained) {
    const Failure failure = after_call(MemoryResponse(200, "<!DOCTYPE html><html></html>"), "m",
                                       "https://llm.example/v1", "m at llm.example");
    EXPECT_EQ(printed(failure), golden("web-page"));
    EXPECT_EQ(failure.exit_code, exit_failed);
}

TEST(FirstDayErrors, WrongKey_IsExplainedWithoutTheKey) {
    const Failure failure = after_call(
        MemoryResponse(401,
                       R"({"error":{"message":"Incorrect API key provided: sk-very-secret-key",)"
                       R"("type":"invalid_request_error","code":"invalid_api_key"}})"),
        "gpt-5.1", "https://api.openai.com/v1", "gpt-5.1 at api.openai.com");
    EXPECT_EQ(printed(failure), golden("wrong-key"));
    EXPECT_EQ(failure.exit_code, exit_failed);
    EXPECT_EQ(failure.text.find("very-secret"), std::string::npos);
}

/// The text for an error response with that status and body.
std::string refused(int status, const std::string& body) {
    return after_call(MemoryResponse(status, body), "gpt-5.1", "https://api.openai.com/v1",
                      "gpt-5.1 at api.openai.com")
        .text;
}

TEST(ServerMessage, ServerMessage_IsShownWholeForEachStatus) {
    const std::string message =
        "The first sentence. The second one, which says why. The third one; with a hint.";
    const std::string body = R"({"error":{"message":")" + message + R"("}})";
    for (const int status : {400, 401, 403, 404, 413, 422, 429, 500, 503}) {
        const std::string text = refused(status, body) + "\n";
        EXPECT_NE(text.find("\n  Server message: " + message + "\n"), std::string::npos)
            << status << ": " << text;
    }
}

TEST(ServerMessage, MessageOf403_DecidesItsMeaning) {
    const std::string text =
        refused(403, R"({"error":{"message":"Country, region, or territory not supported",)"
                     R"("code":"unsupported_country_region_territory"}})");
    EXPECT_EQ(text.find("key was"), std::string::npos) << text;
    EXPECT_EQ(text.find("authentication"), std::string::npos) << text;
    EXPECT_NE(text.find("Country, region, or territory not supported"), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("gpt-5.1 at api.openai.com denied access (HTTP 403).")) << text;
}

TEST(ServerMessage, LongServerMessage_IsBoundedWithoutControlCharacters) {
    const std::string text =
        refused(400, R"({"error":{"message":"red \u001b[31m\u0007text\nnext line )" +
                         std::string(100'000, 'x') + R"("}})");
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\a'), std::string::npos);
    EXPECT_NE(text.find("red [31mtext\n  next line xxx"), std::string::npos) << text.substr(0, 200);
    EXPECT_LT(text.size(), 2500u);
}

TEST(ServerMessage, Advice_NamesTheVariableOfTheProvider) {
    FailureContext context;
    context.where = "m at openrouter.ai";
    context.key_variable = "OPENROUTER_API_KEY";
    context.address_from = "ANTHROPIC_BASE_URL";
    EXPECT_NE(explain(Error(ErrorCode::auth, "no"), context).text.find("echo $OPENROUTER_API_KEY"),
              std::string::npos);
    const std::string dns =
        explain(NetworkError(ErrorCode::dns, "host", false, "No such host."), context).text;
    EXPECT_NE(dns.find("ANTHROPIC_BASE_URL"), std::string::npos) << dns;
    EXPECT_EQ(dns.find("OPENAI"), std::string::npos) << dns;
}

TEST(LimitReached, LimitReached_NamesTheFlagOfTheProgram) {
    const Failure failure =
        explain(LimitReachedError("max_turns", "the run reached its limit max_turns (3)"));
    EXPECT_EQ(failure.text,
              "the run reached its limit max_turns (3)\n  Raise the limit: --max-turns NUMBER");
    EXPECT_EQ(failure.exit_code, exit_limited);
    EXPECT_EQ(explain(LimitReachedError("max_spend", "x")).text,
              "x\n  Raise or omit the limit (--max-cost USD), or name another model with --model");
    EXPECT_EQ(
        explain_event({{"message", "max_spend is set"}, {"limit", "max_spend"}}).substr(0, 17),
        "--max-cost is set");
    EXPECT_EQ(explain(LimitReachedError("max_duration", "x")).text, "x");
    EXPECT_EQ(explain_event({{"message", "x"}, {"limit", "max_turns"}}),
              "x\n  Raise the limit: --max-turns NUMBER");
    EXPECT_EQ(explain_event({{"message", "x"}}), "x");
}

AssistantMessage answer(const std::string& text, std::string_view reason) {
    AssistantMessage message;
    if (!text.empty()) message.content.emplace_back(TextContent{text});
    message.stop_reason = stop_reason::shared(reason);
    return message;
}

TEST(SchemaFailure, AnswerInText_NamesTheFlag) {
    StructuredOutputError::Details details;
    details.attempts = 2;
    details.issues.push_back({"<root>", "", "", "the tool structured_output was not called"});
    details.text = "Sure, here it is: \x1b[31m1";
    TextContent block;
    block.text = details.text;
    details.message.content.emplace_back(block);
    const StructuredOutputError error(ErrorCode::validation, "internal", details);
    std::string text = explain(error).text;
    EXPECT_NE(text.find("no answer fits --output-schema (2 attempts): the model answered with "
                        "text, which began: Sure, here it is: "),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("structured_output"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    details.message.content = {};
    details.message.content.emplace_back(ToolCall());
    details.issues = {{"city", "", "", "field required"}};
    text = explain(StructuredOutputError(ErrorCode::validation, "internal", details)).text;
    EXPECT_NE(text.find("the last one has these faults:\n    city: field required\n"),
              std::string::npos)
        << text;
}

TEST(IncompleteAnswer, IncompleteAnswer_HasNoticeAndOwnExitStatus) {
    EXPECT_FALSE(incomplete_answer(answer("hello", stop_reason::stop)));
    EXPECT_FALSE(incomplete_answer(answer("hello", "stop_sequence")));
    for (const auto& [text, reason, expected] :
         {std::tuple{"hel", "length", "cut off"}, std::tuple{"", "length", "cut off"},
          std::tuple{"hel", "content_filter", "filtered"}, std::tuple{"no", "refusal", "refused"},
          std::tuple{"", "stop", "empty answer"}, std::tuple{" \n", "stop", "empty answer"}}) {
        const std::optional<Failure> failure = incomplete_answer(answer(text, reason));
        ASSERT_TRUE(failure) << reason;
        EXPECT_EQ(failure->exit_code, exit_incomplete);
        EXPECT_NE(failure->text.find(expected), std::string::npos) << failure->text;
        EXPECT_NE(failure->text.find(std::string("'") + reason + "'"), std::string::npos);
    }
    AssistantMessage called = answer("", stop_reason::tool_use);
    called.content.emplace_back(ToolCall{});
    EXPECT_FALSE(incomplete_answer(called)) << "a tool ended the run";
}

TEST(Failure, FailureInChat_AdvisesItsCommands) {
    FailureContext chat;
    chat.in_chat = true;
    for (const auto& [code, command] : {std::pair{ErrorCode::model_not_found, "/model"},
                                        std::pair{ErrorCode::context_length, "/new"},
                                        std::pair{ErrorCode::content_filtered, "/model"},
                                        std::pair{ErrorCode::unavailable, "/model"}}) {
        ErrorInfo info;
        info.code = code;
        std::string text;
        try {
            throw_provider_error(info, "failed");
        } catch (const Error& error) {
            text = explain(error, chat).text;
        }
        EXPECT_NE(text.find(command), std::string::npos) << text;
        EXPECT_EQ(text.find("--"), std::string::npos) << text;
    }
    for (const char* reason : {"content_filter", "refusal", "model_context_window_exceeded"}) {
        const std::optional<Failure> failure = incomplete_answer(answer("", reason), chat);
        ASSERT_TRUE(failure) << reason;
        EXPECT_EQ(failure->text.find("--"), std::string::npos) << failure->text;
    }
}

TEST(FirstDayErrors, WrongKey_NamesItsSource) {
    FailureContext context;
    context.where = "claude-sonnet-4-5 at api.anthropic.com";
    const Error refused(ErrorCode::auth, "invalid x-api-key");
    context.key_variable = "ANTHROPIC_API_KEY";
    EXPECT_NE(explain(refused, context).text.find("echo $ANTHROPIC_API_KEY"), std::string::npos);
    context.key_variable.clear();
    EXPECT_NE(explain(refused, context).text.find("config.yaml"), std::string::npos);
}

TEST(FirstDayErrors, WrongModel_IsExplained) {
    const Failure failure = after_call(
        MemoryResponse(404, R"({"error":{"message":"The model `gpt-51` does not exist",)"
                            R"("type":"invalid_request_error","code":"model_not_found"}})"),
        "gpt-51", "https://api.openai.com/v1", "gpt-51 at api.openai.com");
    EXPECT_EQ(printed(failure), golden("wrong-model"));
}

TEST(FirstDayErrors, ServerDown_IsExplained) {
    const Failure failure =
        after_call(broken(ErrorCode::connect,
                          "Cannot connect to localhost:11434: Connection refused. Check that the "
                          "server is running and that the address is right."),
                   "llama3.2", "http://localhost:11434/v1", "llama3.2 at localhost:11434");
    EXPECT_EQ(printed(failure), golden("server-down"));
}

TEST(FirstDayErrors, FailureAnswer_IsNotReportedAsUnreachableServer) {
    const Failure failure =
        after_call(MemoryResponse(503, R"({"error":{"message":"Overloaded"}})"), "llama3.2",
                   "http://localhost:11434/v1", "llama3.2 at localhost:11434");
    EXPECT_EQ(
        failure.text,
        "llama3.2 at localhost:11434 is unavailable (HTTP 503).\n"
        "  Server message: Overloaded\n"
        "  The failure is on the server's side: retry in a moment, or name another model with "
        "--model.");
}

TEST(FirstDayErrors, UnknownAddress_IsAdvisedToBeChecked) {
    const Failure failure = after_call(MemoryResponse(404, "404 page not found"), "llama3.2",
                                       "http://localhost:11434", "llama3.2 at localhost:11434");
    EXPECT_EQ(failure.text,
              "llama3.2 at localhost:11434 failed (HTTP 404).\n"
              "  Server message: 404 page not found\n"
              "  Check the address: it ends before the path that is added, such as "
              "/chat/completions. Then: cubepi "
              "doctor");
}

TEST(FirstDayErrors, ProxyFailure_IsExplained) {
    const Failure failure = after_call(
        broken(ErrorCode::proxy,
               "Cannot connect to the proxy proxy.example:3128: Connection refused. Check "
               "the proxy variables."),
        "gpt-5.1", "https://api.openai.com/v1", "gpt-5.1 at api.openai.com");
    EXPECT_EQ(printed(failure), golden("proxy"));
}

TEST(FirstDayErrors, TlsFailure_IsExplained) {
    const Failure failure = after_call(
        broken(ErrorCode::tls,
               "The TLS connection to llm.example:443 failed: SSL certificate problem: "
               "self-signed certificate in certificate chain. Check that the address is right."),
        "gpt-5.1", "https://llm.example/v1", "gpt-5.1 at llm.example");
    EXPECT_EQ(printed(failure), golden("tls"));
}

TEST(FirstDayErrors, LockedSessions_AreExplained) {
    setenv("HOME", "/home/you", 1);
    unsetenv("XDG_DATA_HOME");
    const Failure failure =
        explain(CheckpointerLockTimeoutError(ErrorCode::storage_locked, "database is locked", {},
                                             {}, "/home/you/.local/share/cubepi/sessions.db"));
    EXPECT_EQ(printed(failure), golden("locked"));
    EXPECT_EQ(failure.exit_code, exit_storage);
}

TEST(FirstDayErrors, D50_SessionInUse_IsExplained) {
    HeldClaim held;
    held.run_id = "r1";
    held.owner.owner_id = "other";
    held.owner.description = "pid 4711 on lighthouse";
    held.lease_until = 60;
    FailureContext context;
    context.session = "plan";
    Failure failure;
    try {
        detail::throw_thread_in_use("9d206d8bd1ce919f__c53a75b7909f4322", held);
    } catch (const Error& error) {
        failure = explain(error, context);
    }
    EXPECT_EQ(printed(failure), golden("in-use"));
    EXPECT_EQ(failure.exit_code, exit_storage);
}

TEST(FirstDayErrors, MissingTerminal_IsExplained) {
    FauxProvider faux;
    faux.set_responses(
        {faux_assistant_message(faux_tool_call("touch"), stop_reason::tool_use), "I see."});
    AgentOptions options;
    options.model = faux.model();
    bool ran = false;
    AgentTool touch("touch", "Writes.", AgentTool::no_parameters(), [&](JsonObject, ToolContext&) {
        ran = true;
        return AgentToolResult("done");
    });
    options.tools.push_back(std::move(touch));
    options.middleware.emplace_back(std::make_shared<ToolApproval>(
        ToolRules(), std::make_shared<InMemoryChannel>(), nullptr, ToolApproval::Options()));
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("Touch it."));
    EXPECT_TRUE(result);
    EXPECT_FALSE(ran);
    std::string told;
    for (const Message& message : result.new_messages) {
        if (message.tool_result()) told = message.text();
    }
    EXPECT_EQ(told, golden("no-terminal"));
}

TEST(FirstDayErrors, WrongFlag_IsExplained) {
    std::vector<std::string> words{"cubepi", "run", "--modle", "gpt-5.1", "hello"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    ::testing::internal::CaptureStderr();
    const CommandLine line =
        parse_command_line(static_cast<int>(arguments.size()), arguments.data());
    std::string text = ::testing::internal::GetCapturedStderr();
    while (text.ends_with('\n')) text.pop_back();
    EXPECT_EQ(text, golden("wrong-flag"));
    EXPECT_EQ(line.exit_code, exit_usage);
}

TEST(FirstDayErrors, CompilerWithoutCoroutines_IsExplained) {
    const std::string check =
        file_text(cubepi::testing::source_path("src/cubepi/core/detail/compiler_requirements.hpp"));
    EXPECT_NE(check.find("#error \"" + golden("compiler") + "\""), std::string::npos) << check;
    for (const char* first : {"task", "error", "json"}) {
        const std::string header =
            file_text(cubepi::testing::source_path("src/cubepi/core/") + first + ".hpp");
        const std::size_t include = header.find("#include");
        EXPECT_EQ(header.find("#include <cubepi/core/detail/compiler_requirements.hpp>"), include)
            << first;
    }
}

TEST(Failure, MissingCurrentDirectory_IsReported) {
    const auto failure = std::make_exception_ptr(std::filesystem::filesystem_error(
        "cannot get current path", std::make_error_code(std::errc::no_such_file_or_directory)));
    const Failure shown = explain(failure, FailureContext());
    EXPECT_EQ(shown.exit_code, exit_failed);
    EXPECT_EQ(shown.text,
              "the current directory no longer exists.\n  Change to an existing directory: cd");
}

TEST(Failure, OtherFailures_AreOneLineWithExitStatus) {
    EXPECT_EQ(explain(Error(ErrorCode::cancelled, "x")).exit_code, exit_aborted);
    EXPECT_EQ(explain(Error(ErrorCode::limit, "max_turns: 3")).exit_code, exit_limited);
    EXPECT_EQ(explain(Error(ErrorCode::storage_full, "no space")).exit_code, exit_storage);
    EXPECT_EQ(explain(Error(ErrorCode::storage_corrupt, "bad row")).exit_code, exit_storage);
    const std::string tape = bub::default_tape_directory().string() + "/w__s.jsonl";
    const Failure locked = explain(CheckpointerLockTimeoutError(
        ErrorCode::storage_locked, "another process holds " + tape, {}, {}, tape));
    EXPECT_NE(locked.text.find(tape), std::string::npos) << locked.text;
    EXPECT_EQ(locked.text.find("sessions.db"), std::string::npos) << locked.text;
    const Failure closed =
        explain(CheckpointerError(ErrorCode::permission_denied, "cannot open it", {}, {}, tape));
    EXPECT_EQ(closed.exit_code, exit_storage);
    EXPECT_NE(closed.text.find("BUB_HOME"), std::string::npos) << closed.text;
    EXPECT_EQ(explain(Error(ErrorCode::io, "cannot write x. Try y")).text, "cannot write x. Try y");
    const auto unknown = std::make_exception_ptr(std::runtime_error("out of order"));
    EXPECT_EQ(explain(unknown).text, "out of order");
}

}  // namespace
}  // namespace cubepi::app
