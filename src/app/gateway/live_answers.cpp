#include "live_answers.hpp"

#include <string_view>
#include <utility>

#include <cubepi/net/utf8.hpp>

namespace cubepi::app {

namespace {

/// The limit of a text, of which the end is shown: it is what is new.
constexpr std::size_t longest_text = 32 * 1024;
constexpr std::size_t longest_arguments = 2'000;
constexpr std::size_t most_calls = 64;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

void append(LiveAnswer& answer, std::string& text, std::string_view more) {
    text += more;
    if (text.size() <= 2 * longest_text) return;
    // Half of it at a time: a long answer has many small parts.
    std::size_t begin = text.size() - longest_text;
    while (begin < text.size() && is_continuation(text[begin])) ++begin;
    text.erase(0, begin);
    answer.truncated = true;
}

void begin_message(LiveAnswer& answer) {
    answer.text.clear();
    answer.thinking.clear();
    answer.truncated = false;
}

}  // namespace

bool shorten(std::string& text, std::size_t limit) {
    if (text.size() <= limit) return false;
    text.resize(complete_utf8_prefix(std::string_view(text).substr(0, limit)));
    return true;
}

void LiveAnswers::follow(const std::shared_ptr<LiveAnswers>& answers,
                         const std::shared_ptr<Agent>& agent, std::string session) {
    {
        const std::lock_guard lock(answers->mutex_);
        std::erase_if(answers->entries_,
                      [](const auto& one) { return one.second.agent.expired(); });
        Entry& entry = answers->entries_[session];
        entry = Entry();
        entry.agent = agent;
    }
    agent->subscribe([answers, session = std::move(session)](const AgentEvent& event) {
        answers->note(session, event);
    });
}

void LiveAnswers::end(const std::string& session) {
    const std::lock_guard lock(mutex_);
    entries_.erase(session);
}

std::optional<LiveAnswer> LiveAnswers::find(const std::string& session) const {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(session);
    if (found == entries_.end() || found->second.agent.expired()) return std::nullopt;
    const LiveAnswer& answer = found->second.answer;
    if (answer.text.empty() && answer.thinking.empty() && answer.calls.empty()) return std::nullopt;
    return answer;
}

void LiveAnswers::note(const std::string& session, const AgentEvent& event) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(session);
    if (found == entries_.end()) return;
    LiveAnswer& answer = found->second.answer;
    if (const std::string_view* const text = event.text_delta()) {
        append(answer, answer.text, *text);
    } else if (const std::string_view* const thinking = event.thinking_delta()) {
        append(answer, answer.thinking, *thinking);
    } else if (event.get_if<MessageStartEvent>() || event.get_if<MessageEndEvent>()) {
        // A complete message is stored, and therefore in the history.
        begin_message(answer);
    } else if (const auto* const start = event.get_if<ToolExecutionStartEvent>()) {
        if (answer.calls.size() >= most_calls) return;
        HistoryCall& call = answer.calls.emplace_back();
        call.id = start->tool_call_id.str();
        call.name = start->tool_name.str();
        call.arguments = boost::json::serialize(start->args);
        (void)shorten(*call.arguments, longest_arguments);
    } else if (const auto* const done = event.get_if<ToolExecutionEndEvent>()) {
        std::erase_if(answer.calls, [done](const HistoryCall& call) {
            return call.id == done->tool_call_id.str();
        });
    }
}

}  // namespace cubepi::app
