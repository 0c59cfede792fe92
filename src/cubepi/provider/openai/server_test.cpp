#include <cubepi/provider/openai/server_api.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <cubepi/provider/openai/chat_api.hpp>
#include <cubepi/provider/openai/responses_api.hpp>
#include <cubepi/provider/wire/decoder_test_support.hpp>
#include <cubepi/schema/json_text.hpp>

// The server's side of the two protocols, judged by the client's side where there is one.

namespace cubepi::detail {
namespace {

using Reader = OpenAIClientRequest (*)(std::string_view body);

/// Returns the member that the reader refuses; "accepted" if it refuses none.
std::string refused(Reader read, const std::string& body) {
    try {
        (void)read(body);
    } catch (const OpenAIRequestError& error) {
        return error.member();
    }
    return "accepted";
}

std::string chat(const std::string& messages, const std::string& more = {}) {
    return R"({"model":"cubepi","messages":)" + messages + more + "}";
}

std::string responses(const std::string& input, const std::string& more = {}) {
    return R"({"model":"cubepi","input":)" + input + more + "}";
}

OpenAIReplyHead head(const std::string& id) {
    OpenAIReplyHead made;
    made.id = id;
    made.model = "cubepi";
    made.created = 5;
    return made;
}

std::string joined(const std::vector<std::string>& events) {
    std::string all;
    for (const std::string& event : events) all += event;
    return all;
}

TEST(OpenAIServer, ChatRequest_IsRead) {
    const OpenAIClientRequest read = read_openai_chat_request(chat(
        R"([{"role":"system","content":"Be brief."},{"role":"developer","content":[{"type":"text","text":"No jokes."}]},
            {"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},
            {"role":"user","content":[{"type":"text","text":"What is this?"},
              {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
              {"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,QUJD"}}]}])",
        R"(,"stream":true,"user":"ann","metadata":{"session":"s1"},"n":1,"temperature":0.5,"tools":[])"));
    EXPECT_EQ(read.model, "cubepi");
    EXPECT_EQ(read.instructions, "Be brief.\n\nNo jokes.");
    EXPECT_EQ(read.user, "ann");
    EXPECT_EQ(read.metadata.at("session"), Json("s1"));
    EXPECT_TRUE(read.streams);
    ASSERT_EQ(read.messages.size(), 3u);
    EXPECT_TRUE(read.messages[1].is_answer);
    EXPECT_EQ(read.messages[2].text, "What is this?");
    ASSERT_EQ(read.messages[2].files.size(), 2u);
    EXPECT_EQ(read.messages[2].files[0].type, "image/png");
    EXPECT_EQ(read.messages[2].files[1].name, "a.txt");
    EXPECT_EQ(read.messages[2].files[1].content, "QUJD");
}

TEST(OpenAIServer, RequestOfOurClient_IsRead) {
    ModelRequest request;
    request.model.id = "cubepi";
    request.system_prompt = "Be brief.";
    request.messages = {user_message("Hi")};
    const Json chat_body(build_openai_chat(request, OpenAIChatSettings()).body);
    const OpenAIClientRequest read = read_openai_chat_request(json_text(chat_body));
    EXPECT_EQ(read.instructions, "Be brief.");
    ASSERT_EQ(read.messages.size(), 1u);
    EXPECT_EQ(read.messages[0].text, "Hi");
    std::vector<Notice> notices;
    const Json body(build_openai_responses(request, OpenAIResponsesSettings(),
                                           responses_input(request, false, notices).items)
                        .body);
    const OpenAIClientRequest other = read_openai_responses_request(json_text(body));
    EXPECT_EQ(other.instructions, "Be brief.");
    ASSERT_EQ(other.messages.size(), 1u);
    EXPECT_EQ(other.messages[0].text, "Hi");
}

TEST(OpenAIServer, UnsupportedChatRequest_NamesTheMember) {
    const std::string hi = R"([{"role":"user","content":"Hi"}])";
    const Reader read = read_openai_chat_request;
    EXPECT_EQ(refused(read, chat(hi)), "accepted");
    EXPECT_EQ(refused(read, "[]"), "");
    EXPECT_EQ(refused(read, "{"), "");
    EXPECT_EQ(refused(read, R"({"messages":[]})"), "model");
    EXPECT_EQ(refused(read, chat("7")), "messages");
    EXPECT_EQ(refused(read, chat("[]")), "messages");
    EXPECT_EQ(refused(read, chat(R"([{"role":"user","content":""}])")), "messages");
    EXPECT_EQ(refused(read, chat(R"([{"role":"assistant","content":"Hi"}])")), "messages");
    EXPECT_EQ(refused(read, chat("[7]")), "messages[0]");
    EXPECT_EQ(refused(read, chat(R"([{"role":"tool","content":"x"}])")),
              "messages[0].tool_call_id");
    EXPECT_EQ(refused(read, chat(R"([{"role":"user","content":[{"type":"input_audio"}]}])")),
              "messages[0].content[0].type");
    EXPECT_EQ(
        refused(
            read,
            chat(
                R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://10.0.0.1/"}}]}])")),
        "messages[0].content[0].image_url.url");
    EXPECT_EQ(refused(read, chat(R"([{"role":"assistant","tool_calls":7}])")),
              "messages[0].tool_calls");
    EXPECT_EQ(refused(read, chat(R"([{"role":"assistant","tool_calls":[{"id":"c"}]}])")),
              "messages[0].tool_calls[0].name");
    for (const std::string member : {"audio", "functions"})
        EXPECT_EQ(refused(read, chat(hi, ",\"" + member + R"(":[{"a":1}])")), member);
    EXPECT_EQ(refused(read, chat(hi, R"(,"n":2)")), "n");
    EXPECT_EQ(refused(read, chat(hi, R"(,"response_format":{"type":"json_object"})")),
              "response_format");
    EXPECT_EQ(refused(read, chat(hi, R"(,"metadata":{"a":1})")), "metadata.a");
    EXPECT_EQ(refused(read, chat(hi, ",\"user\":\"" + std::string(201, 'x') + "\"")), "user");
}

TEST(OpenAIServer, D214_ToolsOfTheClient_AreRead) {
    const OpenAIClientRequest chat_read = read_openai_chat_request(chat(
        R"([{"role":"user","content":"Hi"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
              "function":{"name":"clock","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"noon"}]}])",
        R"(,"tools":[{"type":"function","function":{"name":"clock","description":"Tells it.",
              "parameters":{"type":"object"}}},{"type":"function","function":{"name":"plain"}}],
            "tool_choice":{"type":"function","function":{"name":"clock"}},
            "parallel_tool_calls":false,"stream_options":{"include_usage":true})"));
    ASSERT_EQ(chat_read.messages.size(), 3u);
    EXPECT_EQ(chat_read.messages[1].calls.at(0).name, "clock");
    EXPECT_EQ(chat_read.messages[2].output_of, "c1");
    EXPECT_EQ(chat_read.messages[2].text, "noon");
    ASSERT_EQ(chat_read.tools.size(), 2u);
    EXPECT_EQ(chat_read.tools[0].description, "Tells it.");
    EXPECT_EQ(chat_read.tools[1].parameters.at("type"), Json("object"));
    EXPECT_EQ(chat_read.tool_choice, OpenAIToolChoice::named);
    EXPECT_EQ(chat_read.chosen_tool, "clock");
    EXPECT_FALSE(chat_read.parallel_calls);
    EXPECT_TRUE(chat_read.includes_usage);
    const OpenAIClientRequest read = read_openai_responses_request(responses(
        R"([{"type":"function_call","call_id":"c1","name":"clock","arguments":"{}"},
            {"type":"function_call_output","call_id":"c1","output":"noon"}])",
        R"(,"tools":[{"type":"function","name":"clock"},{"type":"function","name":"other"}],
            "tool_choice":{"type":"allowed_tools","mode":"required",
              "tools":[{"type":"function","name":"clock"}]})"));
    ASSERT_EQ(read.messages.size(), 2u);
    EXPECT_TRUE(read.messages[0].is_answer);
    EXPECT_EQ(read.messages[1].output_of, "c1");
    ASSERT_EQ(read.tools.size(), 1u);
    EXPECT_EQ(read.tool_choice, OpenAIToolChoice::required);
}

TEST(OpenAIServer, D214_InvalidTools_NameTheMember) {
    const auto tools = [](const std::string& list) {
        return refused(read_openai_responses_request, responses("\"Hi\"", ",\"tools\":" + list));
    };
    EXPECT_EQ(tools("7"), "tools");
    EXPECT_EQ(tools("[7]"), "tools[0]");
    EXPECT_EQ(tools(R"([{"name":"f"}])"), "tools[0].type");
    // It is not offered, and cannot be chosen.
    EXPECT_EQ(tools(R"([{"type":"web_search"}])"), "accepted");
    EXPECT_EQ(
        tools(R"([{"type":"custom","name":"f"}],"tool_choice":{"type":"function","name":"f"})"),
        "tool_choice");
    for (const std::string name : {"", "a.b", "a b", "\\u00e4"}) {
        EXPECT_EQ(tools(R"([{"type":"function","name":")" + name + "\"}]"), "tools[0].name")
            << name;
    }
    EXPECT_EQ(tools(R"([{"type":"function","name":")" + std::string(65, 'x') + "\"}]"),
              "tools[0].name");
    EXPECT_EQ(tools(R"([{"type":"function","name":"f","parameters":[]}])"), "tools[0].parameters");
    EXPECT_EQ(tools(R"([{"type":"function","name":"f","parameters":{"type":"other"}}])"),
              "tools[0].parameters");
    EXPECT_EQ(tools(R"([{"type":"function","name":"f"},{"type":"function","name":"f"}])"),
              "tools[1]");
    std::string many = "[";
    for (std::size_t i = 0; i <= most_client_tools; ++i) {
        many += std::string(i > 0 ? "," : "") + R"({"type":"function","name":"f)" +
                std::to_string(i) + "\"}";
    }
    EXPECT_EQ(tools(many + "]"), "tools");
    for (const std::string choice : {R"("some")", "7", R"({"type":"function","name":"g"})",
                                     R"({"type":"allowed_tools","mode":"auto","tools":7})"}) {
        EXPECT_TRUE(tools(R"([{"type":"function","name":"f"}],"tool_choice":)" + choice)
                        .starts_with("tool_choice"))
            << choice;
    }
    EXPECT_EQ(refused(read_openai_responses_request,
                      responses(R"([{"type":"function_call_output","call_id":"c","output":""},
                                    {"type":"function_call_output","call_id":"c","output":""}])")),
              "input");
}

