// Tools of the clients of OpenAI's protocols (D214).

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../joints/model_server.hpp"
#include "openai_gateway.hpp"

namespace cubepi::gateway_tests {
namespace {

std::string text_of_content(const Json& content) {
    if (content.is_string()) return std::string(content.as_string());
    std::string text;
    for (const Json& part : content.as_array()) {
        const Json* const piece = part.as_object().if_contains("text");
        text += piece ? std::string(piece->as_string()) : "[picture]";
    }
    return text;
}

/// Calls the tools that the last line of the user's message names after "call", and answers with their outputs: "got: noon, rain".
std::string answer_to(const JsonObject& request) {
    std::string outputs;
    std::string prompt;
    for (const Json& message : request.at("messages").as_array()) {
        const std::string role(message.at("role").as_string());
        if (role == "user") {
            prompt = text_of_content(message.at("content"));
            outputs.clear();
        }
        if (role == "tool")
            outputs += (outputs.empty() ? "" : ", ") + text_of_content(message.at("content"));
    }
    const std::string line = prompt.substr(prompt.rfind('\n') + 1);
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != "call") return joint_tests::chat_answer_with_usage("re: " + line, 100);
    if (!outputs.empty()) return joint_tests::chat_answer_with_usage("got: " + outputs, 100);
    std::vector<joint_tests::SentCall> calls;
    while (words >> word)
        calls.push_back({word, R"({"zone":"UTC"})", "c" + std::to_string(calls.size())});
    return joint_tests::chat_answer_with_usage("", 100, calls);
}

/// Returns the tools in the form of Responses.
JsonArray tools(const std::vector<std::string>& names) {
    JsonArray made;
    for (const std::string& name : names) {
        made.push_back(JsonObject{
            {"type", "function"},
            {"name", name},
            {"description", "Tells it."},
            {"parameters",
             JsonObject{{"type", "object"},
                        {"properties", JsonObject{{"zone", JsonObject{{"type", "string"}}}}}}}});
    }
    return made;
}

/// The same in the form of Chat Completions.
JsonArray chat_tools(const std::vector<std::string>& names) {
    JsonArray made;
    for (Json& tool : tools(names)) {
        JsonObject function = tool.as_object();
        function.erase("type");
        made.push_back(JsonObject{{"type", "function"}, {"function", std::move(function)}});
    }
    return made;
}

/// Returns the ids of the calls of a response.
std::vector<std::string> calls_of(const JsonObject& response) {
    std::vector<std::string> ids;
    for (const Json& item : response.at("output").as_array())
        if (item.at("type") == Json("function_call"))
            ids.emplace_back(item.at("call_id").as_string());
    return ids;
}

Json output(const std::string& call, const Json& value) {
    return JsonObject{{"type", "function_call_output"}, {"call_id", call}, {"output", value}};
}

class GatewayOpenAITools : public OpenAIGateway {
protected:
    void start() {
        OpenAIGateway::start({"--provider", "openai", "--base-url", model.url(), "-m", "local"});
    }
    /// Returns a response to "call NAMES" with these tools.
    JsonObject ask(const std::vector<std::string>& names, JsonObject more = {}) {
        std::string text = "call";
        for (const std::string& name : names) text += " " + name;
        if (!more.contains("tools")) more["tools"] = tools(names);
        const HttpReply reply = respond(Json(text), std::move(more));
        EXPECT_EQ(reply.status, 200) << reply.body;
        return reply.json();
    }
    HttpReply answer(const JsonObject& asked, JsonArray items, JsonObject more = {}) {
        more["previous_response_id"] = asked.at("id");
        more["tools"] = tools({"clock", "weather"});
        return respond(std::move(items), std::move(more));
    }
    std::string error_of(const HttpReply& reply) {
        EXPECT_EQ(reply.status, 400) << reply.body;
        return std::string(reply.json().at("error").at("message").as_string());
    }
    std::size_t model_calls() const { return model.requests().size(); }

