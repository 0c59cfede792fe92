#include "demo_crash.hpp"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/posix_file.hpp>

#include "commands.hpp"
#include "demo_script.hpp"
#include "exit_code.hpp"
#include "terminal/screen.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

struct LetterArgs {
    std::string to;
};

std::filesystem::path outbox(const std::filesystem::path& directory) {
    return directory / "outbox.txt";
}

/// Sends the letter and kills the process before the result is recorded.
AgentTool deadly_tool(std::filesystem::path directory) {
    auto send = [directory = std::move(directory)](LetterArgs args) -> std::string {
        std::ofstream(outbox(directory), std::ios::app) << "letter to " << args.to << std::endl;
        if (isatty(STDERR_FILENO) == 1) err() << "\r\x1b[K";  // over the spinner
        err() << "  … the letter is out, and now: kill -9 " << getpid() << "\n" << flush_now;
        raise(SIGKILL);
        return "sent";
    };
    return tool<LetterArgs>("send_letter", "Sends a letter. It cannot be called back.",
                            std::move(send))
        .risk(ToolRisk::irreversible);
}

struct StepPlan {
    bool continues = false;
    bool fast = false;
    std::string tapes = {};
    std::string directory = {};
};

/// Ends this process in the middle of the tool.
Task<int> prompt_to_the_end(Agent& agent, Screen& screen) {
    const std::string prompt = "Send the inspector a letter that the lamp turns again.";
    out() << screen.style().bold() << "> " << screen.style().off() << for_terminal(prompt) << "\n"
          << flush_now;
    const ScopedSubscription shown =
        agent.subscribe([&](const AgentEvent& event) { screen.on_event(event); });
    const RunResult result = co_await agent.prompt(prompt);
    screen.pause();
    co_return result ? exit_ok : exit_failed;
}

/// Continues the stored session; the screen shows the actions of the new process.
Task<int> continue_stored(Agent& agent, Screen& screen) {
    const ScopedSubscription shown =
        agent.subscribe([&](const AgentEvent& event) { screen.on_event(event); });
    const RunResult result = co_await agent.resume();
    screen.pause();
    for (const Message& message : agent.state().messages) {
        if (!message.tool_result()) continue;
        out() << "  the result that stands for the lost one: \""
              << line_for_terminal(message.text(), 200) << "\"\n";
    }
    if (!result) err() << "cubepi: " << for_terminal(result.error().what()) << "\n";
    co_return result ? exit_ok : exit_failed;
}

Task<int> demo_step(StepPlan plan) {
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    Screen screen(*runtime->clock, co_await this_executor);
    FauxProvider faux(demo_voice(plan.fast));
    faux.set_responses(plan.continues ? continued_scene() : killed_scene());
    AgentOptions options;
    options.model = faux.model("tour");
    options.tools.push_back(deadly_tool(plan.directory));
    const auto tapes = std::make_shared<bub::FileTapeStore>(std::filesystem::path(plan.tapes));
    options.checkpointer = std::make_shared<bub::TapeCheckpointer>(tapes);
    options.thread_id = bub::tape_name(plan.directory, "cli:tour");
    options.runtime = runtime;
    Agent agent(std::move(options));
    if (plan.continues) co_return co_await continue_stored(agent, screen);
    co_return co_await prompt_to_the_end(agent, screen);
}

}  // namespace

std::size_t letters_sent(const std::filesystem::path& directory) {
    std::ifstream file(outbox(directory));
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
}

StepEnd run_demo_step(const std::string& step, const std::filesystem::path& tapes,
                      const std::filesystem::path& directory, bool fast) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> words{program,        "demo-step",   "--tapes",
                                   tapes.string(), "--directory", directory.string()};
    if (fast) words.push_back("--fast");
    words.push_back(step);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    out().flush();
    StepEnd end;
    const int failed =
        posix_spawn(&end.pid, program.c_str(), nullptr, nullptr, arguments.data(), environ);
    if (failed != 0) {
        throw Error(ErrorCode::io,
                    "cannot start " + program + " again: " + detail::errno_text(failed));
    }
    int status = 0;
    while (waitpid(end.pid, &status, 0) < 0) {
        if (errno != EINTR)
            throw Error(ErrorCode::io, "lost the process that the tour had started");
    }
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    return end;
}

int demo_step_command(const CommandLine& line) {
    StepPlan plan;
    plan.continues = !line.words.empty() && line.words.front() == "continue";
    plan.fast = line.fast;
    plan.tapes = line.demo_tapes;
    plan.directory = line.demo_directory;
    return run(demo_step(std::move(plan)));
}

}  // namespace cubepi::app
