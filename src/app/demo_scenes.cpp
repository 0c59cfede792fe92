#include "demo_scenes.hpp"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/posix_file.hpp>

#include "failure.hpp"
#include "program.hpp"
#include "terminal/screen.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

AssistantMessage calls(std::string text, std::vector<ToolCall> made) {
    ContentList<AssistantContent> blocks;
    blocks.emplace_back(faux_text(std::move(text)));
    for (ToolCall& call : made) blocks.emplace_back(std::move(call));
    return faux_assistant_message(std::move(blocks), stop_reason::tool_use);
}

const ToolResultMessage* last_result(const ModelRequest& request, std::string_view tool) {
    const ToolResultMessage* found = nullptr;
    for (const Message& message : request.messages) {
        const ToolResultMessage* result = message.tool_result();
        if (result && std::string_view(result->tool_name) == tool) found = result;
    }
    return found;
}

std::string text_of(const ToolResultMessage& result) {
    std::string text;
    for (const Content& block : result.content) {
        if (const auto* part = std::get_if<TextContent>(&block)) text += part->text;
    }
    return text;
}

AssistantMessage report_on_files(const ModelRequest& request) {
    const ToolResultMessage* list = last_result(request, "list");
    const ToolResultMessage* notes = last_result(request, "read");
    if (!list || !notes || list->is_error || notes->is_error) {
        return faux_assistant_message("One of the tools failed; I would ask you how to continue.");
    }
    const bool inspector = text_of(*notes).find("Friday") != std::string::npos;
    const bool files = text_of(*list).find("todo.txt") != std::string::npos;
    return faux_assistant_message(std::string("- The directory holds ") +
                                  (files ? "`notes.md`, `todo.txt` and `costs.csv`.\n"
                                         : "something that I did not expect.\n") +
                                  "- The notes say that the inspector comes on **" +
                                  (inspector ? "Friday" : "some day") +
                                  "**, and that the log book must be complete.\n");
}

AssistantMessage report_on_write(const ModelRequest& request) {
    const ToolResultMessage* written = last_result(request, "write");
    if (!written || written->is_error) {
        return faux_assistant_message(
            "You refused, so `plan.md` does not exist. I will not try another way.");
    }
    return faux_assistant_message("Done: `plan.md` is written, because you allowed it.");
}

AssistantMessage report_on_letter(const ModelRequest& request) {
    const ToolResultMessage* sent = last_result(request, "send_letter");
    if (!sent) return faux_assistant_message("There is no result of `send_letter` at all.");
    return faux_assistant_message(
        "I was cut off while `send_letter` ran. The letter **may or may not** have gone out, so I "
        "did not send it a "
        "second time. Please check the outbox.");
}

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

FauxOptions demo_voice(bool fast) {
    FauxOptions options;
    options.provider_id = "scripted";
    options.token_size_min = 1;
    options.token_size_max = 2;
    if (!fast) options.tokens_per_second = 16;
    options.yield_every_chunk = true;
    return options;
}

std::vector<FauxStep> markdown_scene() {
    return {faux_assistant_message(
        "# Good morning\n\n"
        "I am a **script**, not a mind: no network, no key. Everything around me is *real*.\n\n"
        "- text is shown **while it arrives**, with `code` and lists\n"
        "- tables wait for their last row:\n\n"
        "| part | does |\n| --- | --- |\n| agent | runs the loop |\n| tools | touch files |\n\n"
        "```cpp\nAgent agent({.model = provider.model(\"gpt-5.1\")});\n```\n")};
}

std::vector<FauxStep> tools_scene() {
    const JsonObject here{{"path", "."}};
    const JsonObject notes{{"path", "notes.md"}};
    std::vector<ToolCall> both;
    both.push_back(faux_tool_call("list", here));
    both.push_back(faux_tool_call("read", notes));
    return {calls("I look at both at once.", std::move(both)), FauxStep(report_on_files)};
}

std::vector<FauxStep> approval_scene() {
    const JsonObject plan{{"path", "plan.md"},
                          {"content", "# Until Friday\n\n1. copy the log book\n2. order grease\n"}};
    std::vector<ToolCall> write;
    write.push_back(faux_tool_call("write", plan));
    return {calls("I write that to a file.", std::move(write)), FauxStep(report_on_write)};
}

std::vector<FauxStep> abort_scene() {
    return {
        faux_assistant_message("It was a dark night, and the lamp had stopped. The keeper climbed "
                               "the stairs, counting them as he always did, "
                               "and at step one hundred and twelve he heard something that he had "
                               "not heard in thirty years: nothing at all. "
                               "This is a very long story, and you did not ask for all of it, "
                               "which is why you will not read how it ends.")};
}

std::vector<FauxStep> after_abort_scene() {
    return {faux_assistant_message(
        "The keeper repaired the lamp. (The answer that you stopped is saved up to there.)")};
}

std::vector<FauxStep> killed_scene() {
    const JsonObject to{{"to", "the inspector"}};
    std::vector<ToolCall> send;
    send.push_back(faux_tool_call("send_letter", to));
    return {calls("I send it.", std::move(send))};
}

std::vector<FauxStep> continued_scene() { return {FauxStep(report_on_letter)}; }

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
