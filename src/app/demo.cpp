#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/temporary_directory.hpp>

#include "config/config_file.hpp"
#include "config/model_choice.hpp"
#include "config/paths.hpp"
#include "conversation/conversation.hpp"
#include "failure.hpp"
#include "models.hpp"
#include "process.hpp"
#include "program.hpp"
#include "render/renderers.hpp"
#include "terminal/job_control.hpp"
#include "terminal/prompter.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

// The answers of the scripted model of the tour, scene by scene. It reads the real results before it mentions them.

/// The exit of a process of the tour.
struct StepEnd {
    int pid = 0;
    int exit_code = -1;  ///< -1: it was killed
    int signal = 0;      ///< 0: it exited
};

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

/// The answer to the prompt after the abort.
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

/// The number of letters that the tool of that step has sent: the effect that must not happen twice.
std::size_t letters_sent(const std::filesystem::path& directory) {
    std::ifstream file(outbox(directory));
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
}

/// Runs this program again as `demo-step STEP` on the tapes and directory, with the terminal of this process, and
/// waits for it. Blocks. Throws Error(io).
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

/// A directory of a few files for the tour to work on; removed with this object.
class ScratchDirectory {
public:
    /// Throws Error(io).
    ScratchDirectory();
    /// Returns to the directory of the user.
    ~ScratchDirectory();
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;

    /// The directory of the tools.
    std::filesystem::path workspace() const { return root_.path() / "workspace"; }
    std::filesystem::path tapes() const { return root_.path() / "tapes"; }

private:
    TemporaryDirectory root_;
    std::filesystem::path before_;
};

constexpr std::string_view notes =
    "# Lighthouse, week 12\n\n"
    "The lamp turns again since Tuesday. Grease: two tins left.\n"
    "The inspector comes on Friday at nine; the log book must be complete.\n";
constexpr std::string_view todo = "order grease\npaint the door\ncopy the log book\n";
constexpr std::string_view costs = "item,price\ngrease,18.50\npaint,41.00\n";

void put(const std::filesystem::path& path, std::string_view text) {
    std::ofstream file(path, std::ios::binary);
    file << text << std::flush;
    if (!file)
        throw Error(ErrorCode::io,
                    "cannot write " + path.string() + "; is the disk full? Check: df -h");
}

ScratchDirectory::ScratchDirectory() : root_("demo") {
    std::filesystem::create_directories(workspace());
    put(workspace() / "notes.md", notes);
    put(workspace() / "todo.txt", todo);
    put(workspace() / "costs.csv", costs);
    // The instructions of the directory in which the tour was started are not for it.
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(workspace());
}

ScratchDirectory::~ScratchDirectory() {
    std::error_code failed;
    std::filesystem::current_path(before_, failed);
}

/// The content of a file, or an empty text.
std::string file_text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// Answers approvals without a user, and shows the answer. Only for the tour.
class TourApproval {
public:
    TourApproval(Style style, std::function<void()> before)
        : style_(style), before_(std::move(before)) {}

    std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext& context) {
        const RuleDecision decision = policy_.decide(context.tool, context.args);
        if (decision.allowed) return std::nullopt;
        before_();
        out() << style_.yellow() << "? " << style_.off() << for_terminal(decision.question)
              << "\n  [y]es  [n]o  [r]eason  [e]dit > y   (there is no terminal to ask the user: "
                 "the tour "
                 "answers for you)\n"
              << flush_now;
        BeforeToolCallResult result;
        result.hitl_trace = JsonObject{{"decision", "policy_allow"}};
        return result;
    }

private:
    ToolRules policy_;
    Style style_;
    std::function<void()> before_;
};

