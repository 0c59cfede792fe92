#include "demo_crash.hpp"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>

#include "commands.hpp"
#include "conversation.hpp"
#include "demo_script.hpp"
#include "exit_code.hpp"
#include "terminal/screen.hpp"

namespace cubepi::app {

namespace {

struct LetterArgs {
    std::string to;
};

std::filesystem::path outbox(const std::filesystem::path& folder) { return folder / "outbox.txt"; }

/// Sends the letter and takes the whole process down before anybody learns of it.
AgentTool deadly_tool(std::filesystem::path folder) {
    auto send = [folder = std::move(folder)](LetterArgs args) -> std::string {
        std::ofstream(outbox(folder), std::ios::app) << "letter to " << args.to << std::endl;
        if (isatty(STDERR_FILENO) == 1) std::cerr << "\r\x1b[K";  // over the spinner
        std::cerr << "  … the letter is out, and now: kill -9 " << getpid() << std::endl;
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
    std::string database = {};
    std::string folder = {};
};

/// Continues what is stored; what the screen shows is what the new process does.
Task<int> continue_stored(Agent& agent, Screen& screen) {
    const ScopedSubscription shown =
        agent.subscribe([&](const AgentEvent& event) { screen.on_event(event); });
    const RunResult result = co_await agent.resume();
    screen.pause();
    for (const Message& message : agent.state().messages) {
        if (!message.tool_result()) continue;
        std::cout << "  the result that stands for the lost one: \""
                  << one_line(message.text(), 200) << "\"\n";
    }
    if (!result) std::cerr << "cubepi: " << printable(result.error().what()) << '\n';
    co_return result ? exit_ok : exit_failed;
}

Task<int> demo_step(StepPlan plan) {
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    Screen screen(*runtime->clock, co_await this_executor);
    FauxProvider faux(demo_voice(plan.fast));
    faux.set_responses(plan.continues ? continued_scene() : killed_scene());
    AgentOptions options;
    options.model = faux.model("tour");
    options.tools.push_back(deadly_tool(plan.folder));
    options.checkpointer = std::make_shared<SQLiteCheckpointer>(plan.database);
    options.thread_id = "tour";
    options.runtime = runtime;
    Session session;
    session.agent = std::make_unique<Agent>(std::move(options));
    session.model.where = "the scripted model";
    if (plan.continues) co_return co_await continue_stored(*session.agent, screen);
    std::string prompt = "Send the inspector a letter that the lamp turns again.";
    std::cout << screen.style().bold() << "> " << screen.style().off() << prompt << '\n'
              << std::flush;
    co_return co_await converse(session, screen, std::move(prompt));
}

}  // namespace

std::size_t letters_sent(const std::filesystem::path& folder) {
    std::ifstream file(outbox(folder));
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
}

StepEnd run_demo_step(const std::string& step, const std::filesystem::path& database,
                      const std::filesystem::path& folder, bool fast) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> words{program,           "demo-step", "--database",
                                   database.string(), "--folder",  folder.string()};
    if (fast) words.push_back("--fast");
    words.push_back(step);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::cout << std::flush;
    StepEnd end;
    const int failed =
        posix_spawn(&end.pid, program.c_str(), nullptr, nullptr, arguments.data(), environ);
    if (failed != 0) {
        throw Error(ErrorCode::io, "cannot start " + program +
                                       " again: " + std::generic_category().message(failed));
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
    plan.database = line.demo_database;
    plan.folder = line.demo_folder;
    return run(demo_step(std::move(plan)));
}

}  // namespace cubepi::app
