#include <cubepi/provider/answer_end.hpp>

#include <algorithm>
#include <array>

#include <cubepi/core/support/lower_case.hpp>

namespace cubepi {

namespace {

// Words of the APIs and of servers: OpenAI, Anthropic, Gemini, Bedrock, Cohere, Mistral, Zhipu, Baidu, vLLM, SGLang, llama.cpp, TGI, LM Studio. They
// are compared without case and without the characters between their letters.

constexpr std::array<std::string_view, 24> complete_words = {
    "stop",      "endturn",      "stopsequence", "tooluse",  "toolcalls",
    "toolcall",  "functioncall", "eos",          "eostoken", "eosfound",
    "eot",       "endoftext",    "endofturn",    "complete", "completed",
    "done",      "end",          "finish",       "finished", "stopstringfound",
    "stoptoken", "normal",       "endofmessage", "eom"};
constexpr std::array<std::string_view, 10> limit_words = {
    "length",       "maxtokens", "maxoutputtokens", "maxcompletiontokens",       "modellength",
    "maxnewtokens", "limit",     "tokenlimit",      "maxpredictedtokensreached", "outoftokens"};
constexpr std::array<std::string_view, 5> window_words = {
    "modelcontextwindowexceeded", "contextwindowexceeded", "contextlengthexceeded",
    "contextlengthreached", "modellengthexceeded"};
constexpr std::array<std::string_view, 16> refusal_words = {"refusal",
                                                            "contentfilter",
                                                            "contentfiltered",
                                                            "safety",
                                                            "sensitive",
                                                            "blocklist",
                                                            "prohibitedcontent",
                                                            "spii",
                                                            "recitation",
                                                            "guardrailintervened",
                                                            "imagesafety",
                                                            "imageprohibitedcontent",
                                                            "errortoxic",
                                                            "moderation",
                                                            "contentpolicyviolation",
                                                            "language"};

template <std::size_t Count>
bool is_one_of(std::string_view word, const std::array<std::string_view, Count>& words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool has_content(const AssistantMessage& answer) {
    return std::any_of(answer.content.begin(), answer.content.end(),
                       [](const AssistantContent& block) {
                           return std::holds_alternative<ImageContent>(block);
                       }) ||
           answer.text().find_first_not_of(" \t\r\n") != std::string::npos;
}

}  // namespace

std::string_view to_string(AnswerEnd end) noexcept {
    switch (end) {
        case AnswerEnd::complete: return "complete";
        case AnswerEnd::cut_off: return "cut_off";
        case AnswerEnd::context_window: return "context_window";
        case AnswerEnd::refused: return "refused";
        case AnswerEnd::incomplete: return "incomplete";
        case AnswerEnd::empty: return "empty";
    }
    return "incomplete";
}

AnswerEnd answer_end(const AssistantMessage& answer) {
    const std::string word = detail::letters_of(answer.stop_reason);
    if (is_one_of(word, limit_words)) return AnswerEnd::cut_off;
    if (is_one_of(word, window_words)) return AnswerEnd::context_window;
    if (answer.is_refusal() || is_one_of(word, refusal_words)) return AnswerEnd::refused;
    // Servers have many words for an answer that ends with calls: "tools", "function_calls", "tool_request".
    const bool ends_with_calls =
        answer.has_tool_calls() &&
        (word.starts_with("tool") || word.starts_with("function") || word == "pauseturn");
    if (!ends_with_calls && !is_one_of(word, complete_words)) return AnswerEnd::incomplete;
    return answer.has_tool_calls() || has_content(answer) ? AnswerEnd::complete : AnswerEnd::empty;
}

std::string answer_end_text(const AssistantMessage& answer) {
    std::string text;
    switch (answer_end(answer)) {
        case AnswerEnd::complete: return {};
        case AnswerEnd::cut_off:
            text = "the answer was cut off at the output limit and is incomplete";
            break;
        case AnswerEnd::context_window:
            text = "the answer was cut off at the end of the context window and is incomplete";
            break;
        case AnswerEnd::refused:
            text = "the answer was refused or filtered and is incomplete";
            break;
        case AnswerEnd::incomplete: text = "the answer is incomplete: the server ended it"; break;
        case AnswerEnd::empty: text = "the model returned an empty answer"; break;
    }
    // A provider of the program's own may set any word.
    return text + " (stop reason '" + detail::server_stop_reason(answer.stop_reason) + "')";
}

bool is_paused(const AssistantMessage& answer) noexcept {
    return answer.stop_reason == "pause_turn" && !answer.has_tool_calls();
}

std::string detail::server_stop_reason(std::string_view word) {
    constexpr std::size_t longest = 64;
    if (word == stop_reason::error || word == stop_reason::aborted)
        return "server_" + std::string(word);
    std::string reason(word.substr(0, longest));
    std::replace_if(reason.begin(), reason.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return reason;
}

}  // namespace cubepi