TEST(OpenAIServer, D214_Calls_AreReadByTheDecoders) {
    const OpenAIClientCall clock{"c1", "clock", R"({"zone":"UTC"})"};
    const OpenAIClientCall weather{"c2", "weather", "{}"};
    OpenAIChatWriter chat_writer(head("chatcmpl-1"), true);
    std::string body;
    chat_writer.add_text("Let me see.", body);
    chat_writer.add_call(clock, body);
    chat_writer.add_call(weather, body);
    chat_writer.set_usage({9, 2, 4, 1});
    chat_writer.finish("tool_calls", body);
    const Decoded chunks = decode_with<OpenAIChatDecoder>(body, 0, false);
    OpenAIResponsesWriter writer(head("resp_1"), JsonObject());
    std::vector<std::string> events;
    writer.begin(events);
    writer.add_text("Let me see.", events);
    writer.add_call(clock, events);
    writer.add_call(weather, events);
    writer.set_usage({9, 2, 4, 1});
    writer.finish(OpenAIResponseStatus::completed, "", events);
    const Decoded streamed = decode_with<OpenAIResponsesDecoder>(joined(events), 0);
    for (const Decoded* const it : {&chunks, &streamed}) {
        const std::vector<const ToolCall*> calls = it->message.tool_calls();
        ASSERT_EQ(calls.size(), 2u);
        EXPECT_EQ(calls[0]->name.str(), "clock");
        EXPECT_EQ(calls[0]->arguments.at("zone"), Json("UTC"));
        EXPECT_EQ(calls[1]->name.str(), "weather");
        ASSERT_TRUE(it->message.usage);
        EXPECT_EQ(it->message.usage->input_tokens, TokenCount(7));
        EXPECT_EQ(it->message.usage->cache_read_tokens, TokenCount(2));
        EXPECT_EQ(it->message.usage->output_tokens, TokenCount(4));
    }
    const JsonObject completion = chat_writer.completion("", "tool_calls");
    const Json& message = completion.at("choices").at(0).at("message");
    EXPECT_TRUE(message.at("content").is_null());
    EXPECT_EQ(message.at("tool_calls").at(1).at("id"), Json("c2"));
    EXPECT_EQ(completion.at("usage").at("total_tokens"), Json(13));
}