class Tour {
public:
    Tour(Executor executor, bool terminal, bool fast)
        : terminal_(terminal),
          fast_(fast),
          runtime_(Runtime::standard()),
          renderer_(*runtime_->clock, executor, PlainRenderer::Opening::notes),
          faux_(demo_voice(fast)) {
        std::shared_ptr<Prompter> prompter;
        if (terminal_) prompter = std::make_shared<LinePrompter>(executor, std::filesystem::path());
        prompter_ = session_parts(renderer_, std::move(prompter), executor).prompter;
        if (prompter_) make_approval();
        Conversation::Parts parts;
        parts.on_event = [this](const AgentEvent& event) {
            if (watch_) watch_(event);
        };
        conversation_ = std::make_unique<Conversation>(plan(), renderer_, std::move(parts));
    }

    Task<int> walk() {
        welcome();
        co_await rest(3500);
        co_await streamed_markdown();
        co_await two_tools();
        co_await approval();
        co_await aborted_answer();
        co_await killed_process();
        co_return summary();
    }

private:
    using Seen = std::vector<std::pair<bool, std::string>>;

    SessionPlan plan() {
        SessionPlan plan;
        plan.model.model = faux_.model("tour");
        plan.model.where = "the scripted model";
        plan.model.offline = true;
        plan.session_id = "cli:tour";
        plan.tapes = std::make_shared<bub::MemoryTapeStore>();
        plan.system_prompt = "You are the script of a guided tour.";
        plan.equip = [this](AgentOptions& options, const bub::TurnContext&, bool) {
            equip(options);
        };
        plan.prompter = prompter_;
        plan.host = host_;
        return plan;
    }

    void make_approval() {
        ToolApproval::Options settings;
        settings.previews = previews_;
        approval_ =
            std::make_shared<ToolApproval>(ToolRules(), channel_, prompter_, std::move(settings));
        host_ = std::make_shared<QuestionHost>(channel_, prompter_, style(), approval_, nullptr);
    }

    void equip(AgentOptions& options) {
        StandardToolOptions tools;
        tools.files.previews = previews_;
        tools.with_shell = tools.with_fetch = false;
        options.tools = standard_tools(workspace_, std::move(tools));
        options.channel = channel_;
        if (approval_) {
            options.middleware.emplace_back(approval_);
        } else {
            options.middleware.emplace_back(
                std::make_shared<TourApproval>(style(), [this] { renderer_.pause(); }));
        }
    }

    Style style() const { return renderer_.style(); }

    void welcome() const {
        out() << style().bold() << "A tour of cubepi" << style().off()
              << "\n\nThe model of this tour is a script: it runs offline and needs no key. "
                 "All the rest is what you get\n"
                 "with a real model: the agent, its tools, the approvals, the store, this "
                 "terminal. It works in a directory\n"
                 "of its own, "
              << for_terminal(scratch_.workspace().string()) << ", which is removed at the end.\n"
              << flush_now;
    }

    void title(int number, TerminalView text) const {
        out() << "\n"
              << style().cyan() << "━━ " << number << " of 5  " << style().off() << style().bold()
              << text << style().off() << "\n\n"
              << flush_now;
    }

    /// A pause for the reader.
    Task<void> rest(int milliseconds) {
        if (fast_) co_return;
        co_await runtime_->clock->sleep_for(std::chrono::milliseconds(milliseconds));
    }

    /// Shows a prompt as if it were typed, and runs it.
    Task<int> run_prompt(std::string prompt, std::vector<FauxStep> script) {
        out() << style().bold() << "> " << style().off();
        for (const char letter : prompt) {
            out() << for_terminal(std::string(1, letter)) << flush_now;
            co_await rest(18);
        }
        out() << "\n" << flush_now;
        faux_.set_responses(std::move(script));
        bub::Envelope message = conversation_->pipeline().message(std::move(prompt), false);
        co_return co_await conversation_->run_turn(std::move(message));
    }

    /// For prompts that only the user at the keyboard aborts.
    Task<bool> finish_prompt(std::string prompt, std::vector<FauxStep> script) {
        const int status = co_await run_prompt(std::move(prompt), std::move(script));
        if (status == exit_aborted) throw_cancelled();
        co_return status == exit_ok;
    }

    void saw(bool held, std::string what) { seen_.emplace_back(held, std::move(what)); }

