#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model_server.hpp"

namespace cubepi::joint_tests {

inline std::string fact(std::size_t number) { return "fact-" + std::to_string(number) + "-end"; }

inline std::set<std::string> facts_in(const std::string& text) {
    std::set<std::string> found;
    for (std::size_t at = text.find("fact-"); at != std::string::npos;
         at = text.find("fact-", at + 1)) {
        const std::size_t end = text.find("-end", at);
        if (end - at < 10) found.insert(text.substr(at, end + 4 - at));
    }
    return found;
}

/// The model of a server that drops the oldest messages of a request until the rest fits its window.
struct CuttingModel {
    static constexpr std::size_t window = 30'000;  // bytes of messages after the system prompt

    std::string answer(const boost::json::object& body) {
        const boost::json::array& messages = body.at("messages").as_array();
        std::size_t bytes = 0;
        std::size_t first = messages.size();
        for (; first > 1; --first) {
            const std::size_t size = boost::json::serialize(messages[first - 1]).size();
            if (bytes + size > window && first < messages.size()) break;
            bytes += size;
        }
        was_cut = first > 1;
        std::string seen;
        for (; first < messages.size(); ++first) seen += boost::json::serialize(messages[first]);
        const std::size_t tokens = (boost::json::serialize(messages[0]).size() + bytes) / 4;
        if (!body.contains("tools")) {
            ++summaries;
            largest_summary = std::max(largest_summary, bytes);
            std::string summary = "Facts:";
            for (const std::string& one : facts_in(seen)) summary += " " + one;
            return chat_answer_with_usage(summary, tokens);
        }
        if (messages.back().at("role") == "tool")
            return chat_answer_with_usage("Recalled.", tokens);
        const std::string last = boost::json::serialize(messages.back());
        if (last.find("recall all") != std::string::npos) {
            std::vector<SentCall> calls;
            for (std::size_t i = 0; i < planted; ++i) {
                calls.push_back(
                    SentCall{"recall", R"({"find":")" + fact(i) + "\"}", "r" + std::to_string(i)});
            }
            return chat_answer_with_usage("", tokens, calls);
        }
        return chat_answer_with_usage("Noted " + std::to_string(planted) + ".", tokens);
    }

    /// Returns the next prompt, with a fact.
    std::string prompt() {
        std::string text = "Note this: " + fact(planted++);
        while (text.size() < 4'000) text += " and more words";
        return text;
    }
    /// Returns the facts that the results of the last request name.
    static std::set<std::string> recalled(const ModelServer& server) {
        const boost::json::value sent = server.bodies().back();
        std::set<std::string> found;
        for (const boost::json::value& message : sent.at("messages").as_array()) {
            if (message.at("role") == "tool")
                found.merge(facts_in(boost::json::serialize(message)));
        }
        return found;
    }

    std::size_t planted = 0;
    std::size_t summaries = 0;
    std::size_t largest_summary = 0;  ///< bytes of a conversation to summarize
    bool was_cut = false;             ///< the last request
};

}  // namespace cubepi::joint_tests