TEST(OpenAIServer, ResponsesRequest_IsRead) {
    const OpenAIClientRequest text = read_openai_responses_request(
        responses("\"Hi\"", R"(,"instructions":"Be brief.","background":true)"));
    EXPECT_EQ(text.messages.at(0).text, "Hi");
    EXPECT_EQ(text.instructions, "Be brief.");
    EXPECT_TRUE(text.in_background);
    EXPECT_TRUE(text.stores);
    const OpenAIClientRequest items = read_openai_responses_request(responses(
        R"([{"role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[]},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]},
            {"role":"user","content":[{"type":"input_text","text":"And this?"},
              {"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}])",
        R"(,"previous_response_id":"resp_1","store":false)"));
    ASSERT_EQ(items.messages.size(), 3u);
    EXPECT_TRUE(items.messages[1].is_answer);
    EXPECT_EQ(items.messages[2].files.size(), 1u);
    EXPECT_EQ(items.previous_response, "resp_1");
    EXPECT_FALSE(items.stores);
    const OpenAIClientRequest approval = read_openai_responses_request(responses(
        R"([{"type":"mcp_approval_response","approval_request_id":"3f09c2a71b","approve":false,"reason":"no"}])"));
    ASSERT_TRUE(approval.approval);
    EXPECT_EQ(approval.approval->request, "3f09c2a71b");
    EXPECT_FALSE(approval.approval->approves);
    EXPECT_EQ(approval.approval->reason, "no");
}

