#include <cubepi/provider/openai_responses.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cubepi/core/message_json.hpp>
#include <cubepi/net/network_error.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

using testing::MemoryResponse;

std::string response(const std::string& id, const std::string& status, const std::string& more) {
    return R"({"type":"response.)" + status + R"(","response":{"id":")" + id + R"(","status":")" +
           status + R"(","error":null)" + more + "}}";
}

/// A whole answer: one message item.
MemoryResponse answer(const std::string& id, const std::string& text) {
    const std::string item =
        R"({"id":"msg_)" + id +
        R"(","type":"message","role":"assistant","content":[{"type":"output_text","text":")" +
        text + R"(","annotations":[]}]})";
    return MemoryResponse(200)
        .with_event(response(id, "created", ""))
        .with_event(R"({"type":"response.output_item.added","output_index":0,"item":{"id":"msg_)" +
                    id + R"(","type":"message","content":[]}})")
        .with_event(R"({"type":"response.output_text.delta","output_index":0,"delta":")" + text +
                    "\"}")
        .with_event(R"({"type":"response.output_item.done","output_index":0,"item":)" + item + "}")
        .with_event(response(id, "completed", R"(,"usage":{"input_tokens":1,"output_tokens":1})"));
}
/// A whole answer: one call.
MemoryResponse call(const std::string& id) {
    const std::string item =
        R"({"id":"fc_1","type":"function_call","call_id":"c1","name":"add","arguments":"{}"})";
    return MemoryResponse(200)
        .with_event(response(id, "created", ""))
        .with_event(R"({"type":"response.output_item.done","output_index":0,"item":)" + item + "}")
        .with_event(response(id, "completed", ""));
}
MemoryResponse refusal(int status, const std::string& code, const std::string& message) {
    return MemoryResponse(status,
                          R"({"error":{"message":")" + message + R"(","code":")" + code + "\"}}")
        .with_header("content-type", "application/json");
}

/// A provider at a server in memory, and a conversation with it.
struct Fixture : MemoryEndpoint {
    explicit Fixture(std::vector<MemoryResponse> answers, OpenAIResponsesOptions options = {})
        : MemoryEndpoint(std::move(answers)) {
        if (options.api_key.empty()) options.api_key = "sk-secret-key";
        provider = std::make_shared<OpenAIResponsesProvider>(std::move(options));
    }

    std::vector<StreamEvent> events(StreamOptions options = StreamOptions()) const {
        return read(provider->model("gpt-4.1").stream(messages, prompt, {},
                                                      std::move(options).runtime(runtime)));
    }
    /// Says something, and keeps the answer.
    std::vector<StreamEvent> turn(const std::string& text,
                                  StreamOptions options = StreamOptions()) {
        messages.push_back(user_message(text));
        return again(std::move(options));
    }
    std::vector<StreamEvent> again(StreamOptions options = StreamOptions()) {
        auto made = events(std::move(options));
        messages.push_back(made.back().partial.get());
        return made;
    }
    Json body(std::size_t index) const {
        return boost::json::parse(transport->requests().at(index).body);
    }
    bool refers(std::size_t index) const {
        return body(index).as_object().contains("previous_response_id");
    }

    std::shared_ptr<OpenAIResponsesProvider> provider;
    SharedString prompt = "Be brief.";
    MessageList messages;
};

OpenAIResponsesOptions stateful() { return {.server_state = true}; }

/// The codes of the notices.
std::string notices(const std::vector<StreamEvent>& events) {
    std::string codes;
    for (const StreamEvent& event : events) {
        if (event.notice) codes += (codes.empty() ? "" : " ") + event.notice->code;
    }
    return codes;
}
std::string reason(const std::vector<StreamEvent>& events) {
    for (const StreamEvent& event : events) {
        if (event.notice && event.notice->code == "server_state_dropped")
            return std::string(event.notice->details.at("reason").as_string());
    }
    return {};
}

void replace(MessageList& messages, std::size_t index, Message by) {
    MessageList changed;
    for (std::size_t i = 0; i < messages.size(); ++i)
        changed.push_back(i == index ? by : messages[i]);
    messages = changed;
}

