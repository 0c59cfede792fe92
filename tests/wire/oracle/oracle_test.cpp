#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

#include "../net/child_process.hpp"
#include "../providers/wire_cases.hpp"
#include "source_tree.hpp"

// Passes the recorded answers and the corpus of odd streams (tests/wire/quirks) to the vendors' SDKs and to our decoders: the same
// bytes must produce the same message. differences.json lists the exceptions with reasons, and may not contain others.

namespace cubepi::wire {
namespace {

const Json* at(const Json& value, std::string_view key) {
    return value.is_object() ? value.get_object().if_contains(key) : nullptr;
}

std::string text_at(const Json& value, std::string_view key) {
    const Json* found = at(value, key);
    return found && found->is_string() ? std::string(found->get_string()) : std::string();
}

const JsonArray& list_at(const Json& value, std::string_view key) {
    static const JsonArray none;
    const Json* found = at(value, key);
    return found && found->is_array() ? found->get_array() : none;
}

std::int64_t number_at(const Json& value, std::string_view key) {
    const Json* found = at(value, key);
    return found && found->is_number() ? found->to_number<std::int64_t>() : 0;
}

/// Arguments as JSON, or as text if they are not JSON.
Json arguments_of(const std::string& text) {
    if (text.empty()) return JsonObject();
    boost::json::error_code error;
    Json parsed = boost::json::parse(text, error);
    return error ? Json(text) : parsed;
}

/// Removes empty members.
Json without_blanks(const Json& value) {
    if (!value.is_object()) return value;
    JsonObject result;
    for (const auto& [key, member] : value.get_object()) {
        const bool blank = member.is_null() ||
                           (member.is_string() && member.get_string().empty()) ||
                           (member.is_array() && member.get_array().empty());
        if (!blank) result[key] = member;
    }
    return result;
}

JsonObject usage_of(const Json& answer, std::initializer_list<std::string_view> names) {
    JsonObject usage;
    const Json* reported = at(answer, "usage");
    for (const std::string_view name : names)
        usage[name] = reported ? number_at(*reported, name) : 0;
    return usage;
}

std::int64_t detail_of(const Json& answer, std::string_view group, std::string_view name) {
    const Json* usage = at(answer, "usage");
    const Json* details = usage ? at(*usage, group) : nullptr;
    return details ? number_at(*details, name) : 0;
}

JsonObject of_anthropic(const Json& answer) {
    JsonObject form;
    form["id"] = text_at(answer, "id");
    JsonArray content;
    for (const Json& block : list_at(answer, "content")) content.push_back(without_blanks(block));
    form["content"] = std::move(content);
    form["stop_reason"] = text_at(answer, "stop_reason");
    form["stop_sequence"] = text_at(answer, "stop_sequence");
    form["usage"] = usage_of(answer, {"input_tokens", "output_tokens", "cache_read_input_tokens",
                                      "cache_creation_input_tokens"});
    return form;
}

JsonObject of_chat(const Json& answer) {
    JsonObject form;
    form["id"] = text_at(answer, "id");
    const JsonArray& choices = list_at(answer, "choices");
    const Json none;
    const Json& choice = choices.empty() ? none : choices.front();
    const Json* message = at(choice, "message");
    if (message) {
        // Ours stores a refusal as text.
        form["text"] = text_at(*message, "content") + text_at(*message, "refusal");
        JsonArray calls;
        for (const Json& call : list_at(*message, "tool_calls")) {
            const Json* function = at(call, "function");
            JsonObject one;
            one["id"] = text_at(call, "id");
            one["name"] = function ? text_at(*function, "name") : std::string();
            one["arguments"] = arguments_of(function ? text_at(*function, "arguments") : "");
            calls.push_back(std::move(one));
        }
        form["calls"] = std::move(calls);
    }
    form["finish_reason"] = text_at(choice, "finish_reason");
    form["usage"] = usage_of(answer, {"prompt_tokens", "completion_tokens"});
    form["cached"] = detail_of(answer, "prompt_tokens_details", "cached_tokens");
    return form;
}

JsonObject of_response_item(const Json& item) {
    JsonObject form;
    const std::string type = text_at(item, "type");
    form["type"] = type;
    if (type == "message") {
        std::string text;
        for (const Json& part : list_at(item, "content"))
            text += text_at(part, "text") + text_at(part, "refusal");
        form["text"] = text;
    } else if (type == "function_call") {
        form["call_id"] = text_at(item, "call_id");
        form["name"] = text_at(item, "name");
        form["arguments"] = arguments_of(text_at(item, "arguments"));
    } else if (type == "reasoning") {
        std::string text;
        for (const char* key : {"summary", "content"}) {
            for (const Json& part : list_at(item, key)) text += text_at(part, "text");
        }
        form["text"] = text;
        form["encrypted_content"] = text_at(item, "encrypted_content");
    } else {
        form["item"] = without_blanks(item);
    }
    form["id"] = text_at(item, "id");
    return form;
}

JsonObject of_response(const Json& answer) {
    JsonObject form;
    form["id"] = text_at(answer, "id");
    JsonArray output;
    for (const Json& item : list_at(answer, "output")) output.push_back(of_response_item(item));
    form["output"] = std::move(output);
    form["status"] = text_at(answer, "status");
    form["usage"] = usage_of(answer, {"input_tokens", "output_tokens"});
    form["cached"] = detail_of(answer, "input_tokens_details", "cached_tokens");
    return form;
}

/// The relevant parts of an answer in a vendor's unstreamed form, so that ours and the SDK's can be compared: content, calls with
/// parsed arguments, signatures, ids, stop reason, tokens. Absent members equal null and zero.
/// `provider` is "anthropic", "openai-chat" or "openai-responses".
JsonObject normal_form(const std::string& provider, const Json& answer) {
    if (provider == "anthropic") return of_anthropic(answer);
    if (provider == "openai-chat") return of_chat(answer);
    if (provider == "openai-responses") return of_response(answer);
    throw std::runtime_error("no normal form for provider " + provider);
}

template <class P, class Options>
std::shared_ptr<Provider> made(const char* base_url) {
    Options options;
    options.api_key = "sk-test";
    options.base_url = base_url;
    options.retry.max_retries = 0;
    return std::make_shared<P>(std::move(options));
}

std::shared_ptr<Provider> provider_of(const std::string& name) {
    if (name == "anthropic") return made<AnthropicProvider, AnthropicOptions>("http://endpoint");
    if (name == "openai-chat") return made<OpenAIProvider, OpenAIOptions>("http://endpoint/v1");
    return made<OpenAIResponsesProvider, OpenAIResponsesOptions>("http://endpoint/v1");
}

const Json& differences() {
    static const Json known = [] {
        std::ifstream file(cubepi::testing::source_path("tests/wire/oracle/differences.json"));
        std::stringstream text;
        text << file.rdbuf();
        return boost::json::parse(text.str());
    }();
    return known;
}

/// The request to the SDK: the bytes of the (last) answer, and their division.
JsonObject question_of(const Json& wire_case) {
    JsonObject question;
    question["provider"] = wire_case.at("provider");
    question["body"] = text_of(wire_case, "response_sse");
    const Json* shape = member(wire_case, "response");
    if (const Json* answers = member(wire_case, "answers")) {
        shape = &answers->as_array().back();
        if (member(*shape, "body")) question["body"] = shape->at("body");
    }
    if (!shape) return question;
    for (const char* key : {"status", "headers", "cut"}) {
        if (const Json* value = member(*shape, key)) question[key] = *value;
    }
    return question;
}

/// The same answer for our decoder, without the attempts before it.
Json last_answer_of(Json wire_case) {
    const Json* answers = member(wire_case, "answers");
    if (!answers) return wire_case;
    JsonArray last;
    last.push_back(answers->as_array().back());
    wire_case.as_object()["answers"] = std::move(last);
    return wire_case;
}

class OracleOfQuirks : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const char* given = std::getenv("CUBEPI_MOCKS_DIR");
        program = std::make_unique<ChildProcess>(std::vector<std::string>{
            "node", cubepi::testing::source_path("tests/wire/oracle/oracle.mjs"),
            given ? given : cubepi::testing::source_path("tools/mocks")});
        ASSERT_FALSE(program->read_line().empty())
            << "the SDKs do not load: run tools/setup, which installs them in tools/mocks";
    }
    static void TearDownTestSuite() { program.reset(); }