    Task<void> streamed_markdown() {
        title(1, "An answer, while it arrives");
        const bool held = co_await finish_prompt("Good morning! What are you?", markdown_scene());
        saw(held, "an answer as Markdown, shown while it arrived");
        co_await rest(3000);
    }

    Task<void> two_tools() {
        title(2, "Two tools at once, on real files");
        std::size_t running = 0;
        std::size_t together = 0;
        watch_ = [&](const AgentEvent& event) {
            if (event.type() == AgentEventType::tool_execution_start)
                together = std::max(together, ++running);
            if (event.type() == AgentEventType::tool_execution_end) --running;
        };
        const bool held = co_await finish_prompt(
            "What is in this directory, and what do the notes say?", tools_scene());
        watch_ = nullptr;
        saw(held && together == 2, "two tools, run side by side on real files");
        co_await rest(3500);
    }

    Task<void> approval() {
        title(3, "It asks before it writes");
        if (terminal_)
            out() << style().dim()
                  << "(Your turn: type the letter of your answer, then press Enter.)"
                  << style().off() << "\n\n";
        bool refused = false;
        watch_ = [&](const AgentEvent& event) {
            const auto* end = event.get_if<ToolExecutionEndEvent>();
            if (end && end->tool_name == "write") refused = end->is_error;
        };
        const bool held = co_await finish_prompt("Make a plan of it in plan.md.", approval_scene());
        watch_ = nullptr;
        const std::string plan = file_text(scratch_.workspace() / "plan.md");
        out() << "\n" << style().dim();
        if (plan.empty()) {
            out() << "plan.md does not exist.\n";
        } else {
            out() << "plan.md, as it is on the disk now:\n" << for_terminal(plan);
        }
        out() << style().off() << flush_now;
        saw(held && refused == plan.empty(),
            refused ? "a write that you refused, and that did not happen"
                    : "a write that waited for a yes");
        co_await rest(3500);
    }

    Task<void> aborted_answer() {
        title(4, "An answer is stopped in the middle");
        out() << style().dim() << "(The tour presses Ctrl-C for you.)" << style().off() << "\n\n";
        std::size_t shown = 0;
        watch_ = [&](const AgentEvent& event) {
            const std::string_view* text = event.text_delta();
            if (text && (shown += text->size()) > 150) conversation_->pipeline().stop();
        };
        const int status =
            co_await run_prompt("Tell me a long story about a lighthouse.", abort_scene());
        watch_ = nullptr;
        out() << "\n";
        co_await rest(1500);
        const bool held =
            co_await finish_prompt("Shorter, please: one sentence.", after_abort_scene());
        saw(held && status == exit_aborted,
            "an answer that was stopped, and the next prompt after it");
        co_await rest(3000);
    }

    Task<void> killed_process() {
        title(5, "The process is killed in a tool, and another continues");
        out() << style().dim() << "(A process of its own, its session on a tape.)" << style().off()
              << "\n\n";
        const auto step = [this](const char* name) {
            return run_demo_step(name, scratch_.tapes(), scratch_.workspace(), fast_);
        };
        const StepEnd killed = step("kill");
        stop_when_interrupted(killed);
        out() << "\n" << "Process " << killed.pid;
        if (killed.signal == SIGKILL) {
            out() << " was killed inside the tool: no cleanup could run.";
        } else {
            out() << " should have been killed, but was not.";
        }
        out() << " A new process opens the session:\n\n" << flush_now;
        co_await rest(3500);
        const StepEnd continued = step("continue");
        stop_when_interrupted(continued);
        const std::size_t letters = letters_sent(scratch_.workspace());
        out() << "\n"
              << style().dim() << "Process " << continued.pid << " continued. The outbox holds "
              << letters << (letters == 1 ? TerminalView(" letter") : TerminalView(" letters"))
              << ": the call was not made again." << style().off() << "\n"
              << flush_now;
        saw(killed.signal == SIGKILL && continued.exit_code == exit_ok && letters == 1,
            "a process killed in a tool, its session continued by another, no call made twice");
        co_await rest(3500);
    }

