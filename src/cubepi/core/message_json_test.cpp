#include <cubepi/core/message_json.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

using boost::json::parse;
using boost::json::serialize;

/// Returns the message of a stored text, and checks that it is written back unchanged.
Message same_again(std::string_view stored) {
    Message message = message_from_json(parse(stored));
    EXPECT_EQ(serialize(to_json(message)), stored);
    return message;
}

std::string refusal(std::string_view stored) {
    try {
        message_from_json(parse(stored));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::validation);
        return error.what();
    }
    return "read";
}

void expect_refused(std::string_view stored, std::string_view key) {
    const std::string why = refusal(stored);
    EXPECT_NE(why.find("'" + std::string(key) + "'"), std::string::npos) << stored << ": " << why;
}

TEST(MessageJson, D41_UserMessage_KeepsItsKeyOrder) {
    const Message message = same_again(
        R"({"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":"aGk=",)"
        R"("media_type":"image/png"}],"id":"m1","timestamp":1.7000000005E9,)"
        R"("metadata":{"sender_display_name":"Ann"},"run_id":"r1"})");
    const UserMessage& user = *message.user();
    EXPECT_EQ(std::get<ImageContent>(user.content[1]).media_type, "image/png");
    EXPECT_EQ(user.id, "m1");
    EXPECT_EQ(user.timestamp, 1700000000.5);
    EXPECT_EQ(*user.metadata.find("sender_display_name"), "Ann");
    EXPECT_EQ(user.run_id, "r1");
    EXPECT_TRUE(user.extra.empty());
}

TEST(MessageJson, D41_AssistantMessage_KeepsItsKeyOrder) {
    const Message message = same_again(
        R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},)"
        R"({"type":"text","text":"ok"},{"type":"tool_call","id":"c1","name":"add",)"
        R"("arguments":{"a":1}}],"id":"m2","stop_reason":"tool_use","error_message":null,)"
        R"("error_type":null,"error_code":null,"status_code":null,"retry_after":null,)"
        R"("tokens_in":null,"context_window":null,"usage":{"input_tokens":10,"output_tokens":5,)"
        R"("cache_read_tokens":3,"cache_write_tokens":0,"reasoning_tokens":2},)"
        R"("timestamp":1.5E0,"provider_id":"anthropic","model_id":"m","response_id":"msg_1",)"
        R"("metadata":{},"run_id":"r1"})");
    const AssistantMessage& assistant = *message.assistant();
    EXPECT_EQ(assistant.stop_reason, stop_reason::tool_use);
    EXPECT_EQ(assistant.error, nullptr);
    EXPECT_EQ(assistant.usage->cache_write_tokens, 0);
    EXPECT_EQ(assistant.usage->reasoning_tokens, 2);
    EXPECT_EQ(assistant.tool_calls().at(0)->arguments, JsonObject({{"a", 1}}));
    EXPECT_EQ(assistant.response_id, "msg_1");
}

TEST(MessageJson, D41_ToolResult_KeepsItsKeyOrder) {
    const Message message = same_again(
        R"({"role":"tool_result","tool_call_id":"c1","tool_name":"add",)"
        R"("content":[{"type":"text","text":"2"}],"details":{"hitl":{"decision":"edit"}},)"
        R"("is_error":true,"id":"m3","timestamp":null,"metadata":{},"run_id":null})");
    const ToolResultMessage& result = *message.tool_result();
    EXPECT_EQ(result.tool_call_id, "c1");
    EXPECT_TRUE(result.is_error);
    EXPECT_EQ(result.timestamp, std::nullopt);
    EXPECT_TRUE(result.run_id.empty());
    EXPECT_EQ(result.details.at("hitl").at("decision"), "edit");
}

