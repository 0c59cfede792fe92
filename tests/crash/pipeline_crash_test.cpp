#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>

#include "open_calls.hpp"
#include "pipeline_worker.hpp"
#include "worker_process.hpp"

// A process is killed at every step of a turn with tools, through the whole pipeline; the next one continues the session.

namespace cubepi::crash_tests {

namespace {

MessageList stored_in(const std::filesystem::path& directory) {
    bub::TapeCheckpointer memory(tapes_in(directory));
    const auto data = run(memory.load(bub::tape_name(directory, session_id)));
    return data ? data->messages : MessageList();
}

void expect_continued(const std::filesystem::path& directory) {
    const std::vector<std::string> made = calls_made(directory);
    std::vector<std::string> sorted = made;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end())
        << "a call took effect twice";
    const MessageList before = stored_in(directory);
    FauxProvider faux;
    MessageList request;
    std::vector<FauxStep> script;
    script.emplace_back(FauxStep([&](const ModelRequest& asked) {
        request = asked.messages;
        return faux_assistant_message("I see");
    }));
    faux.set_responses(std::move(script));
    const std::unique_ptr<bub::Framework> framework = pipeline_in(directory, faux);
    EXPECT_EQ(say(*framework, "What happened?"), "I see");
    ASSERT_FALSE(request.empty());
    EXPECT_TRUE(is_legal_transcript(request)) << "D1";
    EXPECT_EQ(request.back().text(), "What happened?");
    expect_unknown_outcomes(request, unanswered(before));
    EXPECT_EQ(calls_made(directory), made) << "a call was executed again";
    const MessageList after = stored_in(directory);
    EXPECT_TRUE(is_legal_transcript(after)) << "D1";
    ASSERT_GT(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(after[i] == before[i]) << "message " << i << " changed";
}

}  // namespace

TEST(PipelineCrash, D1_ContinuesAfterAKillWithoutRepeatingCalls) {
    std::size_t with_open_calls = 0;
    const std::size_t steps = kill_at_each_step("--pipeline", [&](const Remains& remains) {
        if (!remains.killed) return;
        with_open_calls += unanswered(stored_in(remains.directory)).empty() ? 0 : 1;
        expect_continued(remains.directory);
    });
    EXPECT_GT(steps, 60u);
    EXPECT_GT(with_open_calls, 10u);
}

namespace {

bool has_text(const MessageList& messages, std::string_view text) {
    return std::any_of(messages.begin(), messages.end(), [text](const Message& message) {
        return message.text().find(text) != std::string::npos;
    });
}

}  // namespace

TEST(PipelineCrash, B9_AKillDuringAHandOffLosesNothing) {
    std::size_t handed_off = 0;
    const std::size_t steps = kill_at_each_step("--handoff", [&](const Remains& remains) {
        FauxProvider faux;
        MessageList request;
        std::vector<FauxStep> script;
        script.emplace_back(FauxStep([&](const ModelRequest& asked) {
            request = asked.messages;
            return faux_assistant_message("I see");
        }));
        faux.set_responses(std::move(script));
        const std::unique_ptr<bub::Framework> framework = pipeline_in(remains.directory, faux);
        EXPECT_EQ(say(*framework, "What happened?"), "I see");
        EXPECT_TRUE(is_legal_transcript(request)) << "D1";
        const bool whole = has_text(request, "Use Postgres.");
        const bool summary = has_text(request, "The user wants Postgres.");
        EXPECT_NE(whole, summary) << "either the conversation or its summary";
        handed_off += summary ? 1 : 0;
        const bub::Tape tape(tapes_in(remains.directory),
                             bub::tape_name(remains.directory, session_id));
        bub::TapeSearch search;
        search.text = "Use Postgres.";
        EXPECT_FALSE(run(tape.search(std::move(search))).empty())
            << "the summarized entries can be found";
    });
    EXPECT_GT(steps, 10u);
    EXPECT_GT(handed_off, 3u);
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return tests_or_worker(
        argc, argv,
        {{"--pipeline",
          [](const std::vector<std::string>& arguments) {
              return run_pipeline_worker(arguments.at(0), std::stoul(arguments.at(1)));
          }},
         {"--handoff", [](const std::vector<std::string>& arguments) {
              return run_handoff_worker(arguments.at(0), std::stoul(arguments.at(1)));
          }}});
}
