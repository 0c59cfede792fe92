#include <bub/builtin/plugin/core.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <bub/builtin/recorded_reply.hpp>
#include <bub/builtin/tools/tool_names.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/support/issue_text.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace bub::detail {

namespace {

using cubepi::AgentTool;
using cubepi::ErrorCode;

/// Splits a line into words like a POSIX shell, without any expansion. Throws Error(invalid_argument) if a quote is not
/// closed.
std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    std::string word;
    bool open = false;
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote) {
            if (c == quote) {
                quote = 0;
            } else if (c == '\\' && quote == '"' && i + 1 < line.size()) {
                word += line[++i];
            } else {
                word += c;
            }
        } else if (c == '\'' || c == '"') {
            quote = c;
            open = true;
        } else if (c == '\\' && i + 1 < line.size()) {
            word += line[++i];
            open = true;
        } else if (c == ' ' || c == '\t' || c == '\n') {
            if (open) words.push_back(std::exchange(word, {}));
            open = false;
        } else {
            word += c;
            open = true;
        }
    }
    if (quote) {
        throw cubepi::Error(ErrorCode::invalid_argument,
                            std::string("a quote is not closed: ") + quote);
    }
    if (open) words.push_back(std::move(word));
    return words;
}

/// Returns the names of the tool's parameters, in order.
std::vector<std::string> parameters_of(const AgentTool& tool) {
    std::vector<std::string> names;
    const Json* properties = tool.parameters.source().as_object().if_contains("properties");
    if (!properties || !properties->is_object()) return names;
    for (const auto& [key, schema] : properties->get_object()) names.emplace_back(key);
    return names;
}

/// Converts the words of a command, whose first one is its name, to the arguments of the tool: `key=value` by name, others
/// in the order of the parameters. Values are strings; the schema converts them to numbers. A command with Bub's name has
/// Bub's arguments. Throws Error(invalid_argument) for more words than parameters.
JsonObject arguments_of(const AgentTool& tool, const std::vector<std::string>& words) {
    std::vector<std::string> in_order = parameters_of(tool);
    std::vector<std::string> known = in_order;
    const BubTool* bubs = find_bub_tool(words[0]);
    if (bubs) {
        in_order.assign(bubs->parameters.begin(), bubs->parameters.end());
        known.insert(known.end(), in_order.begin(), in_order.end());
    }
    JsonObject arguments;
    auto place = in_order.begin();
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::size_t equals = words[i].find('=');
        const std::string key = words[i].substr(0, equals);
        if (equals != std::string::npos &&
            std::find(known.begin(), known.end(), key) != known.end()) {
            arguments[key] = words[i].substr(equals + 1);
            continue;
        }
        while (place != in_order.end() && arguments.contains(*place)) ++place;
        if (place == in_order.end()) {
            throw cubepi::Error(ErrorCode::invalid_argument,
                                words[0] + " takes no such argument: " + words[i]);
        }
        arguments[*place++] = words[i];
    }
    if (bubs) arguments = our_arguments(*bubs, std::move(arguments));
    return arguments;
}

/// The instructions are a sentence, whose apostrophes and quotes belong to it.
JsonObject compact_arguments(std::string_view line) {
    constexpr std::string_view undo = "undo=";
    JsonObject arguments;
    line.remove_prefix(std::min(line.size(), line.find_first_of(" \t\n")));
    const std::string_view rest = cubepi::detail::trimmed(line);
    if (rest == "undo") {
        arguments["undo"] = "true";
    } else if (rest.starts_with(undo)) {
        arguments["undo"] = rest.substr(undo.size());
    } else if (!rest.empty()) {
        arguments["what_matters"] = rest;
    }
    return arguments;
}

/// Returns at most about `most` bytes: the beginning and the end, with a note of what was omitted between them.
std::string shortened_middle(std::string text, std::size_t most) {
    if (text.size() <= most) return text;
    const std::size_t part = most / 2;
    const std::size_t left_out = text.size() - 2 * part;
    const std::string note = "\n[" + std::to_string(left_out) + " bytes left out]\n";
    // A character split by a cut becomes U+FFFD.
    return cubepi::replace_broken_utf8(text.substr(0, part) + note + text.substr(part + left_out));
}

const AgentTool* find_tool(const std::vector<AgentTool>& tools, const std::string& name) {
    const AgentTool* found = nullptr;
    for (const AgentTool& tool : tools) {
        if (tool.name.str() == name) found = &tool;
    }
    return found;
}