TEST(OpenAIResponsesProvider, Call_SendsOneRequestAndStreamsTheAnswer) {
    Fixture it({answer("r1", "Hi")});
    const auto events = it.turn("x");
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hi) text_end done");
    const HttpRequest request = it.transport->requests().at(0);
    EXPECT_EQ(request.url, "https://api.openai.com/v1/responses");
    EXPECT_EQ(request.headers.get("authorization"), "Bearer sk-secret-key");
    EXPECT_EQ(it.body(0).at("store"), Json(false));
    EXPECT_EQ(it.transport->open_exchanges(), 0u);
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.response_id, "r1");
    EXPECT_FALSE(message.extra.find("server_state"));
}

TEST(OpenAIResponsesProvider, MissingKey_NamesTheRemedy) {
    Fixture it({}, {});
    auto keyless = OpenAIResponsesProvider(OpenAIResponsesOptions());
    MessageList messages{user_message("x")};
    const auto events = testing::run_advancing(
        *it.clock,
        read_all(keyless.model("m").stream(messages, {}, {}, StreamOptions().runtime(it.runtime))));
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.error->code, ErrorCode::auth);
    EXPECT_NE(message.error_message.str().find("OpenAIResponsesOptions::api_key"),
              std::string::npos);
    EXPECT_THROW(OpenAIResponsesProvider({.base_url = "example.com"}), Error);
}

TEST(OpenAIResponsesProvider, D15_FailureBeforeContent_IsRetried) {
    const std::string failed =
        R"({"type":"response.failed","response":{"id":"r0","status":"failed","error":{"code":"server_error","message":"oops"}}})";
    Fixture it({MemoryResponse(200).with_event(response("r0", "created", "")).with_event(failed),
                answer("r1", "Hi")});
    const auto events = it.turn("x");
    EXPECT_EQ(spelled(events), "start notice(retry) text_start text_delta(Hi) text_end done");
    EXPECT_EQ(events.back().partial.get().response_id, "r1");
}

TEST(OpenAIResponsesProvider, D9_FailureAfterContent_KeepsTheContent) {
    Fixture it(
        {MemoryResponse(200)
             .with_event(response("r1", "created", ""))
             .with_event(R"({"type":"response.output_text.delta","output_index":0,"delta":"Hal"})")
             .with_event(
                 R"({"type":"error","code":"rate_limit_exceeded","message":"Slow down"})")});
    const auto events = it.turn("x");
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hal) error");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.text(), "Hal");
    EXPECT_EQ(message.error->code, ErrorCode::rate_limited);
    EXPECT_EQ(message.error->provider_code, "rate_limit_exceeded");
    EXPECT_EQ(message.response_id, "");
}

TEST(OpenAIResponsesProvider, D13_RejectedReasoning_IsOmittedOnRetry) {
    const std::string item =
        R"({"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAAABBCCDD"})";
    const MemoryResponse refusals[] = {
        refusal(400, "invalid_encrypted_content", "The encrypted content could not be verified."),
        refusal(400, "x", "reasoning item could not be decrypted"),
        refusal(400, "x", "Decryption of the reasoning failed"),
        refusal(400, "x", "input[2]: unsupported item type"),
        refusal(400, "x", "The content gAAAAABBCCDD could not be verified."),
        refusal(400, "x", "The content gAAAA... could not be verified."),
        MemoryResponse(
            400,
            R"({"error":{"message":"Invalid value.","param":"input[2].encrypted_content","code":"invalid_value"}})")};
    for (const MemoryResponse& refused : refusals) {
        Fixture it(
            {MemoryResponse(200)
                 .with_event(R"({"type":"response.output_item.done","output_index":0,"item":)" +
                             item + "}")
                 .with_event(
                     R"({"type":"response.output_text.delta","output_index":1,"delta":"A"})")
                 .with_event(response("r1", "completed", "")),
             refused, answer("r2", "B")});
        it.turn("x");
        const auto events = it.turn("y");
        EXPECT_EQ(notices(events), "request_changed");
        EXPECT_EQ(events.back().partial.get().text(), "B");
        const Json with = it.body(1);
        EXPECT_EQ(with.at_pointer("/input/2/type"), Json("reasoning"));
        const Json without = it.body(2);
        for (const Json& sent : without.at("input").as_array())
            EXPECT_FALSE(sent.as_object().contains("encrypted_content"));
    }
}

