#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/framework.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "open_calls.hpp"
#include "worker_process.hpp"

// A process is killed at every step of a turn with tools, through the whole pipeline; the next one continues the session.

namespace cubepi::crash_tests {

namespace {

constexpr const char* session_id = "cli:plan";

struct NoArgs {};

std::filesystem::path effects_in(const std::filesystem::path& directory) {
    return directory / "effects";
}

std::string leave_effect(const std::filesystem::path& file, const std::string& call_id) {
    step();
    const std::string line = call_id + "\n";
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) throw std::runtime_error("cannot write the effect");
    write_without_step(fd, line);
    close(fd);
    step();
    return "done: " + call_id;
}

AgentTool lasting_tool(const std::filesystem::path& directory) {
    return tool<NoArgs>("lasting", "Has an effect that lasts.",
                        [file = effects_in(directory)](NoArgs, ToolContext& context) {
                            return leave_effect(file, context.tool_call_id());
                        });
}

std::vector<FauxStep> script() {
    ContentList<AssistantContent> two;
    two.emplace_back(faux_text("Two at once. "));
    two.push_back(faux_tool_call("lasting", JsonObject(), "c1"));
    two.push_back(faux_tool_call("lasting", JsonObject(), "c2"));
    std::vector<FauxStep> steps;
    steps.emplace_back(faux_assistant_message(std::move(two), stop_reason::tool_use));
    steps.emplace_back(faux_assistant_message(faux_tool_call("lasting", JsonObject(), "c3"),
                                              stop_reason::tool_use));
    steps.emplace_back("All done. ");
    return steps;
}

std::shared_ptr<bub::FileTapeStore> tapes_in(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return std::make_shared<bub::FileTapeStore>(std::move(options));
}

/// A pipeline over the tapes in `directory`, with a tool that appends a line to a file for each call.
std::unique_ptr<bub::Framework> pipeline_in(const std::filesystem::path& directory,
                                            FauxProvider& faux) {
    bub::FrameworkOptions around;
    around.workspace = directory;
    auto framework = std::make_unique<bub::Framework>(std::move(around));
    bub::BuiltinOptions options;
    options.model = faux.model("offline");
    options.home = directory;
    options.tape_store = tapes_in(directory);
    options.with_user_skills = false;
    options.with_tools = false;
    options.tools.push_back(lasting_tool(directory));
    framework->add(bub::builtin_plugin(*framework, std::move(options)));
    return framework;
}

/// One turn of the session.
std::string say(bub::Framework& framework, const std::string& text) {
    bub::Envelope message(text);
    message.session_id = session_id;
    return run(framework.process_inbound(std::move(message), true)).model_output;
}

/// The calls that took effect, in order.
std::vector<std::string> calls_made(const std::filesystem::path& directory) {
    std::ifstream in(effects_in(directory));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// Runs a turn with three calls in two steps. Kills itself at step `kill_at`; returns the exit status if there are fewer.
int run_pipeline_worker(const std::filesystem::path& directory, std::size_t kill_at) {
    FauxProvider faux;
    faux.set_responses(script());
    const std::unique_ptr<bub::Framework> framework = pipeline_in(directory, faux);
    arm(kill_at);
    (void)say(*framework, "Do three things.");
    disarm();
    return 0;
}

/// Runs a turn whose conversation does not fit the model's window and is summarized. The turn before it is not killed.
int run_compaction_worker(const std::filesystem::path& directory, std::size_t kill_at) {
    std::vector<FauxStep> steps;
    steps.emplace_back("Noted.");
    steps.push_back(faux_failure("the prompt is too long"));
    steps.emplace_back("The user wants Postgres.");
    steps.emplace_back("As you wish.");
    FauxProvider faux;
    faux.set_responses(std::move(steps));
    const std::unique_ptr<bub::Framework> framework = pipeline_in(directory, faux);
    (void)say(*framework, "Use Postgres.");
    arm(kill_at);
    (void)say(*framework, "Continue.");
    disarm();
    return 0;
}

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

TEST(PipelineCrash, D1_ContinuationAfterKill_RepeatsNoCalls) {
    std::size_t with_open_calls = 0;
    const std::size_t steps = kill_at_each_step("--pipeline", [&](const Remains& remains) {
        if (!remains.killed) return;
        with_open_calls += unanswered(stored_in(remains.directory)).empty() ? 0 : 1;
        expect_continued(remains.directory);
    });
    EXPECT_GT(steps, 40u);
    EXPECT_GT(with_open_calls, 10u);
}

bool has_text(const MessageList& messages, std::string_view text) {
    return std::any_of(messages.begin(), messages.end(), [text](const Message& message) {
        return message.text().find(text) != std::string::npos;
    });
}

TEST(PipelineCrash, B9_KillDuringCompaction_LosesNothing) {
    std::size_t compacted = 0;
    const std::size_t steps = kill_at_each_step("--compaction", [&](const Remains& remains) {
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
        compacted += summary ? 1 : 0;
        const bub::Tape tape(tapes_in(remains.directory),
                             bub::tape_name(remains.directory, session_id));
        bub::TapeSearch search;
        search.text = "Use Postgres.";
        EXPECT_FALSE(run(tape.search(std::move(search))).empty())
            << "the summarized entries can be found";
    });
    EXPECT_GT(steps, 10u);
    EXPECT_GT(compacted, 3u);
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return tests_or_worker(
        argc, argv,
        {{"--pipeline",
          [](const std::vector<std::string>& arguments) {
              return run_pipeline_worker(arguments.at(0), std::stoul(arguments.at(1)));
          }},
         {"--compaction", [](const std::vector<std::string>& arguments) {
              return run_compaction_worker(arguments.at(0), std::stoul(arguments.at(1)));
          }}});
}