    static Json ask(const JsonObject& question) {
        program->write_line(boost::json::serialize(question));
        return boost::json::parse(program->read_line());
    }

    static inline std::unique_ptr<ChildProcess> program;
};

class Oracle : public OracleOfQuirks, public ::testing::WithParamInterface<std::string> {};

/// The differences; empty: they agree.
std::string disagreement(const std::string& provider, const CaseAnswer& ours, const Json& theirs) {
    const Json* failure = member(theirs, "error");
    const bool we_failed = ours.message.stop_reason == stop_reason::error;
    if (failure && we_failed) return {};
    if (failure) return "the SDK fails: " + boost::json::serialize(*failure);
    if (we_failed) return "we fail: " + ours.message.error_message.str();
    const JsonObject own = normal_form(provider, ours.body);
    const JsonObject other = normal_form(provider, theirs.at("message"));
    if (own == other) return {};
    return "ours    " + boost::json::serialize(own) + "\nthe SDK's " +
           boost::json::serialize(other);
}

/// `name` is the case's in differences.json.
void expect_agreement(const std::string& name, const Json& wire_case, const Json& theirs) {
    const std::string provider = text_of(wire_case, "provider");
    const CaseAnswer ours = answer_of_case(last_answer_of(wire_case),
                                           [&](const Json&) { return provider_of(provider); });
    const std::string differ = disagreement(provider, ours, theirs);
    const bool odd = name.starts_with("quirks/") && member(theirs, "error");
    if (odd) return;  // the vendor's SDK need not accept the stream of a compatible server
    if (member(differences(), name)) {
        EXPECT_FALSE(differ.empty())
            << "the difference no longer exists: remove it from differences.json";
    } else {
        EXPECT_EQ(differ, "") << name;
    }
}