TEST(MessageJson, D9_D41_TypedError_IsStored) {
    const Message message = same_again(
        R"({"role":"assistant","content":[],"stop_reason":"error","error_message":"slow down",)"
        R"("error_type":"RateLimited","error_code":"rate_limit_exceeded","status_code":429,)"
        R"("retry_after":2.5E0,"tokens_in":9,"context_window":8192,"usage":null,"timestamp":null,)"
        R"("provider_id":"p","model_id":"m","response_id":null,"metadata":{},"run_id":null})");
    const ErrorInfo& error = *message.assistant()->error;
    EXPECT_EQ(error.code, ErrorCode::rate_limited);
    EXPECT_EQ(error.type, "RateLimited");
    EXPECT_EQ(error.provider_code, "rate_limit_exceeded");
    EXPECT_EQ(error.status_code, 429);
    EXPECT_EQ(error.retry_after, 2.5);
    EXPECT_EQ(error.tokens_in, 9);
    EXPECT_EQ(error.context_window, 8192);
}

TEST(MessageJson, D9_EveryErrorType_HasItsCode) {
    const std::vector<std::pair<std::string, ErrorCode>> types{
        {"ContextLengthExceeded", ErrorCode::context_length},
        {"RateLimited", ErrorCode::rate_limited},
        {"ProviderAuthFailed", ErrorCode::auth},
        {"ProviderUnavailable", ErrorCode::unavailable},
        {"ProviderBadRequest", ErrorCode::bad_request},
        {"ModelNotFound", ErrorCode::model_not_found},
        {"ContentFiltered", ErrorCode::content_filtered},
        {"SomethingNew", ErrorCode::provider}};
    for (const auto& [type, code] : types) {
        const Json json =
            JsonObject{{"role", "assistant"}, {"content", JsonArray()}, {"error_type", type}};
        EXPECT_EQ(message_from_json(json).assistant()->error->code, code) << type;
    }
}

TEST(MessageJson, JsonOfOlderVersions_MayLackKeys) {
    const Message user = message_from_json(parse(R"({"role":"user","content":[]})"));
    EXPECT_TRUE(user.id().empty());
    EXPECT_EQ(serialize(to_json(user)),
              R"({"role":"user","content":[],"timestamp":null,"metadata":{},"run_id":null})");
    const Message assistant = message_from_json(parse(R"({"role":"assistant","content":[]})"));
    EXPECT_EQ(assistant.assistant()->stop_reason, stop_reason::stop);
    EXPECT_EQ(assistant.assistant()->usage, std::nullopt);
    EXPECT_EQ(assistant.assistant()->error, nullptr);
    const Message result = message_from_json(
        parse(R"({"role":"tool_result","tool_call_id":"c","tool_name":"t","content":[]})"));
    EXPECT_FALSE(result.tool_result()->is_error);
    EXPECT_TRUE(result.tool_result()->details.is_null());
}

TEST(MessageJson, D13_D41_UnknownKeys_Survive) {
    const std::string_view stored =
        R"({"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"x",)"
        R"("redacted":true},{"type":"text","text":"a","cite":[1]},{"type":"tool_call","id":"c",)"
        R"("name":"n","arguments":{},"raw_arguments":"{\"a\":"},{"type":"image","source":"s",)"
        R"("media_type":"","alt":"b"}],"usage":{"output_tokens":1,"audio_tokens":7},)"
        R"("later":{"deep":[null]}})";
    const Message message = message_from_json(parse(stored));
    const JsonObject again = to_json(message);
    EXPECT_EQ(again.at("content"), parse(stored).at("content"));
    EXPECT_EQ(again.at("usage"), parse(stored).at("usage"));
    EXPECT_EQ(again.at("later"), parse(stored).at("later"));
    EXPECT_EQ((again.end() - 1)->key(), "later") << "keys of others come last";
    EXPECT_EQ(message_from_json(again), message);
    for (const std::string_view other :
         {R"({"role":"user","content":[],"usage":1})",
          R"({"role":"tool_result","tool_call_id":"c","tool_name":"t","content":[],"usage":1})"}) {
        EXPECT_EQ(to_json(message_from_json(parse(other))).at("usage"), 1);
    }
}

TEST(MessageJson, D12_UnreportedUsage_IsOmitted) {
    AssistantMessage message;
    message.usage.emplace();
    EXPECT_EQ(to_json(message).at("usage"), JsonObject());
    message.usage->output_tokens = 0;
    EXPECT_EQ(to_json(message).at("usage"), JsonObject({{"output_tokens", 0}}));
    message.usage.reset();
    EXPECT_TRUE(to_json(message).at("usage").is_null());
    EXPECT_TRUE(to_json(message).at("timestamp").is_null());
    const Message again =
        message_from_json(parse(R"({"role":"assistant","content":[],"usage":{"input_tokens":4}})"));
    EXPECT_EQ(again.assistant()->usage->input_tokens, 4);
    EXPECT_FALSE(again.assistant()->usage->output_tokens.has_value());
}

