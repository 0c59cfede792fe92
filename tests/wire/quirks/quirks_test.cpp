#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/gemini.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "source_tree.hpp"

// Deviations of compatible servers from the protocols. A file is a header and, after a blank line, the bytes of the answer. The
// header: the deviation, "source: " the thread that reported it, options, "expect: " the expected result.

namespace cubepi {
namespace {

namespace fs = std::filesystem;
using testing::MemoryResponse;
using testing::MemoryTransport;

struct Quirk {
    std::string protocol;
    std::string name;
    std::string what;
    std::map<std::string, std::string> header;
    std::string body;

    const std::string& field(const std::string& key) const {
        static const std::string none;
        const auto found = header.find(key);
        return found == header.end() ? none : found->second;
    }
};

[[maybe_unused]] void PrintTo(const Quirk& quirk, std::ostream* out) {
    *out << quirk.protocol << "/" << quirk.name;
}

Quirk read_quirk(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    Quirk quirk;
    quirk.protocol = path.parent_path().filename().string();
    quirk.name = path.stem().string();
    std::string line;
    std::getline(text, quirk.what);
    while (std::getline(text, line) && !line.empty()) {
        const std::size_t colon = line.find(": ");
        if (colon != std::string::npos)
            quirk.header[line.substr(0, colon)] = line.substr(colon + 2);
    }
    std::stringstream rest;
    rest << text.rdbuf();
    quirk.body = rest.str();
    return quirk;
}

std::vector<Quirk> all_quirks() {
    std::vector<Quirk> quirks;
    for (const auto& entry :
         fs::recursive_directory_iterator(cubepi::testing::source_path("tests/wire/quirks"))) {
        if (entry.path().extension() == ".txt" && entry.path().stem() != "CMakeLists")
            quirks.push_back(read_quirk(entry.path()));
    }
    std::sort(quirks.begin(), quirks.end(), [](const Quirk& a, const Quirk& b) {
        return std::tie(a.protocol, a.name) < std::tie(b.protocol, b.name);
    });
    return quirks;
}

template <class Options>
Options options_of() {
    Options options;
    options.base_url = "http://server.local/v1";
    options.provider_id = "p";
    options.retry.max_retries = 0;
    return options;
}

BoundModel model_of(const Quirk& quirk) {
    if (quirk.protocol == "anthropic")
        return AnthropicProvider(options_of<AnthropicOptions>()).model("m");
    if (quirk.protocol == "gemini") return GeminiProvider(options_of<GeminiOptions>()).model("m");
    if (quirk.protocol == "responses")
        return OpenAIResponsesProvider(options_of<OpenAIResponsesOptions>()).model("m");
    auto options = options_of<OpenAIOptions>();
    options.accept_missing_finish = quirk.field("accept-missing-finish") == "true";
    return OpenAIProvider(std::move(options)).model("m");
}

AssistantMessage answer_to(const Quirk& quirk, std::vector<std::string> pieces) {
    auto transport = std::make_shared<MemoryTransport>([&pieces](const HttpRequest&) {
        MemoryResponse response =
            MemoryResponse(200).with_header("content-type", "text/event-stream");
        for (const std::string& piece : pieces) {
            // A setter returns its object. NOLINTNEXTLINE(bugprone-use-after-move)
            if (!piece.empty()) (void)std::move(response).with_piece(piece);
        }
        return response;
    });
    auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    const MessageList messages{user_message("Hi")};
    return run(model_of(quirk).generate(messages, {}, {}, StreamOptions().runtime(runtime)));
}

JsonObject to_expectation(const AssistantContent& block) {
    JsonObject object;
    if (const auto* text = std::get_if<TextContent>(&block)) {
        object["text"] = text->text;
    } else if (const auto* thinking = std::get_if<ThinkingContent>(&block)) {
        object["thinking"] = thinking->thinking;
        if (!thinking->extra.empty()) object["extra"] = thinking->extra.get();
    } else if (const auto* call = std::get_if<ToolCall>(&block)) {
        JsonObject inner;
        inner["id"] = call->id.str();
        inner["name"] = call->name.str();
        inner["arguments"] = call->arguments;
        if (const Json* raw = call->extra.find("raw_arguments")) inner["raw"] = *raw;
        object["call"] = std::move(inner);
    }
    return object;
}

/// An id that the file does not contain is one of ours, which only has to exist.
void forget_made_up_id(JsonObject& actual, const Json& expected) {
    Json* call = actual.if_contains("call");
    const Json* wanted = expected.get_object().if_contains("call");
    if (!call || !wanted || wanted->get_object().contains("id")) return;
    EXPECT_FALSE(call->at("id").as_string().empty());
    call->get_object().erase("id");
}

void check_count(const JsonObject& expected, std::string_view key, TokenCount actual) {
    if (const Json* wanted = expected.if_contains(key)) {
        EXPECT_EQ(Json(actual.value_or(-1)), *wanted) << key;
    }
}

void check(const Json& expected, const AssistantMessage& message) {
    const JsonObject& wanted = expected.as_object();
    EXPECT_EQ(message.stop_reason, std::string(wanted.at("stop_reason").as_string()))
        << message.error_message;
    const JsonArray& blocks = wanted.at("content").as_array();
    ASSERT_EQ(message.content.size(), blocks.size()) << message.error_message;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        JsonObject actual = to_expectation(message.content[i]);
        forget_made_up_id(actual, blocks[i]);
        EXPECT_EQ(Json(actual), blocks[i]);
    }
    if (const Json* usage = wanted.if_contains("usage")) {
        ASSERT_EQ(message.usage.has_value(), !usage->is_null());
        if (!usage->is_null()) {
            check_count(usage->get_object(), "input", message.usage->input_tokens);
            check_count(usage->get_object(), "output", message.usage->output_tokens);
        }
    }
    if (const Json* id = wanted.if_contains("response_id")) {
        EXPECT_EQ(Json(message.response_id.str()), *id);
    }
    const Json* error = wanted.if_contains("error");
    ASSERT_EQ(message.error != nullptr, error != nullptr) << message.error_message;
    if (!error) return;
    EXPECT_EQ(to_string(message.error->code), std::string(error->at("code").as_string()))
        << message.error_message;
    const std::string text(error->at("text").as_string());
    EXPECT_NE(message.error_message.str().find(text), std::string::npos) << message.error_message;
}

class Quirks : public ::testing::TestWithParam<Quirk> {};

TEST_P(Quirks, EachQuirk_ProducesAMessageOrTypedError) {
    const Quirk& quirk = GetParam();
    SCOPED_TRACE(quirk.what);
    EXPECT_TRUE(quirk.field("source").starts_with("https://github.com/"));
    const Json expected = parse_json(quirk.field("expect"));
    check(expected, answer_to(quirk, {quirk.body}));
    std::vector<std::string> bytes;
    for (const char byte : quirk.body) bytes.emplace_back(1, byte);
    check(expected, answer_to(quirk, std::move(bytes)));
    for (std::size_t cut = 1; cut < quirk.body.size() && !HasFailure(); ++cut) {
        SCOPED_TRACE("cut at byte " + std::to_string(cut));
        check(expected, answer_to(quirk, {quirk.body.substr(0, cut), quirk.body.substr(cut)}));
    }
}

INSTANTIATE_TEST_SUITE_P(Wire, Quirks, ::testing::ValuesIn(all_quirks()), [](const auto& info) {
    std::string name = info.param.protocol + "_" + info.param.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace cubepi
