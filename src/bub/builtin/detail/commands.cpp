#include <bub/builtin/detail/commands.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <bub/builtin/detail/agent_turn.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace bub::detail {

namespace {

using cubepi::AgentTool;
using cubepi::ErrorCode;

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n')) {
        text.remove_suffix(1);
    }
    return text;
}

/// The words of a line as a POSIX shell would take them apart, without any expansion.
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

/// Bub's names for tools that are called otherwise here.
std::string command_name(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    struct Alias {
        std::string_view from;
        std::string_view to;
    };
    static constexpr Alias aliases[] = {
        {"fs_read", "read"},    {"fs_write", "write"},           {"fs_edit", "edit"},
        {"bash", "shell"},      {"bash_output", "shell_output"}, {"bash_kill", "shell_kill"},
        {"web_fetch", "fetch"},
    };
    for (const Alias& alias : aliases) {
        if (name == alias.from) return std::string(alias.to);
    }
    return name;
}

const AgentTool* find_tool(const std::vector<AgentTool>& tools, const std::string& name) {
    const AgentTool* found = nullptr;
    for (const AgentTool& tool : tools) {
        if (tool.name.str() == name) found = &tool;
    }
    return found;
}

/// `key=value` by name, others in the order of the parameters. Texts; the schema makes numbers of them.
JsonObject arguments_of(const AgentTool& tool, const std::vector<std::string>& words) {
    const Json* properties = tool.parameters.source().as_object().if_contains("properties");
    const JsonObject none;
    const JsonObject& known =
        properties && properties->is_object() ? properties->get_object() : none;
    JsonObject arguments;
    auto place = known.begin();
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::size_t equals = words[i].find('=');
        if (equals != std::string::npos && known.contains(words[i].substr(0, equals))) {
            arguments[words[i].substr(0, equals)] = words[i].substr(equals + 1);
            continue;
        }
        while (place != known.end() && arguments.contains(place->key())) ++place;
        if (place == known.end()) {
            throw cubepi::Error(ErrorCode::invalid_argument,
                                words[0] + " takes no such argument: " + words[i]);
        }
        arguments[place->key()] = words[i];
        ++place;
    }
    return arguments;
}

class CommandRun {
public:
    CommandRun(std::shared_ptr<BuiltinCore> core, Tape tape, std::string session_id,
               TurnState& state)
        : core_(std::move(core)),
          tape_(std::move(tape)),
          session_id_(std::move(session_id)),
          state_(state),
          folder_(core_->workspace_of(state)) {
        shells_ = core_->shells(session_id_, folder_);
        tools_ = cubepi::standard_tools(core_->workspace(folder_), cubepi::StandardToolOptions(),
                                        shells_);
        for (AgentTool& tool : session_tools(core_, tape_, session_id_, state_)) {
            tools_.push_back(std::move(tool));
        }
    }

    ~CommandRun() { core_->keep_shells(session_id_, std::move(shells_)); }
    CommandRun(const CommandRun&) = delete;
    CommandRun& operator=(const CommandRun&) = delete;

    /// `line` is without its comma. Gives the name under which the command is recorded, too.
    Task<std::string> run(std::string line, std::string& name) {
        if (line.empty()) throw cubepi::Error(ErrorCode::invalid_argument, "empty command");
        name = command_name(line.substr(0, line.find_first_of(" \t\n")));
        if (name == "help") co_return help();
        if (name == "quit") co_return co_await quit();
        const AgentTool* tool = find_tool(tools_, name);
        if (!tool) {
            name = "shell";
            co_return co_await shell(std::move(line));
        }
        const std::vector<std::string> words = words_of(line);
        JsonObject arguments = arguments_of(*tool, words);
        co_return co_await call(*tool, std::move(arguments));
    }

private:
    std::string help() const {
        std::string text = "Commands begin with a comma:\n  ,help\n  ,quit";
        for (const AgentTool& tool : tools_) {
            text += "\n  ," + tool.name.str();
            const Json* properties = tool.parameters.source().as_object().if_contains("properties");
            if (properties && properties->is_object()) {
                for (const auto& [key, schema] : properties->get_object()) {
                    text += " " + std::string(key) + "=...";
                }
            }
        }
        return text + "\n  ,<anything else> runs in the shell";
    }