TEST(MessageJson, NumbersAsOthersWriteThem_AreRead) {
    const auto timestamp = [](std::string_view value) {
        return message_from_json(
                   parse(R"({"role":"user","content":[],"timestamp":)" + std::string(value) + "}"))
            .timestamp();
    };
    EXPECT_EQ(timestamp("5"), 5.0);
    EXPECT_EQ(timestamp("\"5.5\""), 5.5);
    EXPECT_EQ(timestamp("\"nan\""), std::nullopt);
    EXPECT_EQ(timestamp("\" +1_000.5 \""), 1000.5);
    EXPECT_EQ(timestamp("true"), 1.0);
    const Message odd = message_from_json(
        parse(R"({"role":"assistant","content":[],"status_code":1e300,"tokens_in":-1e300,)"
              R"("context_window":"70000","usage":{"input_tokens":-7,"output_tokens":1e300,)"
              R"("reasoning_tokens":2.5}})"));
    EXPECT_EQ(odd.assistant()->error->status_code, std::numeric_limits<int>::max());
    EXPECT_EQ(odd.assistant()->error->tokens_in, std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(odd.assistant()->error->context_window, 70000);
    EXPECT_FALSE(odd.assistant()->usage->input_tokens.has_value());
    EXPECT_EQ(odd.assistant()->usage->output_tokens, std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(odd.assistant()->usage->reasoning_tokens, 2);
    EXPECT_EQ(message_from_json(to_json(odd)), odd);
}

TEST(MessageJson, Refusal_NamesTheKey) {
    expect_refused("[]", "message");
    expect_refused("{}", "role");
    expect_refused(R"({"role":"system","content":[]})", "role");
    expect_refused(R"({"role":null,"content":[]})", "role");
    expect_refused(R"({"role":"user"})", "content");
    expect_refused(R"({"role":"user","content":"hi"})", "content");
    expect_refused(R"({"role":"user","content":[7]})", "content block");
    expect_refused(R"({"role":"user","content":[{"type":null,"text":"x"}]})", "type");
    expect_refused(R"({"role":"user","content":[{"type":"video"}]})", "type");
    expect_refused(R"({"role":"user","content":[{"type":"text","text":5}]})", "text");
    expect_refused(R"({"role":"user","content":[{"type":"thinking","thinking":"x"}]})", "content");
    expect_refused(R"({"role":"user","content":[],"timestamp":"soon"})", "timestamp");
    expect_refused(R"({"role":"user","content":[],"timestamp":[]})", "timestamp");
    expect_refused(R"({"role":"user","content":[],"timestamp":"1__0"})", "timestamp");
    expect_refused(R"({"role":"user","content":[],"timestamp":" "})", "timestamp");
    expect_refused(R"({"role":"user","content":[],"metadata":null})", "metadata");
    expect_refused(R"({"role":"user","content":[],"metadata":[]})", "metadata");
    expect_refused(R"({"role":"user","content":[],"run_id":5})", "run_id");
    const std::string call = R"({"role":"assistant","content":[{"type":"tool_call")";
    expect_refused(call + "}]}", "id");
    expect_refused(call + R"(,"id":"c"}]})", "name");
    expect_refused(call + R"(,"id":"c","name":"n"}]})", "arguments");
    expect_refused(call + R"(,"id":"c","name":"n","arguments":"{}"}]})", "arguments");
    const std::string assistant = R"({"role":"assistant","content":[],)";
    expect_refused(assistant + R"("stop_reason":null})", "stop_reason");
    expect_refused(assistant + R"("provider_id":null})", "provider_id");
    expect_refused(assistant + R"("model_id":7})", "model_id");
    expect_refused(assistant + R"("usage":[]})", "usage");
    expect_refused(assistant + R"("usage":{"input_tokens":null}})", "input_tokens");
    expect_refused(assistant + R"("status_code":"many"})", "status_code");
    const std::string result = R"({"role":"tool_result","tool_call_id":"c",)";
    expect_refused(R"({"role":"tool_result","content":[]})", "tool_call_id");
    expect_refused(result + R"("content":[]})", "tool_name");
    expect_refused(result + R"("tool_name":"t","content":[],"is_error":"maybe"})", "is_error");
}

TEST(MessageJson, D21_ValueRefusedByCubePi_IsRefused) {
    expect_refused(R"({"role":"user","content":[{"type":"text","text":null}]})", "text");
    expect_refused(R"({"role":"user","content":[{"type":"image","source":null}]})", "source");
    expect_refused(R"({"role":"user","content":[{"type":"image","media_type":null}]})",
                   "media_type");
    const std::string assistant = R"({"role":"assistant","content":[)";
    expect_refused(assistant + R"({"type":"thinking","thinking":null}]})", "thinking");
    expect_refused(assistant + R"(],"usage":{"input_tokens":4.5}})", "input_tokens");
    expect_refused(assistant + R"(],"status_code":429.5})", "status_code");
    const std::string result =
        R"({"role":"tool_result","tool_call_id":"c","tool_name":"t","content":[],"is_error":)";
    expect_refused(result + "null}", "is_error");
    expect_refused(result + "2}", "is_error");
}

TEST(MessageJson, D21_NumbersAndFlagsOfCubePi_AreRead) {
    const Message odd = message_from_json(parse(
        R"({"role":"assistant","content":[],"context_window":true,"usage":{"input_tokens":" 4 ",)"
        R"("output_tokens":"4.0","cache_read_tokens":"+1_0","cache_write_tokens":5.0,)"
        R"("reasoning_tokens":null}})"));
    const Usage& usage = *odd.assistant()->usage;
    EXPECT_EQ(usage.input_tokens, 4);
    EXPECT_EQ(usage.output_tokens, 4);
    EXPECT_EQ(usage.cache_read_tokens, 10);
    EXPECT_EQ(usage.cache_write_tokens, 5);
    EXPECT_FALSE(usage.reasoning_tokens.has_value());
    EXPECT_EQ(odd.assistant()->error->context_window, 1);
    const auto is_error = [](std::string_view value) {
        return message_from_json(parse(R"({"role":"tool_result","tool_call_id":"c",)"
                                       R"("tool_name":"t","content":[],"is_error":)" +
                                       std::string(value) + "}"))
            .tool_result()
            ->is_error;
    };
    for (const char* yes : {"1", "1.0", "\"true\"", "\"YES\"", "\"on\"", "\"1\"", "\"t\""})
        EXPECT_TRUE(is_error(yes)) << yes;
    for (const char* no : {"0", "0.0", "\"False\"", "\"n\"", "\"Off\"", "\"0\""})
        EXPECT_FALSE(is_error(no)) << no;
}

TEST(MessageJson, D21_BlockWithoutType_IsDeterminedByItsKeys) {
    const Message message = message_from_json(
        parse(R"({"role":"assistant","content":[{"text":"x"},{"source":"aGk="},{"thinking":"hm"},)"
              R"({"id":"c","name":"n","arguments":{}},{}]})"));
    const auto& content = message.assistant()->content;
    ASSERT_EQ(content.size(), 5U);
    EXPECT_EQ(std::get<TextContent>(content[0]).text, "x");
    EXPECT_EQ(std::get<ImageContent>(content[1]).source, "aGk=");
    EXPECT_EQ(std::get<ThinkingContent>(content[2]).thinking, "hm");
    EXPECT_EQ(std::get<ToolCall>(content[3]).id, "c");
    EXPECT_EQ(std::get<TextContent>(content[4]).text, "");
}

TEST(MessageJson, AssistantMessageFromJson_AcceptsOnlyAssistantMessages) {
    AssistantMessage message;
    message.content.emplace_back(TextContent{"x"});
    message.timestamp = 3;
    EXPECT_EQ(assistant_message_from_json(to_json(message)), message);
    EXPECT_THROW(assistant_message_from_json(to_json(user_message("x"))), Error);
}

}  // namespace
}  // namespace cubepi