    static void stop_when_interrupted(const StepEnd& end) {
        if (end.signal == SIGINT || end.exit_code == exit_aborted) throw_cancelled();
    }

    int summary() const {
        out() << "\n" << style().bold() << "What you saw" << style().off() << "\n\n";
        bool all = true;
        for (const auto& [held, what] : seen_) {
            out() << "  " << (held ? style().green() : style().red())
                  << (held ? TerminalView("✓ ") : TerminalView("✗ ")) << style().off()
                  << for_terminal(what) << "\n";
            all = all && held;
        }
        if (!all) out() << "\nSomething went wrong: please report it with the output above.\n";
        out() << "\nThe same with a real model, which this sets up:\n\n  cubepi onboard\n\n"
              << flush_now;
        return all ? exit_ok : exit_failed;
    }

    bool terminal_;
    bool fast_;
    ScratchDirectory scratch_;
    std::shared_ptr<const Runtime> runtime_;
    PlainRenderer renderer_;
    FauxProvider faux_;
    std::shared_ptr<LocalWorkspace> workspace_ =
        std::make_shared<LocalWorkspace>(scratch_.workspace());
    std::shared_ptr<FilePreviews> previews_ = std::make_shared<FilePreviews>(workspace_);
    std::shared_ptr<HitlChannel> channel_ = std::make_shared<InMemoryChannel>();
    std::shared_ptr<TurnPrompter> prompter_;
    std::shared_ptr<ToolApproval> approval_;  // null: the tour answers for the user
    std::shared_ptr<QuestionHost> host_;
    std::unique_ptr<Conversation> conversation_;
    std::function<void(const AgentEvent& event)> watch_;  // of the scene that plays
    Seen seen_;
};

struct TourEnd {
    int exit_code = exit_failed;
    bool wants_chat = false;
};

/// The endpoint of a live chat: a configured one or a local server; empty if there is none.
Task<std::string> live_model() {
    std::string found;
    try {
        const ConfigFile config = read_config(config_path());
        const ModelSources sources = model_sources(ModelFlags(), config, true);
        const Endpoint endpoint = choose_endpoint(sources);
        if (!endpoint.api_key.empty()) {
            found = "with your key";
            co_return found;
        }
        const std::vector<LocalServer> servers =
            co_await find_local_servers(transport_of(*Runtime::standard()));
        for (const LocalServer& server : servers) {
            if (found.empty() && !server.models.empty())
                found = "with " + server.endpoint.title + " on this machine";
        }
    } catch (const Error&) {
        // `cubepi doctor` reports a configuration that cannot be read; the tour does not.
    }
    co_return found;
}

Task<TourEnd> take_tour(bool terminal, bool fast) {
    const Executor executor = co_await this_executor;
    TourEnd end;
    {
        Tour tour(executor, terminal, fast);
        end.exit_code = co_await tour.walk();
    }
    if (!terminal || end.exit_code != exit_ok) co_return end;
    const std::string live = co_await live_model();
    if (live.empty()) co_return end;
    LinePrompter prompter(executor, std::filesystem::path());
    TerminalText question =
        "Chat " + spelled_out(live) + " now, about the files of this directory? [y/N] > ";
    const std::optional<std::string> answer = co_await prompter.read(std::move(question));
    end.wants_chat = answer && (*answer == "y" || *answer == "Y" || *answer == "yes");
    co_return end;
}

}  // namespace

int demo_step_command(const CommandLine& line) {
    StepPlan plan;
    plan.continues = !line.words.empty() && line.words.front() == "continue";
    plan.fast = line.fast;
    plan.tapes = line.demo_tapes;
    plan.directory = line.demo_directory;
    return run(demo_step(std::move(plan)));
}

int demo_command(const CommandLine& line) {
    const bool terminal =
        isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && in_foreground(STDIN_FILENO);
    const TourEnd end = run(until_signal(take_tour(terminal, line.fast || !terminal)));
    if (!end.wants_chat) return end.exit_code;
    CommandLine chat;
    chat.verb = Verb::chat;
    return chat_command(chat);
}

}  // namespace cubepi::app