    joint_tests::ModelServer model{answer_to};
};

TEST_F(GatewayOpenAITools, ChatCall_IsAnsweredByTheClient) {
    start();
    const JsonObject offered{{"tools", chat_tools({"clock"})}};
    const HttpReply asked = chat(user("call clock"), offered);
    ASSERT_EQ(asked.status, 200) << asked.body;
    const Json choice = asked.json().at("choices").at(0);
    EXPECT_EQ(choice.at("finish_reason"), Json("tool_calls"));
    EXPECT_TRUE(choice.at("message").at("content").is_null());
    const Json call = choice.at("message").at("tool_calls").at(0);
    EXPECT_EQ(call.at("function").at("name"), Json("clock"));
    EXPECT_EQ(call.at("function").at("arguments"), Json(R"({"zone":"UTC"})"));
    EXPECT_EQ(asked.json().at("usage").at("prompt_tokens"), Json(100));
    EXPECT_EQ(asked.json().at("usage").at("total_tokens"), Json(110));
    // The client sends the whole conversation; the outputs continue the run of the session that has it.
    JsonArray messages = user("call clock").as_array();
    messages.push_back(choice.at("message"));
    messages.push_back(
        JsonObject{{"role", "tool"}, {"tool_call_id", call.at("id")}, {"content", "noon"}});
    const HttpReply answered = chat(messages, offered);
    ASSERT_EQ(answered.status, 200) << answered.body;
    EXPECT_EQ(answered.json().at("choices").at(0).at("message").at("content"), Json("got: noon"));
    EXPECT_EQ(answered.json().at("choices").at(0).at("finish_reason"), Json("stop"));
    EXPECT_EQ(model_calls(), 2u);
    // Sent again, it is too late.
    EXPECT_NE(error_of(chat(messages, offered)).find("received before"), std::string::npos);
    // The next message of the conversation is a session of its own, with the calls as facts.
    messages.push_back(JsonObject{{"role", "assistant"}, {"content", "got: noon"}});
    messages.push_back(JsonObject{{"role", "user"}, {"content", "thanks"}});
    EXPECT_EQ(chat(messages, offered).status, 200);
    EXPECT_NE(model.requests().back().find("earlier_messages"), std::string::npos);
    EXPECT_EQ(model_calls(), 3u);
}

TEST_F(GatewayOpenAITools, StreamedCalls_AreWholeItems) {
    start();
    const HttpReply chunks =
        chat(user("call clock weather"), {{"tools", chat_tools({"clock", "weather"})},
                                          {"stream", true},
                                          {"stream_options", JsonObject{{"include_usage", true}}}});
    std::vector<std::string> names;
    for (const JsonObject& chunk : events_of(chunks.body)) {
        if (chunk.at("choices").as_array().empty()) {
            EXPECT_EQ(chunk.at("usage").at("completion_tokens"), Json(10));
            continue;
        }
        const JsonObject& delta = chunk.at("choices").at(0).at("delta").as_object();
        if (const Json* const calls = delta.if_contains("tool_calls"))
            names.emplace_back(calls->at(0).at("function").at("name").as_string());
    }
    EXPECT_EQ(names, std::vector<std::string>({"clock", "weather"})) << chunks.body;
    EXPECT_NE(chunks.body.find(R"("choices":[])"), std::string::npos) << chunks.body;
    const HttpReply streamed =
        respond("call clock", {{"tools", tools({"clock"})}, {"stream", true}});
    std::string types;
    for (const JsonObject& event : events_of(streamed.body))
        types += std::string(event.at("type").as_string()) + "\n";
    EXPECT_EQ(types,
              "response.created\nresponse.in_progress\nresponse.output_item.added\n"
              "response.function_call_arguments.delta\nresponse.function_call_arguments.done\n"
              "response.output_item.done\nresponse.completed\n");
}

TEST_F(GatewayOpenAITools, ParallelCalls_NeedAllTheirOutputs) {
    start();
    const JsonObject asked = ask({"clock", "weather"});
    const std::vector<std::string> calls = calls_of(asked);
    ASSERT_EQ(calls.size(), 2u) << boost::json::serialize(asked);
    const std::size_t before = model_calls();
    // Neither some of the outputs nor another message continues the session.
    EXPECT_NE(error_of(answer(asked, {output(calls[0], "noon")})).find(calls[1]),
              std::string::npos);
    EXPECT_NE(error_of(answer(asked, user("never mind").as_array())).find(calls[0]),
              std::string::npos);
    EXPECT_NE(error_of(answer(asked, {output(calls[0], "noon"), output(calls[0], "noon")}))
                  .find("two outputs"),
              std::string::npos);
    EXPECT_NE(error_of(answer(asked, {output("call_7", "noon")})).find("No tool call found"),
              std::string::npos);
    EXPECT_EQ(model_calls(), before);
    const HttpReply done = answer(asked, {output(calls[1], "rain"), output(calls[0], "noon")});
    EXPECT_EQ(text_of(done.json()), "got: noon, rain") << done.body;
    EXPECT_EQ(model_calls(), before + 1);
    // A call of one session is not one of another.
    const JsonObject other = ask({"clock"});
    EXPECT_NE(error_of(answer(done.json(), {output(calls_of(other).at(0), "noon")}))
                  .find("No tool call found"),
              std::string::npos);
    const HttpReply late = answer(done.json(), {output(calls[0], "noon")});
    EXPECT_NE(error_of(late).find("received before"), std::string::npos);
}

TEST_F(GatewayOpenAITools, OutputAfterARestart_ContinuesTheRun) {
    start();
    const JsonObject asked = ask({"clock"}, {{"store", true}});
    const std::string path = "/v1/responses/" + std::string(asked.at("id").as_string());
    gateway->kill();
    start();
    EXPECT_EQ(calls_of(get(path).json()), calls_of(asked)) << get(path).body;
    // The tool is that of the request that has offered it.
    const HttpReply done = respond(JsonArray({output(calls_of(asked).at(0), "noon")}),
                                   {{"previous_response_id", asked.at("id")}});
    EXPECT_EQ(text_of(done.json()), "got: noon") << done.body;
    EXPECT_EQ(model.requests().back().find("\"clock\",\"description\""), std::string::npos);
}

TEST_F(GatewayOpenAITools, D261_LostClientsCall_EndsAfterAWeek) {
    start();
    (void)ask({"clock"}, {{"metadata", JsonObject{{"session", "s"}}}});
    const JsonObject session = run(call_channel(port, "GET", "/v1/sessions/s")).json();
    const Json& question = session.at("questions").at(0);
    EXPECT_EQ(question.at("timeout_seconds").to_number<int>(), 7 * 24 * 3600);
}

TEST_F(GatewayOpenAITools, D261_LateOutput_FindsAClosedRun) {
    home.configure(
        R"({http: {listen: "127.0.0.1:0", openai: true, operators: [olga]}, question_timeout: 1})");
    start();
    const JsonObject asked = ask({"clock"}, {{"metadata", JsonObject{{"session", "s"}}}});
    const std::size_t calls = model_calls();
    wait_until([&] {
        const HttpReply session = run(call_channel(port, "GET", "/v1/sessions/s"));
        return session.body.find("not answered in time") != std::string::npos;
    });
    const HttpReply late = answer(asked, {output(calls_of(asked).at(0), "noon")});
    EXPECT_NE(error_of(late).find("their time is over"), std::string::npos);
    // No client reads what a model would say.
    EXPECT_EQ(model_calls(), calls);
    const HttpReply next = respond("next", {{"metadata", JsonObject{{"session", "s"}}}});
    EXPECT_EQ(text_of(next.json()), "re: next") << next.body;
}

TEST_F(GatewayOpenAITools, OwnTools_RunInTheTurn) {
    start();
    const JsonObject asked = ask({"clock", "read"}, {{"tools", tools({"clock"})}});
    const std::vector<std::string> calls = calls_of(asked);
    ASSERT_EQ(calls.size(), 1u) << boost::json::serialize(asked);
    const HttpReply done = answer(asked, {output(calls[0], "noon")});
    EXPECT_NE(text_of(done.json()).find("noon"), std::string::npos) << done.body;
    EXPECT_NE(text_of(done.json()).find(", "), std::string::npos) << done.body;
    EXPECT_EQ(done.json().at("usage").at("input_tokens"), Json(100));
}

TEST_F(GatewayOpenAITools, NameOfAnOwnTool_IsRefused) {
    start();
    const HttpReply refused = respond("call read", {{"tools", tools({"read"})}});
    EXPECT_EQ(refused.json().at("status"), Json("failed")) << refused.body;
    EXPECT_NE(refused.body.find("has a tool 'read' itself"), std::string::npos) << refused.body;
    EXPECT_EQ(model_calls(), 0u);
}

/// They are aliases of the agent's own tools, which would run here.
TEST_F(GatewayOpenAITools, D73_ToolsWithNamesOfBub_AreTheClients) {
    home.configure(
        R"({http: {listen: "127.0.0.1:0", openai: true, ag_ui: true, operators: [olga]}})");
    start();
    const std::vector<std::string> names{"bash",    "bash_output", "fs_edit",
                                         "fs_read", "fs_write",    "web_fetch"};
    const std::set<std::string> all(names.begin(), names.end());
    const auto note_name = [](std::set<std::string>& found, const Json& name) {
        EXPECT_TRUE(found.emplace(name.as_string()).second) << name;
    };
    std::set<std::string> of_responses;
    const JsonObject asked = ask(names);
    for (const Json& item : asked.at("output").as_array()) note_name(of_responses, item.at("name"));
    EXPECT_EQ(of_responses, all) << boost::json::serialize(asked);
    std::string prompt = "call";
    for (const std::string& name : names) prompt += " " + name;
    std::set<std::string> of_chat;
    const HttpReply chosen = chat(user(prompt), {{"tools", chat_tools(names)}});
    const Json message = chosen.json().at("choices").at(0).at("message");
    for (const Json& call : message.at("tool_calls").as_array())
        note_name(of_chat, call.at("function").at("name"));
    EXPECT_EQ(of_chat, all) << chosen.body;
    JsonObject input{{"threadId", "t"}, {"runId", "r"}, {"tools", tools(names)}};
    input["messages"] = JsonArray{JsonObject{{"id", "m"}, {"role", "user"}, {"content", prompt}}};
    std::set<std::string> of_agui;
    const HttpReply run = call("POST", "/v1/ag-ui", input);
    for (const JsonObject& event : events_of(run.body))
        if (event.at("type") == Json("TOOL_CALL_START"))
            note_name(of_agui, event.at("toolCallName"));
    EXPECT_EQ(of_agui, all) << run.body;
    // A model writes them in other ways, too.
    const JsonObject others =
        ask({"BASH", "functions_fs_read"}, {{"tools", tools({"bash", "fs_read"})}});
    std::set<std::string> corrected;
    for (const Json& item : others.at("output").as_array()) note_name(corrected, item.at("name"));
    EXPECT_EQ(corrected, (std::set<std::string>{"bash", "fs_read"}));
    EXPECT_EQ(model_calls(), 4u) << "no call has a result";
}

TEST_F(GatewayOpenAITools, D214_OwnToolAppears_OutputIsNotItsCall) {
    start();
    const JsonObject asked = ask({"memory"});
    const auto send_output = [&] {
        return respond(JsonArray({output(calls_of(asked).at(0), "noon")}),
                       {{"previous_response_id", asked.at("id")}});
    };
    gateway->kill();
    home.configure(std::string(with_openai) + "\nmemory: true");
    start();
    const HttpReply refused = send_output();
    EXPECT_EQ(refused.json().at("status"), Json("failed")) << refused.body;
    EXPECT_NE(refused.body.find("the agent has a tool 'memory' itself"), std::string::npos)
        << refused.body;
    EXPECT_EQ(model_calls(), 1u);
    // The call still waits for its output. A killed gateway would receive the refused one again.
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
    home.configure(with_openai);
    start();
    EXPECT_EQ(text_of(send_output().json()), "got: noon");
}

TEST_F(GatewayOpenAITools, Choice_ReachesTheModel) {
    start();
    EXPECT_EQ(respond("hi", {{"tools", tools({"clock"})}, {"tool_choice", "none"}}).status, 200);
    EXPECT_EQ(model.requests().back().find("\"clock\""), std::string::npos);
    const JsonObject named{{"type", "function"}, {"name", "clock"}};
    EXPECT_EQ(respond("hi", {{"tools", tools({"clock"})}, {"tool_choice", named}}).status, 200);
    const JsonObject request = model.bodies().back().as_object();
    EXPECT_EQ(request.at("tool_choice").at("function").at("name"), Json("clock"));
    EXPECT_EQ(error_of(respond("hi", {{"tools", tools({"weather"})}, {"tool_choice", named}})),
              "'tool_choice' 'clock' is not in 'tools'");
}

TEST_F(GatewayOpenAITools, CallsInOrder_AreAskedOneByOne) {
    start();
    const JsonObject asked = ask({"clock", "weather"}, {{"parallel_tool_calls", false}});
    ASSERT_EQ(calls_of(asked).size(), 1u) << boost::json::serialize(asked);
    const JsonObject next =
        answer(asked, {output(calls_of(asked)[0], "noon")}, {{"parallel_tool_calls", false}})
            .json();
    ASSERT_EQ(calls_of(next).size(), 1u) << boost::json::serialize(next);
    const HttpReply done = answer(next, {output(calls_of(next)[0], "rain")});
    EXPECT_EQ(text_of(done.json()), "got: noon, rain") << done.body;
}

TEST_F(GatewayOpenAITools, ConversationOfTheClient_ContinuesItsCall) {
    start();
    // A client that stores nothing here sends all items, as codex does.
    JsonArray items = user("call clock").as_array();
    const JsonObject more{{"tools", tools({"clock"})}, {"store", false}};
    const HttpReply asked = respond(items, more);
    const JsonObject response = asked.json();
    for (const Json& item : response.at("output").as_array()) items.push_back(item);
    const std::string call = calls_of(response).at(0);
    const Json picture = JsonArray(
        {JsonObject{{"type", "input_text"}, {"text", "noon"}},
         JsonObject{{"type", "input_image"}, {"image_url", "data:image/png;base64,AAAA"}}});
    items.push_back(output(call, picture));
    const HttpReply done = respond(items, more);
    // The endpoint of the model has pictures in messages of the user only.
    EXPECT_NE(text_of(done.json()).find("[picture]"), std::string::npos) << done.body;
    EXPECT_NE(model.requests().back().find("noon"), std::string::npos);
    EXPECT_NE(model.requests().back().find("data:image/png;base64,AAAA"), std::string::npos);
    EXPECT_EQ(model_calls(), 2u);
}

TEST_F(GatewayOpenAITools, CallOfAnotherAgent_IsHistory) {
    start();
    JsonArray items = user("What time is it?").as_array();
    items.push_back(JsonObject{{"type", "function_call"},
                               {"call_id", "call_abc"},
                               {"name", "clock"},
                               {"arguments", "{}"}});
    items.push_back(output("call_abc", "noon"));
    const HttpReply done = respond(items, {{"tools", tools({"clock"})}});
    EXPECT_EQ(text_of(done.json()), "re: noon") << done.body;
    EXPECT_NE(model.requests().back().find("call_abc"), std::string::npos);
    EXPECT_NE(error_of(respond(JsonArray({output("call_x", "noon")}))).find("No tool call found"),
              std::string::npos);
}

TEST_F(GatewayOpenAITools, RepeatedOutputs_ReceiveTheAnswer) {
    start();
    const JsonObject asked = ask({"clock", "weather"});
    const std::vector<std::string> calls = calls_of(asked);
    ASSERT_EQ(calls.size(), 2u);
    JsonObject body;
    body["model"] = "cubepi";
    body["previous_response_id"] = asked.at("id");
    body["input"] = JsonArray({output(calls[0], "noon"), output(calls[1], "rain")});
    for (int i = 0; i < 2; ++i) {
        Client client(port, "POST /v1/responses", boost::json::serialize(body),
                      "Idempotency-Key: outputs\r\n");
        client.read_until("got: noon, rain");
    }
    EXPECT_EQ(model_calls(), 2u);
}

}  // namespace
}  // namespace cubepi::gateway_tests
