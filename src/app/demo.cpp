#include <algorithm>
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

#include <unistd.h>

#include <bub/tape/memory_tape_store.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/temporary_directory.hpp>

#include "config/config_file.hpp"
#include "config/model_choice.hpp"
#include "config/paths.hpp"
#include "conversation/conversation.hpp"
#include "demo_scenes.hpp"
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
    Task<int> say(std::string prompt, std::vector<FauxStep> script) {
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
    Task<bool> say_and_finish(std::string prompt, std::vector<FauxStep> script) {
        const int status = co_await say(std::move(prompt), std::move(script));
        if (status == exit_aborted) throw_cancelled();
        co_return status == exit_ok;
    }

    void saw(bool held, std::string what) { seen_.emplace_back(held, std::move(what)); }

    Task<void> streamed_markdown() {
        title(1, "An answer, while it arrives");
        const bool held = co_await say_and_finish("Good morning! What are you?", markdown_scene());
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
        const bool held = co_await say_and_finish(
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
        const bool held =
            co_await say_and_finish("Make a plan of it in plan.md.", approval_scene());
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
        const int status = co_await say("Tell me a long story about a lighthouse.", abort_scene());
        watch_ = nullptr;
        out() << "\n";
        co_await rest(1500);
        const bool held =
            co_await say_and_finish("Shorter, please: one sentence.", after_abort_scene());
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
