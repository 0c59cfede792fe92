#include <cubepi/provider/openai/responses_api.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/message_json.hpp>
#include <cubepi/provider/tool_schema.hpp>

namespace cubepi::detail {
namespace {

Json json(std::string_view text) { return boost::json::parse(text); }

ModelRequest request_of(std::string_view messages, std::string model = "gpt-5.1") {
    ModelRequest request;
    request.model.id = std::move(model);
    request.model.provider_id = "openai";
    const Json list = json(messages);
    for (const Json& message : list.as_array())
        request.messages.push_back(message_from_json(message));
    return request;
}

struct Lowered {
    Json items;
    std::vector<Notice> notices;
};

Lowered lowered(std::string_view messages, bool encrypted = true) {
    Lowered result;
    result.items = responses_input(request_of(messages), encrypted, result.notices).items;
    return result;
}

WireProtocol::Built built(const ModelRequest& request) {
    static const std::map<std::string, CapabilityDescriptor> none;
    const CapabilityDescriptor given;
    OpenAIResponsesSettings settings;
    settings.profile = effective_profile(ModelApi::openai_responses, request.model, {given, none});
    std::vector<Notice> notices;
    return build_openai_responses(request, settings, responses_input(request, true, notices).items);
}

/// An answer with one reasoning item, a text and a call.
std::string answer(const std::string& more = R"("provider_id":"openai",)") {
    return R"({"role":"assistant",)" + more + R"("stop_reason":"tool_use","content":[
        {"type":"thinking","thinking":"Hm.","reasoning_item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAA=="}},
        {"type":"text","text":"Adding.","item_id":"msg_1","phase":"commentary"},
        {"type":"tool_call","id":"c1|fc_1","name":"add","arguments":{"a":1}}]})";
}
const std::string result =
    R"({"role":"tool_result","tool_call_id":"c1|fc_1","tool_name":"add","content":[{"type":"text","text":"3"}]})";

TEST(OpenAIResponsesRequest, D13_OwnAnswers_AreSentBackUnchanged) {
    const Lowered it = lowered("[" + answer() + "," + result + "]");
    EXPECT_EQ(it.items, json(R"([
        {"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAA=="},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding.","annotations":[]}],"status":"completed","id":"msg_1","phase":"commentary"},
        {"type":"function_call","call_id":"c1","name":"add","arguments":"{\"a\": 1}","id":"fc_1"},
        {"type":"function_call_output","call_id":"c1","output":"3"}])"));
    EXPECT_TRUE(it.notices.empty());
}

TEST(OpenAIResponsesRequest, D13_AnswersOfOtherProviders_LoseIdsAndReasoning) {
    const Lowered it = lowered("[" + answer(R"("provider_id":"anthropic",)") + "," + result + "]");
    EXPECT_EQ(it.items, json(R"([
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding.","annotations":[]}],"status":"completed"},
        {"type":"function_call","call_id":"c1","name":"add","arguments":"{\"a\": 1}"},
        {"type":"function_call_output","call_id":"c1","output":"3"}])"));
}

TEST(OpenAIResponsesRequest, D13_UnreadableReasoning_IsOmitted) {
    const Lowered refused = lowered("[" + answer() + "," + result + "]", false);
    // An id would be refused without the reasoning that led to its item.
    EXPECT_EQ(refused.items, json(R"([
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding.","annotations":[]}],"status":"completed","phase":"commentary"},
        {"type":"function_call","call_id":"c1","name":"add","arguments":"{\"a\": 1}"},
        {"type":"function_call_output","call_id":"c1","output":"3"}])"));
    // Neither sealed nor in the open: the endpoint would have to know it by its id.
    const Lowered by_id = lowered(
        R"([{"role":"assistant","provider_id":"openai","content":[
            {"type":"thinking","thinking":"","reasoning_item":{"id":"rs_1","type":"reasoning","summary":[]}},
            {"type":"text","text":"Hi","item_id":"msg_1"}]}])");
    ASSERT_EQ(by_id.items.as_array().size(), 1u);
    EXPECT_FALSE(by_id.items.at_pointer("/0").as_object().contains("id"));
    // An aborted answer: reasoning that led to nothing is refused by the endpoint.
    const Lowered cut = lowered(
        R"([{"role":"assistant","provider_id":"openai","stop_reason":"aborted","content":[
            {"type":"thinking","thinking":"","reasoning_item":{"id":"rs_1","type":"reasoning","encrypted_content":"x"}}]}])");
    EXPECT_TRUE(cut.items.as_array().empty());
}