TEST(OpenAIResponsesProvider, D57_ServerHasHistory_OnlyNewMessagesAreSent) {
    Fixture it({answer("r1", "One"), answer("r2", "Two"), call("r3"), answer("r4", "Four")},
               stateful());
    it.turn("a");
    EXPECT_EQ(it.body(0).at("store"), Json(true));
    EXPECT_EQ(it.body(0).at("instructions"), Json("Be brief."));
    EXPECT_FALSE(it.refers(0));
    EXPECT_EQ(notices(it.turn("b")), "");
    EXPECT_EQ(it.body(1).at("previous_response_id"), Json("r1"));
    EXPECT_EQ(
        it.body(1).at("input"),
        boost::json::parse(R"([{"role":"user","content":[{"type":"input_text","text":"b"}]}])"));
    it.turn("c");
    ToolResultMessage result;
    result.tool_call_id = "c1|fc_1";
    result.tool_name = "add";
    result.content.emplace_back(TextContent{"3"});
    it.messages.push_back(result);
    it.again();
    EXPECT_EQ(it.body(3).at("previous_response_id"), Json("r3"));
    EXPECT_EQ(
        it.body(3).at("input"),
        boost::json::parse(R"([{"type":"function_call_output","call_id":"c1","output":"3"}])"));
}

TEST(OpenAIResponsesProvider, D57_LoadedMessages_StillReferToTheResponse) {
    Fixture it({answer("r1", "One"), answer("r2", "Two")}, stateful());
    it.turn("a");
    MessageList loaded;
    for (const Message& message : it.messages)
        loaded.push_back(
            message_from_json(boost::json::parse(boost::json::serialize(to_json(message)))));
    it.messages = loaded;
    // The endpoint does not keep the system prompt, so that it may change.
    it.prompt = "Another prompt.";
    it.turn("b");
    EXPECT_TRUE(it.refers(1));
}

TEST(OpenAIResponsesProvider, D57_EditedHistory_IsSentWhole) {
    Fixture it({answer("r1", "One"), answer("r2", "Two"), answer("r3", "Three")}, stateful());
    it.turn("a");
    replace(it.messages, 0, user_message("A, edited"));
    EXPECT_EQ(reason(it.turn("b")), "the history was changed");
    EXPECT_FALSE(it.refers(1));
    EXPECT_EQ(it.body(1).at("input").as_array().size(), 3u);
    AssistantMessage edited = *it.messages[3].assistant();
    std::get<TextContent>(edited.content[0]).text = "Too";
    replace(it.messages, 3, edited);
    EXPECT_EQ(reason(it.turn("c")), "the history was changed");
    EXPECT_FALSE(it.refers(2));
}

TEST(OpenAIResponsesProvider, D57_CompactedHistory_IsSentWhole) {
    Fixture it(
        {answer("r1", "One"), answer("r2", "Two"), answer("r3", "Three"), answer("r4", "Four")},
        stateful());
    it.turn("a");
    it.turn("b");
    // A summary in place of the first turn; the last answer stays.
    const Message last_user = it.messages[2];
    const Message last_answer = it.messages[3];
    it.messages = MessageList{synthetic_user_message("Before: a, One.", "compaction_summary"),
                              last_user, last_answer};
    EXPECT_EQ(reason(it.turn("c")), "the history was changed");
    EXPECT_FALSE(it.refers(2));
    // From here on the server has the shortened history.
    it.turn("d");
    EXPECT_EQ(it.body(3).at("previous_response_id"), Json("r3"));
}

TEST(OpenAIResponsesProvider, D57_RepairedHistory_IsSentWhole) {
    Fixture it({call("r1"), answer("r2", "Two"), call("r3"), answer("r4", "Four")}, stateful());
    it.turn("a");
    // The call has no result: the request says so.
    EXPECT_EQ(notices(it.turn("b")), "repair server_state_dropped");
    EXPECT_FALSE(it.refers(1));
    // The same, repaired and stored by an agent before it asks.
    it.messages = MessageList();
    it.turn("c");
    ToolResultMessage interrupted;
    interrupted.tool_call_id = "c1|fc_1";
    interrupted.tool_name = "add";
    interrupted.is_error = true;
    interrupted.content.emplace_back(
        TextContent{"This call was interrupted; whether it took effect is unknown."});
    it.messages.push_back(interrupted);
    EXPECT_EQ(reason(it.turn("d")), "the history was repaired");
    EXPECT_FALSE(it.refers(3));
}

