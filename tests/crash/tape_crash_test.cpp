#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "worker_process.hpp"

// A process is killed at every write of two turns; the next one finds a valid tape and continues.

namespace cubepi::crash_tests {

namespace {

constexpr const char* tape = "w__s";
constexpr const char* second_input = "And then?";

/// The file of the text that the process has shown and reported as stored.
std::filesystem::path shown_file(const std::filesystem::path& directory) {
    return directory / "shown";
}

/// The exit status of a process whose turn was refused.
constexpr int was_refused = 4;
/// Exists while a process sleeps between the end of its run and the merge of its turn.
std::filesystem::path before_merge_file(const std::filesystem::path& directory) {
    return directory / "before-merge";
}

struct NoArgs {};

bub::FileTapeOptions options_in(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return options;
}

/// Shows the text to the user; from now on it must not get lost.
Task<void> show(std::shared_ptr<bub::TurnTransaction> fork, int shown, std::string delta) {
    fork->add_text(delta);
    co_await fork->flush();
    write_without_step(shown, delta);
}

AssistantContent call(std::string id) {
    return faux_tool_call("look", JsonObject(), std::move(id));
}

std::vector<FauxStep> script() {
    ContentList<AssistantContent> two;
    two.emplace_back(faux_text("Two at once. "));
    two.push_back(call("c1"));
    two.push_back(call("c2"));
    std::vector<FauxStep> steps;
    steps.emplace_back(faux_assistant_message(std::move(two), stop_reason::tool_use));
    steps.emplace_back("All done. ");
    steps.emplace_back("Nothing more. ");
    return steps;
}

Task<void> take_turn(const bub::Tape& tape, FauxProvider& faux, std::string id, int shown,
                     std::string input) {
    bub::TurnTransactionOptions options;
    options.turn_id = std::move(id);
    const std::shared_ptr<bub::TurnTransaction> fork = tape.fork(std::move(options));
    AgentOptions agent_options;
    agent_options.model = faux.model("offline");
    agent_options.checkpointer = std::make_shared<bub::TapeCheckpointer>(fork);
    agent_options.thread_id = tape.name();
    agent_options.tools.push_back(
        tool<NoArgs>("look", "Looks.", [](NoArgs) { return std::string("seen"); }));
    Agent agent(std::move(agent_options));
    (void)agent.subscribe([&fork, shown](const AgentEvent& event, std::stop_token) {
        const std::string_view* delta = event.text_delta();
        return show(fork, shown, std::string(delta ? *delta : std::string_view()));
    });
    const RunResult result = co_await agent.prompt(std::move(input));
    co_await fork->merge(result ? bub::TurnStatus::ok : bub::TurnStatus::error);
}

/// Two turns of an agent on a tape in `directory`, the first with two calls of a tool. Kills itself at step `kill_at`: before,
/// in the middle of, and after each write to a file, and around each rename and removal. Returns the exit status when
/// there are fewer steps.
int run_tape_worker(const std::filesystem::path& directory, std::size_t kill_at) {
    const int shown = open(shown_file(directory).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    arm(kill_at);
    FauxProvider faux;
    faux.set_responses(script());
    const bub::Tape on(std::make_shared<bub::FileTapeStore>(options_in(directory)), tape);
    run(on.bootstrap());
    run(take_turn(on, faux, "turn-1", shown, "Do two things."));
    run(take_turn(on, faux, "turn-2", shown, second_input));
    disarm();
    close(shown);
    return 0;
}

/// Stops the process once: at an event, or after the last one.
class Freezer {
public:
    Freezer(std::filesystem::path directory, std::size_t at)
        : directory_(std::move(directory)), at_(at) {}
    void on_event() {
        if (++events_ == at_) (void)raise(SIGSTOP);
    }
    void before_merge() {
        if (events_ >= at_) return;
        std::ofstream(before_merge_file(directory_)).put('\n');
        (void)raise(SIGSTOP);
    }

private:
    const std::filesystem::path directory_;
    const std::size_t at_;
    std::size_t events_ = 0;
};

Task<void> take_claimed_turn(std::shared_ptr<bub::TurnTransaction> fork, FauxProvider& faux,
                             Freezer& freezer, std::string input) {
    bub::TapeCheckpointerOptions memory;
    memory.lease = std::chrono::seconds(0);
    AgentOptions options;
    options.model = faux.model("offline");
    options.checkpointer = std::make_shared<bub::TapeCheckpointer>(fork, std::move(memory));
    options.thread_id = tape;
    options.tools.push_back(
        tool<NoArgs>("look", "Looks.", [](NoArgs) { return std::string("seen"); }));
    Agent agent(std::move(options));
    (void)agent.subscribe([&freezer](const AgentEvent&) { freezer.on_event(); });
    std::exception_ptr refused;
    try {
        (void)co_await agent.prompt(std::move(input));
    } catch (const StaleAppendError&) {
        refused = std::current_exception();
    }
    freezer.before_merge();
    co_await fork->merge(refused ? bub::TurnStatus::error : bub::TurnStatus::ok);
    if (refused) std::rethrow_exception(refused);
}

/// One turn with a call, under a claim whose lease is over at once. Freezes itself (SIGSTOP) at event `freeze_at` of the run;
/// if there are fewer, after the run and before the merge of the turn. Zero: never. Returns the exit status.
int run_claimed_turn(const std::filesystem::path& directory, const std::string& name,
                     std::size_t freeze_at) {
    FauxProvider faux;
    std::vector<FauxStep> steps;
    steps.emplace_back(faux_assistant_message(call("c-" + name), stop_reason::tool_use));
    steps.emplace_back(faux_assistant_message("I am " + name));
    faux.set_responses(std::move(steps));
    bub::TurnTransactionOptions options;
    options.turn_id = name;
    const bub::Tape on(std::make_shared<bub::FileTapeStore>(options_in(directory)), tape);
    const std::shared_ptr<bub::TurnTransaction> fork = on.fork(std::move(options));
    Freezer freezer(directory, freeze_at);
    try {
        run(take_claimed_turn(fork, faux, freezer, "Who is " + name + "?"));
    } catch (const StaleAppendError&) {
        return was_refused;
    }
    return 0;
}

/// Reads the tape, which closes the turns of dead processes. Kills itself at step `kill_at`.
int run_tape_reader(const std::filesystem::path& directory, std::size_t kill_at) {
    bub::FileTapeStore store(options_in(directory));
    arm(kill_at);
    (void)run(store.position(tape));
    disarm();
    return 0;
}

/// Appends `turns` turns of three entries each, all with the text `name`.
int run_tape_writer(const std::filesystem::path& directory, const std::string& name, int turns) {
    const bub::Tape on(std::make_shared<bub::FileTapeStore>(options_in(directory)), tape);
    for (int i = 0; i < turns; ++i) {
        bub::TurnTransactionOptions options;
        options.turn_id = name + "-" + std::to_string(i);
        const std::shared_ptr<bub::TurnTransaction> fork = on.fork(std::move(options));
        const bub::Tape inside = on.in(fork);
        for (const char* role : {"user", "assistant"})
            run(inside.append(bub::message_entry(role, name)));
        run(fork->merge());
    }
    return 0;
}

std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::shared_ptr<bub::FileTapeStore> store_in(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return std::make_shared<bub::FileTapeStore>(std::move(options));
}

std::vector<bub::TapeEntry> entries_in(const std::filesystem::path& directory) {
    return run(store_in(directory)->fetch(tape, bub::TapeQuery()));
}

/// The whole text of the model on the tape.
std::string text_on(const std::vector<bub::TapeEntry>& entries) {
    std::string text;
    for (const bub::TapeEntry& entry : entries) {
        const Json* role = entry.payload.if_contains("role");
        const bool answer = entry.kind == "tool_call" || (role && *role == Json("assistant"));
        if (answer) text += entry.payload.at("content").as_string();
    }
    return text;
}

std::string status_of(const bub::TapeEntry& marker) {
    return std::string(marker.payload.at("data").as_object().at("status").as_string());
}

/// The messages that an agent receives from the tape.
std::string conversation_in(const std::filesystem::path& directory) {
    bub::TapeCheckpointer memory(store_in(directory));
    const auto data = run(memory.load(tape));
    std::string texts;
    for (const Message& message : data ? data->messages : MessageList())
        texts += message.text() + "|";
    return texts;
}

/// The record of a refused turn, as text.
std::string refused_on(const std::filesystem::path& directory) {
    const auto event = run(store_in(directory)->find_event(tape, "turn.refused"));
    return event ? bub::tape_line(*event) : std::string();
}

void expect_whole(const std::vector<bub::TapeEntry>& entries) {
    std::vector<std::string> closed;
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        EXPECT_EQ(entries[i].id, static_cast<std::int64_t>(i + 1));
        const Json* role = entries[i].payload.if_contains("role");
        if (role && *role == Json("user"))
            inputs.emplace_back(entries[i].payload.at("content").as_string());
        if (entries[i].kind == "event" && bub::entry_name(entries[i]) == "turn") {
            closed.emplace_back(entries[i].payload.at("data").as_object().at("turn").as_string());
            EXPECT_EQ(inputs.size(), closed.size())
                << "a turn without its input, or one in another";
            if (i + 1 != entries.size()) {
                EXPECT_NE(status_of(entries[i]), "interrupted") << "only the last was";
            }
        }
    }
    EXPECT_EQ(inputs.size(), closed.size()) << "B9: each turn is closed";
    EXPECT_EQ(std::adjacent_find(closed.begin(), closed.end()), closed.end());
}

/// Checks in the next process that the shown text is stored, the turn is closed, and an agent can continue.
void expect_recovered(const std::filesystem::path& directory) {
    const std::string shown = read(shown_file(directory));
    const std::vector<bub::TapeEntry> entries = entries_in(directory);
    const std::string text = text_on(entries);
    EXPECT_TRUE(text.starts_with(shown)) << "shown: " << shown << "\nstored: " << text;
    expect_whole(entries);
    EXPECT_EQ(entries_in(directory), entries) << "closing is done once";
    for (const auto& file : std::filesystem::directory_iterator(directory / "tapes")) {
        const std::string extension = file.path().extension().string();
        EXPECT_TRUE(extension != ".commit" && extension != ".turns") << file.path();
    }
    FauxProvider faux;
    std::vector<FauxStep> script;
    bool legal = false;
    script.emplace_back(FauxStep([&](const ModelRequest& request) {
        legal = is_legal_transcript(request.messages);
        return faux_assistant_message("I see");
    }));
    faux.set_responses(std::move(script));
    AgentOptions options;
    options.model = faux.model("offline");
    options.checkpointer = std::make_shared<bub::TapeCheckpointer>(store_in(directory));
    options.thread_id = tape;
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("What happened?"));
    EXPECT_EQ(to_string(result.outcome), "completed");
    EXPECT_TRUE(legal) << "D1";
}

TEST(TapeCrash, B9_Kill_LosesNoShownText) {
    std::size_t interrupted = 0;
    const std::size_t steps = kill_at_each_step("--tape", [&](const Remains& remains) {
        expect_recovered(remains.directory);
        const std::vector<bub::TapeEntry> entries = entries_in(remains.directory);
        interrupted += static_cast<std::size_t>(
            std::any_of(entries.begin(), entries.end(), [](const bub::TapeEntry& entry) {
                return entry.kind == "event" && bub::entry_name(entry) == "turn" &&
                       status_of(entry) == "interrupted";
            }));
    });
    EXPECT_GT(steps, 80u);
    EXPECT_GT(interrupted, 30u);
}

TEST(TapeCrash, B9_KillDuringRecovery_ClosesTheTurnOnce) {
    const TestDirectory left;
    EXPECT_TRUE(run_worker({"--tape", left.path().string(), "30"}).killed);
    std::size_t at = 0;
    for (bool killed = true; killed && !::testing::Test::HasFailure();) {
        SCOPED_TRACE("killed at step " + std::to_string(++at));
        const TestDirectory directory;
        std::filesystem::copy(left.path(), directory.path(),
                              std::filesystem::copy_options::recursive);
        killed =
            run_worker({"--tape-reader", directory.path().string(), std::to_string(at)}).killed;
        expect_recovered(directory.path());
    }
    EXPECT_GT(at, 8u);
}

TEST(TapeCrash, B9_TwoProcessesOnOneTape_KeepTurnsWhole) {
    constexpr int turns = 60;
    const TestDirectory directory;
    const std::string place = directory.path().string();
    const std::string count = std::to_string(turns);
    WorkerProcess first({"--tape-writer", place, "a", count});
    WorkerProcess second({"--tape-writer", place, "b", count});
    EXPECT_EQ(first.wait().status, 0);
    EXPECT_EQ(second.wait().status, 0);
    const std::vector<bub::TapeEntry> entries = entries_in(directory.path());
    ASSERT_EQ(entries.size(), 2u * 3u * turns);
    expect_whole(entries);
    for (std::size_t i = 0; i < entries.size(); i += 3) {
        EXPECT_EQ(entries[i].payload.at("content"), entries[i + 1].payload.at("content"));
        EXPECT_EQ(status_of(entries[i + 2]), "ok");
    }
}

TEST(TapeCrash, D50_ProcessSleepingAtAnyPoint_IsFencedOff) {
    std::size_t at = 1;
    for (bool in_run = true; in_run && !::testing::Test::HasFailure(); ++at) {
        SCOPED_TRACE("frozen at event " + std::to_string(at));
        const TestDirectory directory;
        const std::string place = directory.path().string();
        WorkerProcess sleeper({"--claimed-turn", place, "sleeper", std::to_string(at)});
        ASSERT_TRUE(sleeper.wait_until_frozen());
        EXPECT_EQ(run_worker({"--claimed-turn", place, "other", "0"}).status, 0);
        sleeper.thaw();
        EXPECT_EQ(sleeper.wait().status, was_refused);
        EXPECT_EQ(conversation_in(directory.path()), "Who is other?||seen|I am other|");
        in_run = !std::filesystem::exists(before_merge_file(directory.path()));
        if (in_run) continue;
        const std::string refused = refused_on(directory.path());
        EXPECT_NE(refused.find("Who is sleeper?"), std::string::npos) << refused;
        EXPECT_NE(refused.find("I am sleeper"), std::string::npos) << refused;
    }
    EXPECT_GT(at, 10u);
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    using Arguments = std::vector<std::string>;
    return tests_or_worker(
        argc, argv,
        {{"--claimed-turn",
          [](const Arguments& arguments) {
              return run_claimed_turn(arguments.at(0), arguments.at(1),
                                      std::stoul(arguments.at(2)));
          }},
         {"--tape",
          [](const Arguments& arguments) {
              return run_tape_worker(arguments.at(0), std::stoul(arguments.at(1)));
          }},
         {"--tape-reader",
          [](const Arguments& arguments) {
              return run_tape_reader(arguments.at(0), std::stoul(arguments.at(1)));
          }},
         {"--tape-writer", [](const Arguments& arguments) {
              return run_tape_writer(arguments.at(0), arguments.at(1), std::stoi(arguments.at(2)));
          }}});
}
