#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/questions.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>

#include "directory_channel.hpp"
#include "gateway_worker.hpp"
#include "worker_process.hpp"

// A gateway that asks about a call is killed at every write, from the arrival of the message over its question and the answer
// to the effect of the call and the end of the run.

namespace cubepi::crash_tests {

namespace {

Ended run_gateway(const std::filesystem::path& directory, std::size_t kill_at = 0) {
    return run_worker({"--questions", directory.string(), std::to_string(kill_at)});
}

/// Replaces the random name of the question (D83).
std::string with_fixed_name(std::string line) {
    for (const std::string_view command : {",approve ", ",deny "}) {
        const std::size_t at = line.find(command);
        if (at != line.npos) line.replace(at + command.size(), bub::question_name_size, "NAME");
    }
    return line;
}

/// The messages that the user sees: the text before the question, the question, and the answers of the model.
const std::vector<std::string> asked = {
    "Looking.", "Run look {}? Answer with ,approve NAME or ,deny NAME REASON", "re: three",
    "re: four"};
/// The process was killed between the call and its question: the model learns that the call was interrupted.
const std::vector<std::string> interrupted = {
    "Looking.  re: three", "no question of this session waits for an answer", "re: four"};

/// Checks that each message was sent, none twice without a mark, and nothing else. The sender of a message that must wait is
/// told so, which may be repeated.
void expect_sent_once(const std::filesystem::path& directory,
                      const std::vector<std::string>& expected) {
    std::vector<std::string> sent = lines_of(sent_file(directory));
    for (std::string& line : sent) line = with_fixed_name(std::move(line));
    std::erase_if(sent, [](const std::string& line) {
        return line.starts_with("This session waits for an answer");
    });
    for (const std::string& line : expected) {
        EXPECT_LE(std::count(sent.begin(), sent.end(), line), 1) << line << " was sent twice";
        const std::string again = line + " (again)";
        EXPECT_GE(std::erase(sent, line) + std::erase(sent, again), 1u) << line << " is lost";
    }
    EXPECT_TRUE(sent.empty()) << "something else was sent: " << sent.front();
    EXPECT_TRUE(run(deliveries_in(directory)->unfinished()).empty());
}

void expect_whole_conversation(const std::filesystem::path& directory) {
    const MessageList messages = messages_of_chat(directory, "long");
    EXPECT_TRUE(is_legal_transcript(messages)) << "D1";
    std::size_t inputs = 0;
    std::size_t results = 0;
    for (const Message& message : messages) {
        const std::string text = message.text();
        const std::string last_line = text.substr(text.rfind('\n') + 1);
        if (message.user() && (last_line == with_tool || last_line == "four")) ++inputs;
        if (message.tool_result()) ++results;
    }
    EXPECT_EQ(inputs, 2u);
    EXPECT_EQ(results, 1u);
}

void expect_approved(const std::filesystem::path& directory) {
    EXPECT_LE(times_looked(directory), 1u) << "the call took effect twice";
    EXPECT_LE(recorded_answers(directory), 1u);
    if (times_looked(directory) == 1) {
        EXPECT_EQ(recorded_answers(directory), 1u) << "a call without its approval";
    }
}

}  // namespace

TEST(QuestionCrash, B23_Kill_AsksOnceAndAppliesAnswerOnce) {
    std::size_t approvals = 0;
    std::size_t effects = 0;
    std::size_t kills = 0;
    const auto check = [&](const Remains& remains) {
        ++kills;
        expect_approved(remains.directory);
        EXPECT_EQ(run_gateway(remains.directory).status, 0);
        expect_approved(remains.directory);
        expect_whole_conversation(remains.directory);
        const std::size_t approved = recorded_answers(remains.directory);
        expect_sent_once(remains.directory, approved == 1 ? asked : interrupted);
        approvals += approved;
        effects += times_looked(remains.directory);
    };
    EXPECT_GT(kill_at_each_step("--questions", check, kill_stride), 150u);
    EXPECT_GT(approvals, kills * 3 / 4) << "only a kill before the question prevents it";
    EXPECT_GT(effects, approvals * 9 / 10) << "only a kill during the call prevents it";
}

TEST(QuestionCrash, B23_TwoKills_DoNotRepeatTheEffect) {
    const auto check = [](const Remains& remains) {
        if (!remains.killed) return;
        const std::size_t then = remains.step * 7 % 90 + 1;
        SCOPED_TRACE("then at " + std::to_string(then));
        (void)run_gateway(remains.directory, then);
        expect_approved(remains.directory);
        EXPECT_EQ(run_gateway(remains.directory).status, 0);
        expect_approved(remains.directory);
    };
    (void)kill_at_each_step("--questions", check, 5 * kill_stride);
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return tests_or_worker(argc, argv,
                           {{"--questions", [](const std::vector<std::string>& arguments) {
                                 return run_gateway_worker(arguments.at(0),
                                                           std::stoul(arguments.at(1)), true);
                             }}});
}