class CommandRun {
public:
    CommandRun(std::shared_ptr<BuiltinCore> core, Tape tape, std::string session_id,
               TurnState& state, bool pasted, bool of_operator)
        : core_(std::move(core)),
          tape_(std::move(tape)),
          session_id_(std::move(session_id)),
          state_(state),
          pasted_(pasted),
          directory_(core_->workspace_of(state)) {
        std::shared_ptr<cubepi::ShellSessions> shells = core_->shells(session_id_, directory_);
        if (!of_operator) {
            tools_ = plan_commands(core_, tape_, session_id_);
            return;
        }
        state_.replace(shells);
        cubepi::StandardToolOptions options;
        options.unsandboxed_shell = true;
        tools_ = cubepi::standard_tools(core_->workspace(directory_), std::move(options),
                                        std::move(shells));
        for (AgentTool& tool : session_tools(core_, tape_, session_id_, state_, false)) {
            tools_.push_back(std::move(tool));
        }
    }

    ~CommandRun() { core_->release_session(session_id_); }
    CommandRun(const CommandRun&) = delete;
    CommandRun& operator=(const CommandRun&) = delete;

    /// `line` is without its comma. Sets `name` to the name under which the command is recorded.
    Task<std::string> run(std::string line, std::string& name) {
        if (line.empty()) throw cubepi::Error(ErrorCode::invalid_argument, "empty command");
        if (line.front() == '!') {
            name = "shell";
            co_return co_await shell_for_model(
                std::string(cubepi::detail::trimmed(std::string_view(line).substr(1))));
        }
        name = our_tool_name(line.substr(0, line.find_first_of(" \t\n")));
        if (name == "help") co_return help();
        if (name == "quit") co_return co_await quit();
        const AgentTool* tool = find_tool(tools_, name);
        if (!tool) {
            name = "shell";
            co_return co_await shell(std::move(line));
        }
        JsonObject arguments =
            name == "compact" ? compact_arguments(line) : arguments_of(*tool, words_of(line));
        if (name == "tape_reset") {
            const bool agreed = co_await confirm_reset(line, arguments);
            if (!agreed) co_return std::string(not_run);
        }
        co_return co_await call(*tool, std::move(arguments));
    }

    /// Returns the user message of a `,!` command; empty for other commands and before the command has ended.
    const std::string& for_model() const noexcept { return for_model_; }
    /// Returns CommandOutput::details, also if the command has failed.
    const JsonObject& details() const noexcept { return details_; }

private:
    std::string help() const {
        std::string text = "Commands begin with a comma:\n  ,help\n  ,quit";
        for (const AgentTool& tool : tools_) {
            text += "\n  ," + tool.name.str();
            for (const std::string& key : parameters_of(tool)) text += " " + key + "=...";
        }
        return text +
               "\n  ,!COMMAND runs in the shell; the model gets the command and its output"
               "\n  ,<anything else> runs in the shell";
    }

    /// Pasted text that begins with a comma was rarely meant as a command. Returns false if it must not be run.
    Task<bool> confirm_if_pasted(std::string command) {
        if (!pasted_) co_return true;
        const auto& ask = core_->options().confirm_command;
        if (!ask) {
            throw cubepi::Error(ErrorCode::invalid_argument,
                                "pasted text does not run as a shell command without confirmation");
        }
        CommandQuestion question;
        question.effect = "The pasted text runs as a shell command:\n" + std::move(command);
        co_return co_await ask(std::move(question));
    }

    /// An explicit `archive=true` needs no consent, because it destroys nothing.
    Task<bool> confirm_reset(std::string line, JsonObject& arguments) {
        const auto& ask = core_->options().confirm_command;
        const Json* archive = arguments.if_contains("archive");
        const bool archives =
            archive ? *archive != Json("false") : core_->options().archive_on_reset;
        if (archive && (archives || !ask)) co_return true;
        const TapeInfo info = co_await tape_.info();
        const std::string entries =
            std::to_string(info.entries) + (info.entries == 1 ? " entry" : " entries");
        if (!ask) {
            throw cubepi::Error(ErrorCode::invalid_argument,
                                "tape_reset removes the " + entries +
                                    " of this session; run ,tape_reset archive=true to archive "
                                    "them, or ,tape_reset archive=false to delete them");
        }
        arguments["archive"] = archives ? "true" : "false";
        CommandQuestion question;
        question.effect = "," + line + (archives ? " archives and removes the " : " deletes the ") +
                          entries + " of this session.";
        co_return co_await ask(std::move(question));
    }

    Task<std::string> quit() {
        const std::shared_ptr<OutboundChannelRouter> router = core_->framework().router();
        if (router) co_await router->quit(session_id_);
        core_->end_session(session_id_);
        co_return std::string("Session tasks stopped.");
    }