TEST(OpenAIResponsesRequest, D83_SharedCallIds_PairWithTheirOwnResults) {
    const auto reply = [](const std::string& id, const std::string& text) {
        return R"({"role":"tool_result","tool_call_id":")" + id +
               R"(","tool_name":"f","content":[{"type":"text","text":")" + text + R"("}]})";
    };
    const std::string two_calls =
        R"({"role":"assistant","provider_id":"openai","content":[
            {"type":"tool_call","id":"c|fc_1","name":"f","arguments":{}},
            {"type":"tool_call","id":"c|fc_2","name":"f","arguments":{}}]})";
    const Lowered it = lowered("[" + two_calls + "," + reply("c|fc_2", "second") + "," +
                               reply("c|fc_1", "first") + "]");
    EXPECT_EQ(it.items, json(R"([
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}","id":"fc_1"},
        {"type":"function_call","call_id":"c_2","name":"f","arguments":"{}","id":"fc_2"},
        {"type":"function_call_output","call_id":"c_2","output":"second"},
        {"type":"function_call_output","call_id":"c","output":"first"}])"));
}

TEST(OpenAIResponsesRequest, D13_ServerToolItems_KeepTheirPositions) {
    const Lowered it = lowered(
        R"([{"role":"assistant","provider_id":"openai","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}],
             "server_items":[{"at":1,"item":{"id":"ws_1","type":"web_search_call","status":"completed"}}]}])");
    ASSERT_EQ(it.items.as_array().size(), 3u);
    EXPECT_EQ(it.items.at_pointer("/1/id"), Json("ws_1"));
}

TEST(OpenAIResponsesRequest, RefusalsAndAnnotations_AreSentBack) {
    const Lowered it = lowered(
        R"([{"role":"assistant","provider_id":"openai","content":[
            {"type":"text","text":"No.","refusal":true,"item_id":"m1"},
            {"type":"text","text":"Yes.","annotations":[{"type":"url_citation"}],"item_id":"m2"}]}])");
    EXPECT_EQ(it.items.at_pointer("/0/content/0"), json(R"({"type":"refusal","refusal":"No."})"));
    EXPECT_EQ(it.items.at_pointer("/1/content/0/annotations"),
              json(R"([{"type":"url_citation"}])"));
    EXPECT_EQ(it.items.at_pointer("/1/id"), Json("m2"));
}

TEST(OpenAIResponsesRequest, D1_CallsAndResults_ArePaired) {
    const Lowered it = lowered(
        "[" + answer() +
        R"(,{"role":"user","content":[{"type":"text","text":"Continue"}]},)"
        R"({"role":"tool_result","tool_call_id":"gone","tool_name":"x","content":[{"type":"text","text":"1"}]}])");
    const JsonArray& items = it.items.as_array();
    ASSERT_EQ(items.size(), 5u);
    EXPECT_EQ(items[3].at("type"), Json("function_call_output"));
    EXPECT_NE(items[3].at("output").as_string().find("interrupted"), std::string::npos);
    EXPECT_EQ(items[4].at("role"), Json("user"));
    ASSERT_EQ(it.notices.size(), 2u);
    EXPECT_EQ(it.notices[0].code, "repair");
    EXPECT_EQ(it.notices[1].details.at("tool_call_id"), Json("gone"));
}

TEST(OpenAIResponsesRequest, D14_ImagesAndErrorsInResults_AreConveyed) {
    const Lowered it = lowered(
        "[" + answer() +
        R"(,{"role":"tool_result","tool_call_id":"c1|fc_1","tool_name":"add","is_error":true,"content":[
            {"type":"text","text":"see"},{"type":"image","source":"aGk=","media_type":"image/png"}]}])");
    EXPECT_EQ(it.items.at_pointer("/3/output"),
              json(R"([{"type":"input_text","text":"Error:"},{"type":"input_text","text":"see"},
                       {"type":"input_image","image_url":"data:image/png;base64,aGk="}])"));
    const Lowered text = lowered(
        "[" + answer() +
        R"(,{"role":"tool_result","tool_call_id":"c1|fc_1","tool_name":"add","is_error":true,"content":[{"type":"text","text":"no"}]}])");
    EXPECT_EQ(text.items.at_pointer("/3/output"), Json("Error: no"));
}

TEST(OpenAIResponsesRequest, LongIds_AreShortenedInCallAndResult) {
    const std::string id(90, 'x');
    const Lowered it = lowered(
        R"([{"role":"assistant","provider_id":"other","stop_reason":"tool_use","content":[{"type":"tool_call","id":")" +
        id + R"(","name":"f","arguments":{}}]},{"role":"tool_result","tool_call_id":")" + id +
        R"(","tool_name":"f","content":[]}])");
    const Json& call = it.items.at_pointer("/0/call_id");
    EXPECT_LE(call.as_string().size(), 64u);
    EXPECT_EQ(call, it.items.at_pointer("/1/call_id"));
}

TEST(OpenAIResponsesRequest, D14_UnsetOptions_AreOmitted) {
    const ModelRequest plain =
        request_of(R"([{"role":"user","content":[{"type":"text","text":"Hi"}]}])", "gpt-4.1");
    EXPECT_EQ(
        Json(built(plain).body),
        json(
            R"({"model":"gpt-4.1","input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]}],
                       "stream":true,"store":false})"));
}

