#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <cubepi/agent/transcript.hpp>

#include "directory_channel.hpp"
#include "gateway_worker.hpp"
#include "worker_process.hpp"

// A gateway with the agent is killed at every write, between the arrival of a message and that of its answer.

namespace cubepi::crash_tests {

namespace {

Ended run_gateway(const std::filesystem::path& directory, std::size_t kill_at = 0,
                  const std::string& worker = "--gateway") {
    return run_worker({worker, directory.string(), std::to_string(kill_at)});
}

bool is_whole_answer(const Message& message) {
    const AssistantMessage* answer = message.assistant();
    return answer && !answer->has_tool_calls() && answer->stop_reason != stop_reason::aborted &&
           answer->stop_reason != stop_reason::error;
}

/// The content of a chat's tape: the updates that are messages of the user, and the complete answers.
struct Conversation {
    std::vector<std::string> inputs;
    std::vector<std::string> answers;
};

Conversation conversation_of(const std::filesystem::path& directory, const std::string& chat) {
    const MessageList messages = messages_of_chat(directory, chat);
    EXPECT_TRUE(is_legal_transcript(messages)) << "D1";
    Conversation stored;
    for (const Message& message : messages) {
        const std::string text = message.text();
        const std::string last_line = text.substr(text.rfind('\n') + 1);
        if (message.user() && std::count(updates.begin(), updates.end(), last_line) > 0)
            stored.inputs.push_back(last_line);
        if (is_whole_answer(message)) stored.answers.push_back(text);
    }
    return stored;
}

/// Checks that there is one message of the user and one answer of the model for each update of the chat.
void expect_one_each(const Conversation& stored, const std::vector<std::string>& of_chat) {
    EXPECT_EQ(stored.inputs, of_chat);
    std::vector<std::string> answers;
    for (const std::string& update : of_chat) answers.push_back("re: " + update);
    EXPECT_EQ(stored.answers, answers);
}

void expect_none_twice(std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

/// Runs the gateway again, and checks what it left. Returns the number of messages that were processed again.
std::size_t expect_recovered(const Remains& remains) {
    EXPECT_EQ(run_gateway(remains.directory).status, 0);
    expect_one_each(conversation_of(remains.directory, "short"), {"one", "two"});
    expect_one_each(conversation_of(remains.directory, "long"), {"three", "four"});
    EXPECT_LE(times_looked(remains.directory), 1u) << "a call took effect twice";
    const Count count = expect_dealt_with(remains.directory, answer_to);
    EXPECT_EQ(count.held, 0u) << "one kill holds nothing";
    return count.again;
}

/// Runs the gateway with the repeatable tool again, and returns how often the tool took effect.
std::size_t look_again(const std::filesystem::path& directory) {
    EXPECT_EQ(run_gateway(directory, 0, "--repeatable").status, 0);
    expect_one_each(conversation_of(directory, "short"), {"one", "two"});
    expect_one_each(conversation_of(directory, "long"), {"three", "four"});
    for (const Message& message : messages_of_chat(directory, "long")) {
        if (message.tool_result()) {
            EXPECT_EQ(message.text(), "found");
        }
    }
    return times_looked(directory);
}

}  // namespace

TEST(GatewayCrash, D42_Kill_LeavesOneMessageAnswerAndDelivery) {
    std::size_t again = 0;
    const std::size_t steps = kill_at_each_step(
        "--gateway", [&](const Remains& remains) { again += expect_recovered(remains); },
        kill_stride);
    EXPECT_GT(steps, 150u);
    // Every seventh step may be none of those between an answer and its record.
    EXPECT_TRUE(again > 4 || kill_stride > 1) << again;
}

TEST(GatewayCrash, D42_KillWithThreads_LosesAndRepeatsNothing) {
    const std::size_t steps = kill_at_each_step(
        "--threads", [](const Remains& remains) { (void)expect_recovered(remains); },
        3 * kill_stride);
    EXPECT_GT(steps, 150u);
}

TEST(GatewayCrash, D42_TwoKills_RepeatNothing) {
    const auto check = [](const Remains& remains) {
        if (!remains.killed) return;
        const std::size_t then = remains.step * 7 % 90 + 1;
        SCOPED_TRACE("then at " + std::to_string(then));
        (void)run_gateway(remains.directory, then);
        EXPECT_EQ(run_gateway(remains.directory).status, 0);
        for (const char* chat : {"short", "long"}) {
            const Conversation stored = conversation_of(remains.directory, chat);
            expect_none_twice(stored.inputs);
            expect_none_twice(stored.answers);
        }
        EXPECT_LE(times_looked(remains.directory), 1u) << "a call took effect twice";
        (void)expect_dealt_with(remains.directory, answer_to);
    };
    (void)kill_at_each_step("--gateway", check, 4 * kill_stride);
}

TEST(GatewayCrash, D104_IdempotentCall_TakesEffectOnceOrTwice) {
    const auto check = [](const Remains& remains) {
        const std::size_t looked = look_again(remains.directory);
        EXPECT_GT(looked, 0u);
        EXPECT_LE(looked, 2u);
    };
    (void)kill_at_each_step("--repeatable", check, 2);
}

TEST(GatewayCrash, D104_KillBeforeResult_RepeatsIdempotentCall) {
    const TestDirectory directory;
    EXPECT_TRUE(run_gateway(directory.path(), after_effect, "--repeatable").killed);
    EXPECT_EQ(times_looked(directory.path()), 1u);
    EXPECT_EQ(look_again(directory.path()), 2u);
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    const auto gateway = [](std::size_t threads) {
        return [threads](const std::vector<std::string>& arguments) {
            return run_gateway_worker(arguments.at(0), std::stoul(arguments.at(1)), false, threads);
        };
    };
    const auto repeatable = [](const std::vector<std::string>& arguments) {
        return run_gateway_worker(arguments.at(0), std::stoul(arguments.at(1)), false, 0,
                                  cubepi::ReplayPolicy::idempotent);
    };
    return tests_or_worker(
        argc, argv,
        {{"--gateway", gateway(0)}, {"--threads", gateway(2)}, {"--repeatable", repeatable}});
}
