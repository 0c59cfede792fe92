// A server that cuts long requests without saying so, as local servers do: the program notices it, and forgets nothing (D111).

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;

std::string fact(std::size_t number) { return "fact-" + std::to_string(number) + "-end"; }

std::set<std::string> facts_in(const std::string& text) {
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
        const std::string last = boost::json::serialize(messages.back());
        if (last.find("recall all") != std::string::npos) {
            std::vector<SentCall> calls;
            for (std::size_t i = 0; i < planted; ++i) {
                calls.push_back(
                    SentCall{"recall", R"({"find":")" + fact(i) + "\"}", "r" + std::to_string(i)});
            }
            return chat_answer_with_usage("", tokens, calls);
        }
        return chat_answer_with_usage("Noted.", tokens);
    }

    std::size_t planted = 0;
    std::size_t summaries = 0;
    std::size_t largest_summary = 0;  ///< bytes of a conversation to summarize
    bool was_cut = false;             ///< the last request
};

TEST(SilentCut, D111_Run_NoticesAndForgetsNothing) {
    const Home home;
    CuttingModel model;
    ModelServer server([&model](const boost::json::object& body) { return model.answer(body); });
    bool is_noticed = false;
    bool is_compacted = false;
    for (std::size_t i = 0; i < 20; ++i) {
        // Each prompt is a process of its own: what the server has counted is in the session.
        std::string prompt = "Note this: " + fact(model.planted++);
        while (prompt.size() < 4'000) prompt += " and more words";
        const Piped run = run_at(home, server, {"-s", "long", prompt});
        ASSERT_EQ(run.status, 0) << run.err;
        is_noticed = is_noticed || run.err.find("seems to cut requests") != std::string::npos;
        is_compacted =
            is_compacted || run.err.find("compacted the conversation") != std::string::npos;
    }
    EXPECT_TRUE(is_noticed);
    EXPECT_TRUE(is_compacted);
    EXPECT_GE(model.summaries, 1u);
    EXPECT_LE(model.largest_summary, CuttingModel::window) << "the server would cut it, too";
    EXPECT_FALSE(model.was_cut) << "later requests fit";
    EXPECT_EQ(run_at(home, server, {"-s", "long", "recall all"}).status, 0);
    const boost::json::value sent = server.bodies().back();
    std::set<std::string> recalled;
    for (const boost::json::value& message : sent.at("messages").as_array()) {
        if (message.at("role") != "tool") continue;
        recalled.merge(facts_in(boost::json::serialize(message)));
    }
    EXPECT_EQ(recalled.size(), model.planted);
}

}  // namespace
}  // namespace cubepi::joint_tests