    Task<std::string> call(AgentTool tool, JsonObject arguments) {
        const cubepi::AgentToolResult result =
            co_await result_of(std::move(tool), std::move(arguments));
        note_details(result);
        if (result.is_error.value_or(false)) {
            throw cubepi::Error(ErrorCode::unknown, result.text());
        }
        co_return text_of(result);
    }

    void note_details(const cubepi::AgentToolResult& result) {
        const cubepi::JsonObject* const details = result.details.if_object();
        for (const std::string_view key : {"subagent", "output_file", "output_lines"}) {
            if (const Json* const value = details ? details->if_contains(key) : nullptr)
                details_[key] = *value;
        }
    }

    static std::string text_of(const cubepi::AgentToolResult& result) {
        std::string text = result.text();
        while (text.ends_with('\n')) text.pop_back();
        return text.empty() ? std::string("(no output)") : text;
    }

    Task<cubepi::AgentToolResult> result_of(AgentTool tool, JsonObject arguments) {
        Json checked(std::move(arguments));
        const std::vector<cubepi::SchemaIssue> issues = tool.parameters.validate(checked);
        if (!issues.empty()) {
            throw cubepi::Error(
                ErrorCode::invalid_argument,
                "," + tool.name.str() + ": " + cubepi::detail::issue_text(issues.front()));
        }
        cubepi::ToolContext::UpdateSink ignore = [](Json) -> Task<> { co_return; };
        std::stop_source stop;
        cubepi::ToolContext context("command", tool.name, stop.get_token(),
                                    core_->framework().runtime(), std::move(ignore));
        cubepi::MaybeTask<cubepi::AgentToolResult> outcome =
            tool.execute(std::move(checked.get_object()), context);
        if (!outcome.is_pending()) co_return std::move(outcome).value();
        Task<cubepi::AgentToolResult> work = std::move(outcome).task();
        cubepi::AgentToolResult result =
            co_await cubepi::stop_on_cancel(stop, *core_->runtime().clock, grace, std::move(work));
        co_return result;
    }

    Task<std::string> shell(std::string line) {
        const bool agreed = co_await confirm_if_pasted(line);
        if (!agreed) co_return std::string(not_run);
        const AgentTool* tool = find_tool(tools_, "shell");
        JsonObject arguments;
        arguments["command"] = std::move(line);
        arguments["timeout_seconds"] = 30;
        co_return co_await call(*tool, std::move(arguments));
    }

    /// A failed command is output for the model as well, and not a failure of the turn.
    Task<std::string> shell_for_model(std::string line) {
        if (line.empty()) throw cubepi::Error(ErrorCode::invalid_argument, "empty command");
        const bool agreed = co_await confirm_if_pasted(line);
        if (!agreed) co_return std::string(not_run);
        const AgentTool* tool = find_tool(tools_, "shell");
        JsonObject arguments;
        arguments["command"] = line;
        arguments["timeout_seconds"] = shell_for_model_seconds;
        const cubepi::AgentToolResult result = co_await result_of(*tool, std::move(arguments));
        note_details(result);
        std::string output = shortened_middle(text_of(result), shell_for_model_bytes);
        for_model_ = "I ran a command in the shell:\n$ " + std::move(line) + "\n" + output;
        co_return output;
    }

    static constexpr std::string_view not_run = "Not run.";
    static constexpr std::chrono::seconds grace{2};
    /// After this time the command continues in the background.
    static constexpr int shell_for_model_seconds = 600;
    static constexpr std::size_t shell_for_model_bytes = 32 * 1024;
    std::shared_ptr<BuiltinCore> core_;
    Tape tape_;
    std::string session_id_;
    TurnState& state_;
    bool pasted_ = false;
    std::string for_model_;
    JsonObject details_;
    std::filesystem::path directory_;
    std::vector<AgentTool> tools_;
};

/// How a command ended, and what is recorded of it.
struct EndedCommand {
    std::string line = {};
    std::string name = "command";
    std::string output = {};
    std::string for_model = {};  ///< the user message of a `,!` command
    std::string input_id = {};   ///< input_id_of() the message with the command
    std::string digest = {};     ///< request_digest() of that message
    JsonObject details = {};     ///< CommandOutput::details
    std::exception_ptr failure = {};
};

Task<EndedCommand> try_command(std::shared_ptr<BuiltinCore> core, Tape tape, std::string session_id,
                               TurnState& state, PendingCommand pending) {
    EndedCommand ended;
    CommandRun command(std::move(core), std::move(tape), std::move(session_id), state,
                       pending.pasted, pending.of_operator);
    std::string without_comma(cubepi::detail::trimmed(std::string_view(pending.line).substr(1)));
    Task<std::string> running = command.run(std::move(without_comma), ended.name);
    cubepi::Outcome<std::string> outcome = co_await cubepi::outcome_of(std::move(running));
    ended.line = std::move(pending.line);
    ended.failure = outcome.failure();
    ended.details = command.details();
    if (outcome) {
        ended.output = std::move(outcome).value();
        ended.for_model = command.for_model();
    }
    co_return ended;
}