TEST(OpenAIResponsesProvider, D57_Failover_SendsTheWholeHistory) {
    Fixture it({answer("r1", "One"), answer("r2", "Two")}, stateful());
    it.turn("a");
    it.messages.push_back(user_message("b"));
    AssistantMessage other;
    other.provider_id = "anthropic";
    other.content.emplace_back(TextContent{"From elsewhere"});
    it.messages.push_back(other);
    EXPECT_EQ(reason(it.turn("c")), "the last answer is another provider's");
    EXPECT_FALSE(it.refers(1));
    EXPECT_EQ(it.body(1).at("input").as_array().size(), 5u);
}

TEST(OpenAIResponsesProvider, D57_TruncatedAnswer_SendsTheWholeHistory) {
    Fixture it(
        {answer("r1", "One"),
         MemoryResponse(200)
             .with_event(R"({"type":"response.output_text.delta","output_index":0,"delta":"Hal"})")
             .with_failure(NetworkError(ErrorCode::disconnected, "h", true, "reset")),
         answer("r3", "Three")},
        stateful());
    it.turn("a");
    it.turn("b");
    EXPECT_EQ(reason(it.turn("c")), "the last answer was not finished");
    EXPECT_FALSE(it.refers(2));
}

TEST(OpenAIResponsesProvider, D57_OtherEndpoint_ReceivesTheWholeHistory) {
    Fixture it({answer("r1", "One")}, stateful());
    it.turn("a");
    Fixture other({answer("r2", "Two")},
                  {.base_url = "https://other.example/v1", .server_state = true});
    other.messages = it.messages;
    EXPECT_EQ(reason(other.turn("b")), "the history was changed");
    EXPECT_FALSE(other.refers(0));
}

TEST(OpenAIResponsesProvider, D57_ForgottenResponse_SendsTheWholeHistory) {
    Fixture it(
        {answer("r1", "One"),
         refusal(400, "previous_response_not_found", "Previous response with id 'r1' not found."),
         answer("r2", "Two"), answer("r3", "Three")},
        stateful());
    it.turn("a");
    const auto events = it.turn("b");
    EXPECT_EQ(notices(events), "request_changed server_state_dropped");
    EXPECT_EQ(events.back().partial.get().text(), "Two");
    EXPECT_TRUE(it.refers(1));
    EXPECT_FALSE(it.refers(2));
    EXPECT_EQ(it.body(2).at("input").as_array().size(), 3u);
    it.turn("c");
    EXPECT_EQ(it.body(3).at("previous_response_id"), Json("r2"));
}

Task<std::optional<JsonObject>> with_one_item_more(JsonObject body, Model) {
    body["input"].as_array().insert(
        body["input"].as_array().begin(),
        boost::json::parse(R"({"role":"user","content":[{"type":"input_text","text":"secret"}]})"));
    std::optional<JsonObject> changed(std::move(body));
    co_return changed;
}

TEST(OpenAIResponsesProvider, D57_PayloadChangedByHook_SendsTheWholeHistory) {
    Fixture it({answer("r1", "One"), answer("r2", "Two")}, stateful());
    it.turn("a", StreamOptions().on_payload(with_one_item_more));
    EXPECT_EQ(it.body(0).at("input").as_array().size(), 2u);
    it.turn("b");
    EXPECT_FALSE(it.refers(1));
}

TEST(OpenAIResponsesProvider, Preview_ShowsTheRequestWithoutSendingIt) {
    Fixture it({});
    const PayloadPreview shown = preview_request(
        it.provider->model("gpt-4.1"), MessageList{user_message("x")}, "Be brief.", {}, {});
    EXPECT_EQ(shown.payload.at("input").as_array().size(), 2u);
    EXPECT_TRUE(it.transport->requests().empty());
}

TEST(OpenAIResponsesProvider, ResponseFormat_IsAcceptedUnlessDisabled) {
    Model model;
    model.id = "gpt-4.1";
    Fixture it({});
    EXPECT_TRUE(it.provider->takes_response_format(model));
    CapabilityDescriptor without;
    without.response_format = false;
    Fixture old({}, {.capability = without});
    EXPECT_FALSE(old.provider->takes_response_format(model));
}