TEST(OpenAIServer, D216_CompactRequest_IsRead) {
    const OpenAIClientRequest read = read_openai_compact_request(
        responses(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}])"));
    EXPECT_EQ(read.messages.size(), 2u);
    EXPECT_EQ(read_openai_compact_request(R"({"model":"m","previous_response_id":"resp_1"})")
                  .previous_response,
              "resp_1");
    const Reader compact = read_openai_compact_request;
    EXPECT_EQ(refused(compact, R"({"model":"m"})"), "input");
    EXPECT_EQ(refused(compact, responses("7")), "input");
    const OpenAIClientRequest next =
        read_openai_responses_request(responses(R"([{"role":"user","content":"dropped"},
                      {"type":"compaction","id":"cmp_1","encrypted_content":"resp_1"},
                      {"role":"user","content":"And now?"}])"));
    EXPECT_EQ(next.compaction, "resp_1");
    ASSERT_EQ(next.messages.size(), 1u);
    EXPECT_EQ(next.messages[0].text, "And now?");
    EXPECT_EQ(refused(read_openai_responses_request, responses(R"([{"type":"compaction"}])")),
              "input[0].encrypted_content");
}

TEST(OpenAIServer, UnsupportedResponsesRequest_NamesTheMember) {
    const Reader read = read_openai_responses_request;
    EXPECT_EQ(refused(read, responses("\"Hi\"")), "accepted");
    EXPECT_EQ(refused(read, responses("\"\"")), "input");
    EXPECT_EQ(refused(read, responses("7")), "input");
    EXPECT_EQ(refused(read, responses(R"([{"type":"function_call_output"}])")), "input[0].call_id");
    EXPECT_EQ(refused(read, responses(R"([{"type":"function_call_output","call_id":"c"}])")),
              "input[0].output");
    EXPECT_EQ(refused(read, responses(R"([{"type":"custom_tool_call","call_id":"c"}])")),
              "input[0].type");
    EXPECT_EQ(refused(read, responses(R"([{"role":"user"}])")), "input[0].content");
    EXPECT_EQ(refused(read, responses("\"Hi\"", R"(,"background":true,"store":false)")),
              "background");
    EXPECT_EQ(refused(read, responses("\"Hi\"", R"(,"text":{"format":{"type":"json_schema"}})")),
              "text.format");
    EXPECT_EQ(
        refused(read, responses(R"([{"type":"mcp_approval_response","approval_request_id":"a"}])")),
        "input[0].approve");
    std::string many = "[";
    for (std::size_t i = 0; i <= most_client_messages; ++i)
        many += std::string(i > 0 ? "," : "") + R"({"role":"user","content":"x"})";
    EXPECT_EQ(refused(read, responses(many + "]")), "input");
}