TEST_P(Oracle, SameBytes_ProduceTheSameMessage) {
    const Json wire_case = read_case(GetParam());
    if (member(wire_case.at("options"), "abort_after_events")) return;  // not about bytes
    expect_agreement(GetParam().substr(std::string("responses/").size()), wire_case,
                     ask(question_of(wire_case)));
}

namespace fs = std::filesystem;

/// A quirk's file is a header and, after a blank line, the bytes of the answer.
Json case_of_quirk(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    const std::string whole = text.str();
    const std::string directory = path.parent_path().filename().string();
    JsonObject made;
    made["provider"] = directory == "anthropic" ? directory : "openai-" + directory;
    made["model"] = "m";
    made["options"] = JsonObject();
    made["tools"] = JsonArray();
    made["messages"] =
        boost::json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])");
    made["response_sse"] = whole.substr(whole.find("\n\n") + 2);
    return made;
}

TEST_F(OracleOfQuirks, SameBytes_ProduceTheSameMessage) {
    std::vector<fs::path> files;
    for (const char* directory : {"anthropic", "chat", "responses"}) {
        const fs::path all =
            fs::path(cubepi::testing::source_path("tests/wire/quirks")) / directory;
        if (!fs::exists(all)) continue;
        for (const auto& entry : fs::directory_iterator(all)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& path : files) {
        const std::string name =
            "quirks/" + path.parent_path().filename().string() + "/" + path.filename().string();
        SCOPED_TRACE(name);
        const Json wire_case = case_of_quirk(path);
        expect_agreement(name, wire_case, ask(question_of(wire_case)));
    }
}

std::vector<std::string> answers_of(const std::string& prefix) {
    std::vector<std::string> names;
    for (std::string& name : cases_of(prefix)) {
        if (name.starts_with("responses/")) names.push_back(std::move(name));
    }
    return names;
}

INSTANTIATE_TEST_SUITE_P(Anthropic, Oracle, ::testing::ValuesIn(answers_of("anthropic-")),
                         case_test_name);
INSTANTIATE_TEST_SUITE_P(OpenAIChat, Oracle, ::testing::ValuesIn(answers_of("openai-chat-")),
                         case_test_name);
INSTANTIATE_TEST_SUITE_P(OpenAIResponses, Oracle,
                         ::testing::ValuesIn(answers_of("openai-responses-")), case_test_name);

}  // namespace
}  // namespace cubepi::wire
