#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/core/event_signal.hpp>

#include "../terminal/prompter.hpp"

namespace cubepi::app {

/// Answers questions from a list. After the last answer the input ends, or waits if `waits_at_end` is set.
class ScriptedPrompter final : public Prompter {
public:
    explicit ScriptedPrompter(std::deque<std::string> list) : answers(std::move(list)) {}

    void print(TerminalView text) override { shown += text.str(); }
    void withdraw() override { ++withdrawn; }
    Task<std::optional<std::string>> read(TerminalText prompt, std::string) override {
        shown += prompt.str();
        ++asked;
        std::optional<std::string> answer;
        if (answers.empty()) {
            if (waits_at_end) co_await never.wait();
            co_return answer;
        }
        answer = std::move(answers.front());
        answers.pop_front();
        shown += *answer + "\n";
        co_return answer;
    }

    std::deque<std::string> answers;
    bool waits_at_end = false;
    std::string shown;
    int asked = 0;
    int withdrawn = 0;
    AsyncEvent never;
};

}  // namespace cubepi::app