TEST(OpenAIServer, ChatChunks_AreReadByTheDecoder) {
    OpenAIChatWriter writer(head("chatcmpl-1"));
    std::string body;
    writer.add_text("Two \"tickets\"\n", body);
    writer.add_text("are ö\xf0\x9f\x98\x80pen.", body);
    writer.finish("stop", body);
    for (std::size_t cut = 0; cut < body.size(); ++cut) {
        const Decoded it = decode_with<OpenAIChatDecoder>(body, cut, false);
        ASSERT_EQ(it.message.text(), "Two \"tickets\"\nare ö\xf0\x9f\x98\x80pen.") << cut;
        ASSERT_EQ(it.details.finish_reason, "stop") << cut;
    }
}

TEST(OpenAIServer, FailureAfterTheFirstChunk_IsAnError) {
    OpenAIChatWriter writer(head("chatcmpl-1"));
    std::string body;
    writer.add_text("Two", body);
    writer.fail("the turn has failed (3f09)", body);
    const Decoded it = decode_with<OpenAIChatDecoder>(body, 0, false);
    EXPECT_NE(it.spelled().find("error"), std::string::npos) << it.spelled();
}

TEST(OpenAIServer, ResponseEvents_AreReadByTheDecoder) {
    OpenAIResponsesWriter writer(head("resp_1"), JsonObject());
    std::vector<std::string> events;
    writer.begin(events);
    writer.add_text("Let me ", events);
    writer.add_text("see.", events);
    writer.end_message(events);
    writer.add_text("Done.", events);
    writer.finish(OpenAIResponseStatus::completed, "", events);
    const std::string body = joined(events);
    for (std::size_t cut = 0; cut < body.size(); cut += 7) {
        const Decoded it = decode_with<OpenAIResponsesDecoder>(body, cut);
        ASSERT_EQ(it.spelled(),
                  "start text_start text_delta(Let me ) text_delta(see.) text_end text_start "
                  "text_delta(Done.) text_end done")
            << cut;
    }
    for (std::size_t i = 0; i < events.size(); ++i) {
        const std::size_t begin = events[i].find("data: ") + 6;
        const Json data = boost::json::parse(events[i].substr(begin));
        EXPECT_EQ(data.at("sequence_number").to_number<std::size_t>(), i);
    }
    const JsonObject response = writer.response();
    EXPECT_EQ(response.at("status"), Json("completed"));
    EXPECT_EQ(response.at("output").as_array().size(), 2u);
}

TEST(OpenAIServer, EndsOfResponses_HaveTheirReasons) {
    const auto ended = [](OpenAIResponseStatus status, const std::string& reason) {
        OpenAIResponsesWriter writer(head("resp_1"), JsonObject());
        std::vector<std::string> events;
        writer.finish(status, reason, events);
        return writer.response();
    };
    const JsonObject cut = ended(OpenAIResponseStatus::incomplete, "max_output_tokens");
    EXPECT_EQ(cut.at("incomplete_details").at("reason"), Json("max_output_tokens"));
    const JsonObject failed = ended(OpenAIResponseStatus::failed, "id 7");
    EXPECT_EQ(failed.at("error").at("message"), Json("id 7"));
    EXPECT_EQ(ended(OpenAIResponseStatus::cancelled, "").at("status"), Json("cancelled"));
}

TEST(OpenAIServer, Approval_IsAnItem) {
    OpenAIResponsesWriter writer(head("resp_1"), JsonObject());
    std::vector<std::string> events;
    writer.add_text("I will run it.", events);
    writer.add_approval("3f09c2a71b", "shell", JsonObject{{"cmd", "make"}}, events);
    writer.finish(OpenAIResponseStatus::completed, "", events);
    const JsonObject response = writer.response();
    const JsonArray& output = response.at("output").as_array();
    ASSERT_EQ(output.size(), 2u);
    EXPECT_EQ(output[1].at("type"), Json("mcp_approval_request"));
    EXPECT_EQ(output[1].at("id"), Json("3f09c2a71b"));
    EXPECT_EQ(output[1].at("arguments"), Json(R"({"cmd":"make"})"));
}

}  // namespace
}  // namespace cubepi::detail
