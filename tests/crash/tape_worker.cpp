#include "tape_worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <utility>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "kill_at_write.hpp"

namespace cubepi::crash_tests {

namespace {

struct NoArgs {};

bub::FileTapeOptions options_in(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return options;
}

/// Shows the text to the user; from now on it must not get lost.
Task<void> show(std::shared_ptr<bub::TapeFork> fork, int shown, std::string delta) {
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
    bub::TapeForkOptions options;
    options.turn_id = std::move(id);
    const std::shared_ptr<bub::TapeFork> fork = tape.fork(std::move(options));
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

}  // namespace

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

namespace {

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

Task<void> take_claimed_turn(std::shared_ptr<bub::TapeFork> fork, FauxProvider& faux,
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

}  // namespace

int run_claimed_turn(const std::filesystem::path& directory, const std::string& name,
                     std::size_t freeze_at) {
    FauxProvider faux;
    std::vector<FauxStep> steps;
    steps.emplace_back(faux_assistant_message(call("c-" + name), stop_reason::tool_use));
    steps.emplace_back(faux_assistant_message("I am " + name));
    faux.set_responses(std::move(steps));
    bub::TapeForkOptions options;
    options.turn_id = name;
    const bub::Tape on(std::make_shared<bub::FileTapeStore>(options_in(directory)), tape);
    const std::shared_ptr<bub::TapeFork> fork = on.fork(std::move(options));
    Freezer freezer(directory, freeze_at);
    try {
        run(take_claimed_turn(fork, faux, freezer, "Who is " + name + "?"));
    } catch (const StaleAppendError&) {
        return was_refused;
    }
    return 0;
}

int run_tape_reader(const std::filesystem::path& directory, std::size_t kill_at) {
    bub::FileTapeStore store(options_in(directory));
    arm(kill_at);
    (void)run(store.position(tape));
    disarm();
    return 0;
}

int run_tape_writer(const std::filesystem::path& directory, const std::string& name, int turns) {
    const bub::Tape on(std::make_shared<bub::FileTapeStore>(options_in(directory)), tape);
    for (int i = 0; i < turns; ++i) {
        bub::TapeForkOptions options;
        options.turn_id = name + "-" + std::to_string(i);
        const std::shared_ptr<bub::TapeFork> fork = on.fork(std::move(options));
        const bub::Tape inside = on.in(fork);
        for (const char* role : {"user", "assistant"})
            run(inside.append(bub::message_entry(role, name)));
        run(fork->merge());
    }
    return 0;
}

}  // namespace cubepi::crash_tests