    Task<std::string> quit() {
        core_->kill_shells(session_id_);
        shells_ = nullptr;
        const std::shared_ptr<OutboundChannelRouter> router = core_->framework().router();
        if (router) co_await router->quit(session_id_);
        co_return std::string("Session tasks stopped.");
    }

    Task<std::string> call(AgentTool tool, JsonObject arguments) {
        Json checked(std::move(arguments));
        const std::vector<cubepi::SchemaIssue> issues = tool.parameters.validate(checked);
        if (!issues.empty()) {
            throw cubepi::Error(
                ErrorCode::invalid_argument,
                "," + tool.name.str() + ": " + issues.front().path + ": " + issues.front().message);
        }
        cubepi::ToolContext::UpdateSink ignore = [](Json) -> Task<> { co_return; };
        std::stop_source stop;
        cubepi::ToolContext context("command", tool.name, stop.get_token(),
                                    core_->framework().runtime(), std::move(ignore));
        cubepi::detail::ToolOutcome outcome =
            tool.execute(std::move(checked.get_object()), context);
        cubepi::AgentToolResult result;
        if (outcome.result) {
            result = std::move(*outcome.result);
        } else {
            Task<cubepi::AgentToolResult> work = std::move(*outcome.task);
            result = co_await cubepi::stop_on_cancel(stop, *core_->runtime().clock, grace,
                                                     std::move(work));
        }
        if (result.is_error.value_or(false)) {
            throw cubepi::Error(ErrorCode::unknown, result.text());
        }
        std::string text = result.text();
        while (text.ends_with('\n')) text.pop_back();
        co_return text.empty() ? std::string("(no output)") : text;
    }

    Task<std::string> shell(std::string line) {
        const AgentTool* tool = find_tool(tools_, "shell");
        JsonObject arguments;
        arguments["command"] = std::move(line);
        arguments["timeout_seconds"] = 30;
        co_return co_await call(*tool, std::move(arguments));
    }

    static constexpr std::chrono::seconds grace{2};
    std::shared_ptr<BuiltinCore> core_;
    Tape tape_;
    std::string session_id_;
    TurnState& state_;
    std::filesystem::path folder_;
    std::shared_ptr<cubepi::ShellSessions> shells_;
    std::vector<AgentTool> tools_;
};

}  // namespace

Task<std::string> run_command(std::shared_ptr<BuiltinCore> core, std::string line,
                              std::string session_id, TurnState& state) {
    const auto begun = core->runtime().clock->now();
    Tape tape = co_await core->tape(session_id, state);
    co_await tape.bootstrap();
    state.mark_recorded();
    std::string name = "command";
    std::string output;
    std::exception_ptr failure;
    {
        CommandRun command(core, tape, session_id, state);
        try {
            std::string without_comma(trimmed(std::string_view(line).substr(1)));
            output = co_await command.run(std::move(without_comma), name);
        } catch (...) {
            failure = std::current_exception();
        }
    }
    if (cubepi::is_cancellation(failure)) co_await cubepi::shield();
    const std::chrono::duration<double, std::milli> took = core->runtime().clock->now() - begun;
    JsonObject data;
    data["raw"] = line;
    data["name"] = name;
    data["status"] = failure ? "error" : "ok";
    data["elapsed_ms"] = static_cast<std::int64_t>(took.count());
    data["output"] = failure ? describe(failure) : output;
    data["date"] = tape_date(core->runtime().clock->wall());
    TapeEntry entry = event_entry("command", std::move(data));
    (void)co_await tape.append(std::move(entry));
    if (cubepi::is_cancellation(failure)) co_await cubepi::unshield();
    if (failure) std::rethrow_exception(failure);
    co_return output;
}

}  // namespace bub::detail