TEST(OpenAIResponsesProvider, Observers_ReceiveAResponse) {
    Fixture it({answer("r1", "Hi")});
    JsonObject seen;
    const ObserverHandle handle =
        it.provider->subscribe_response([&](const ProviderOutcome& outcome, const ProviderCall&) {
            seen = outcome.body().as_object();
        });
    it.turn("x");
    EXPECT_EQ(seen.at("object"), Json("response"));
    EXPECT_EQ(seen.at("output").at(0).at("content").at(0).at("text"), Json("Hi"));
}

// The programs of examples/ send requests with such a model.
TEST(OpenAIResponsesProvider, BaseUrlInEnvironment_IsValidated) {
    setenv("OPENAI_BASE_URL", "localhost:8080", 1);
    EXPECT_THROW(openai_responses_model("m"), Error);
    setenv("OPENAI_BASE_URL", "http://localhost:8080/v1", 1);
    EXPECT_EQ(openai_responses_model("m").spec().id, "m");
    unsetenv("OPENAI_BASE_URL");
    EXPECT_EQ(openai_responses_model("m").spec().id, "m");
}

// Compaction by the endpoint.

/// A whole answer, before which the endpoint has compacted the conversation.
MemoryResponse compacted_answer(const std::string& id) {
    const std::string item = R"({"id":"cmp_1","type":"compaction","encrypted_content":"gAAA"})";
    const std::string text = R"({"id":"m_1","type":"message","role":"assistant",)"
                             R"("content":[{"type":"output_text","text":"Hi","annotations":[]}]})";
    return MemoryResponse(200)
        .with_event(response(id, "created", ""))
        .with_event(R"({"type":"response.output_item.done","output_index":0,"item":)" + item + "}")
        .with_event(R"({"type":"response.output_item.done","output_index":1,"item":)" + text + "}")
        .with_event(response(id, "completed", R"(,"usage":{"input_tokens":9,"output_tokens":1})"));
}

TEST(OpenAIResponsesProvider, D141_CompactedItems_AreNotSentAgain) {
    Fixture it({answer("r1", "One"), compacted_answer("r2"), answer("r3", "Three")});
    it.turn("first");
    it.turn("second", StreamOptions().compact_at(1000));
    EXPECT_EQ(it.body(1).at("context_management"),
              boost::json::parse(R"([{"type":"compaction","compact_threshold":1000}])"));
    EXPECT_TRUE(has_compacted(*it.messages.back().assistant()));
    it.turn("third");
    const std::string sent = boost::json::serialize(it.body(2).at("input"));
    EXPECT_EQ(sent.find("first"), std::string::npos) << sent;
    EXPECT_EQ(sent.find("second"), std::string::npos) << sent;
    EXPECT_NE(sent.find(R"("encrypted_content":"gAAA")"), std::string::npos) << sent;
    EXPECT_NE(sent.find("Hi"), std::string::npos);
    EXPECT_NE(sent.find("third"), std::string::npos);
}

TEST(OpenAIResponsesProvider, D141_EndpointWithStoredState_CompactsItself) {
    Fixture it({answer("r1", "One"), compacted_answer("r2"), answer("r3", "Three")},
               {.server_state = true});
    it.turn("first");
    it.turn("second", StreamOptions().compact_at(1000));
    it.turn("third");
    EXPECT_TRUE(it.refers(1));
    EXPECT_TRUE(it.refers(2));
}

TEST(OpenAIResponsesProvider, D141_RefusedCompaction_IsLeftOut) {
    Fixture it({refusal(400, "unknown_parameter", "Unknown parameter: 'context_management'."),
                answer("r1", "One")});
    const auto events = it.turn("first", StreamOptions().compact_at(1000));
    EXPECT_EQ(events.back().type, StreamEventType::done);
    EXPECT_FALSE(it.body(1).as_object().contains("context_management"));
    Fixture other({answer("r1", "One")}, {.base_url = "http://localhost:1/v1"});
    other.turn("first", StreamOptions().compact_at(1000));
    EXPECT_FALSE(other.body(0).as_object().contains("context_management"));
}

}  // namespace
}  // namespace cubepi