/// `is_suspended`: a run of the session waits for answers.
std::vector<TapeEntry> entries_of(EndedCommand& command, const cubepi::Clock& clock,
                                  cubepi::Clock::time_point begun, bool is_suspended) {
    const std::chrono::duration<double, std::milli> took = clock.now() - begun;
    JsonObject data;
    data["raw"] = command.line;
    data["name"] = command.name;
    data["status"] = command.failure ? "error" : "ok";
    data["elapsed_ms"] = static_cast<std::int64_t>(took.count());
    data["output"] = command.failure ? describe(command.failure) : command.output;
    data["date"] = tape_date(clock.wall());
    if (!command.input_id.empty()) data["input"] = command.input_id;
    if (!command.digest.empty()) data[request_digest_key] = command.digest;
    if (const Json* const work = command.details.if_contains("subagent")) data["subagent"] = *work;
    std::vector<TapeEntry> entries;
    entries.push_back(event_entry("command", std::move(data)));
    if (!command.for_model.empty()) {
        JsonObject meta = is_suspended ? after_open_calls() : JsonObject();
        entries.push_back(message_entry("user", std::move(command.for_model), std::move(meta)));
    }
    return entries;
}

Task<> end_turn(std::shared_ptr<TurnTransaction> fork, bool temporary, std::exception_ptr failure) {
    if (temporary) {
        co_await fork->discard();
        co_return;
    }
    TurnStatus status = failure ? TurnStatus::error : TurnStatus::ok;
    if (cubepi::is_cancellation(failure)) status = TurnStatus::cancelled;
    co_await fork->merge(status);
}

}  // namespace

Task<CommandOutput> run_command(std::shared_ptr<BuiltinCore> core, PendingCommand pending,
                                std::string session_id, TurnState& state) {
    // A command is recorded here or not at all: its message would be read by the model (D263).
    state.mark_recorded();
    const auto begun = core->runtime().clock->now();
    const Tape session = co_await core->tape(session_id, state);
    TurnTransactionOptions options;
    options.turn_id = core->runtime().ids->next();
    options.runtime = core->framework().runtime();
    const std::shared_ptr<TurnTransaction> fork = session.fork(std::move(options));
    co_await fork->open();
    // The delivery log forgets messages, but a repeated one must not have its effect twice (D171).
    std::string input_id = input_id_of(*pending.message);
    Task<std::optional<RecordedReply>> finding = find_reply(session, input_id);
    const std::optional<RecordedReply> earlier = co_await std::move(finding);
    if (earlier && earlier->is_command) {
        if (!earlier->answered) throw cubepi::Error(ErrorCode::unknown, earlier->failure);
        CommandOutput recorded;
        recorded.text = earlier->text;
        co_return recorded;
    }
    const Tape tape = session.in(fork);
    co_await tape.bootstrap();
    const auto running = std::make_shared<RunningTurn>(RunningTurn{fork});
    // A sub-agent is not the operator: the rules for the sender hold for it.
    if (core->options().questions)
        running->policy = policy_for(*core, pending.message, core->workspace_of(state));
    running->asker = origin_of(*pending.message, session_id);
    state.replace(running);
    state.replace(std::make_shared<Tape>(tape));
    std::string digest = request_digest(pending.message);
    // Does not throw what the command throws.
    EndedCommand ended = co_await try_command(core, tape, session_id, state, std::move(pending));
    ended.input_id = std::move(input_id);
    ended.digest = std::move(digest);
    const bool cancelled = cubepi::is_cancellation(ended.failure);
    if (cancelled) co_await cubepi::shield();
    state.replace(std::make_shared<RunningTurn>());
    state.replace(std::make_shared<Tape>(session));
    bool is_suspended = false;
    if (!ended.for_model.empty()) {
        const JsonObject side_state = co_await tape.store()->read_state(tape.name());
        is_suspended = has_suspended_run(side_state);
    }
    std::vector<TapeEntry> entries = entries_of(ended, *core->runtime().clock, begun, is_suspended);
    (void)co_await tape.append(std::move(entries));
    co_await end_turn(fork, is_temporary(session_id), ended.failure);
    if (cancelled) co_await cubepi::unshield();
    if (ended.failure) std::rethrow_exception(ended.failure);
    CommandOutput output;
    output.text = std::move(ended.output);
    output.details = std::move(ended.details);
    co_return output;
}

}  // namespace bub::detail