TEST(OpenAIResponsesRequest, D13_ReasoningModels_AreAskedForSealedReasoning) {
    ModelRequest request =
        request_of(R"([{"role":"user","content":[{"type":"text","text":"Hi"}]}])");
    EXPECT_EQ(built(request).body.at("include"), json(R"(["reasoning.encrypted_content"])"));
    ReasoningControl control;
    control.mode = ReasoningMode::on;
    control.effort = ReasoningEffort::high;
    control.summary = ReasoningSummary::automatic;
    request.options = StreamOptions().reasoning(control);
    const JsonObject body = built(request).body;
    EXPECT_EQ(body.at("include"), json(R"(["reasoning.encrypted_content"])"));
    EXPECT_EQ(body.at("reasoning"), json(R"({"effort":"high","summary":"auto"})"));
}

TEST(OpenAIResponsesRequest, D14_Effort_IsMappedForEachModel) {
    ModelRequest request =
        request_of(R"([{"role":"user","content":[{"type":"text","text":"Hi"}]}])");
    ReasoningControl control;
    request.options = StreamOptions().reasoning(control);
    EXPECT_EQ(built(request).body.at("reasoning").at("effort"), Json("none"));
    control.mode = ReasoningMode::on;
    control.effort = ReasoningEffort::minimal;
    request.options = StreamOptions().reasoning(control);
    EXPECT_EQ(built(request).body.at("reasoning").at("effort"), Json("none"));
    // A temperature that the model does not take while it reasons is left out, and a notice says so.
    control.effort = ReasoningEffort::low;
    request.options = StreamOptions().reasoning(control);
    request.model.temperature = 0.2;
    const WireProtocol::Built changed = built(request);
    EXPECT_FALSE(changed.body.contains("temperature"));
    ASSERT_FALSE(changed.notices.empty());
    EXPECT_EQ(changed.notices.back().details.at("field"), Json("temperature"));
}

TEST(OpenAIResponsesRequest, D27_Tools_AreSentAsGiven) {
    ModelRequest request =
        request_of(R"([{"role":"user","content":[{"type":"text","text":"Hi"}]}])", "gpt-4.1");
    ToolDefinition tool;
    tool.name = "plan";
    tool.description = "Plans.";
    tool.parameters = std::make_shared<const Json>(json(
        R"({"type":"object","title":"T","properties":{"s":{"$ref":"#/$defs/S"}},"$defs":{"S":{"type":"string"}}})"));
    request.tools = std::make_shared<const ToolDefinitions>(ToolDefinitions{tool});
    ToolChoice named;
    named.mode = ToolChoice::Mode::named;
    named.name = "plan";
    request.options = StreamOptions().tool_choice(named);
    const JsonObject body = built(request).body;
    EXPECT_EQ(body.at("tools").at(0).at("parameters"), *tool.parameters);
    EXPECT_EQ(body.at("tool_choice"), json(R"({"type":"function","name":"plan"})"));
    request.tools.reset();
    EXPECT_EQ(built(request).notices.at(0).details.at("field"), Json("tool_choice"));
}

TEST(OpenAIResponsesRequest, ResponseFormat_BecomesAStrictJsonSchema) {
    ModelRequest request =
        request_of(R"([{"role":"user","content":[{"type":"text","text":"Hi"}]}])", "gpt-4.1");
    ResponseFormat format;
    format.name = "city";
    format.schema = std::make_shared<const Json>(json(
        R"({"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false})"));
    request.options = StreamOptions().response_format(format);
    EXPECT_EQ(built(request).body.at("text"),
              json(R"({"format":{"type":"json_schema","name":"city","schema":{"type":"object",
                  "properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false},"strict":true}})"));
    EXPECT_FALSE(
        is_strict_schema(json(R"({"type":"object","properties":{"a":{}},"required":[]})")));
    EXPECT_FALSE(is_strict_schema(json(
        R"({"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false})")));
}

TEST(OpenAIResponsesRequest, Message_ConvertsToAnUnstreamedResponse) {
    const Message message = message_from_json(json(answer(
        R"("provider_id":"openai","model_id":"gpt-5.1","response_id":"resp_1","usage":{"input_tokens":2,"output_tokens":3,"cache_read_tokens":10,"reasoning_tokens":1},)")));
    const JsonObject body = openai_response(*message.assistant());
    EXPECT_EQ(body.at("id"), Json("resp_1"));
    EXPECT_EQ(body.at("output").as_array().size(), 3u);
    EXPECT_EQ(body.at("usage"), json(R"({"input_tokens":12,"output_tokens":3,"total_tokens":15,
                  "input_tokens_details":{"cached_tokens":10},"output_tokens_details":{"reasoning_tokens":1}})"));
}

}  // namespace
}  // namespace cubepi::detail
