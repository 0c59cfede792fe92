#include <cubepi/acp/agent.hpp>

#include <array>
#include <climits>
#include <utility>

#include <cubepi/acp/editor.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace cubepi {

std::string_view to_string(AcpStop stop) noexcept {
    static constexpr std::array<std::string_view, 5> names{
        "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"};
    return names[static_cast<std::size_t>(stop)];
}

Task<> AcpSession::set_mode(std::string id) {
    throw AcpError(acp_error::invalid_params, "there is no mode '" + id + "'");
    co_return;
}

Task<> AcpSession::set_option(std::string id, std::string) {
    throw AcpError(acp_error::invalid_params, "there is no option '" + id + "'");
    co_return;
}

AcpOption acp_mode_option(const AcpSession& session) {
    AcpOption option;
    option.id = "mode";
    option.name = "Mode";
    option.category = "mode";
    option.current = session.mode();
    option.choices = session.modes();
    return option;
}

Task<std::shared_ptr<AcpSession>> AcpHost::open(std::shared_ptr<AcpEditor>, std::string, AcpSetup) {
    throw AcpError(acp_error::method_not_found, "this agent does not save sessions");
    co_return nullptr;
}

Task<AcpSessionList> AcpHost::list(std::string, std::string) {
    throw AcpError(acp_error::method_not_found, "this agent does not save sessions");
    co_return AcpSessionList();
}

Task<> AcpHost::remove(std::string) {
    throw AcpError(acp_error::method_not_found, "this agent does not save sessions");
    co_return;
}

namespace {

void require(bool offered, const char* what) {
    if (!offered)
        throw Error(ErrorCode::unsupported, std::string("the editor does not offer ") + what);
}

Task<AcpCommandResult> wait_in_terminal(AcpEditor* editor, JsonObject terminal) {
    JsonObject ended = co_await editor->request("terminal/wait_for_exit", terminal);
    JsonObject shown = co_await editor->request("terminal/output", terminal);
    AcpCommandResult result;
    result.output = detail::text_member(shown, "output");
    result.is_truncated = detail::flag_member(shown, "truncated");
    const auto code = detail::integer_member(ended, "exitCode");
    if (code && *code >= INT_MIN && *code <= INT_MAX) result.exit_code = static_cast<int>(*code);
    result.signal = detail::text_member(ended, "signal");
    co_return result;
}

Task<> release(AcpEditor* editor, JsonObject terminal) {
    (void)co_await outcome_of(editor->request("terminal/release", std::move(terminal)));
}

}  // namespace

Task<std::string> AcpEditor::read_text_file(std::string session, std::string path) {
    require(info().reads_files, "its files");
    JsonObject params;
    params["sessionId"] = session;
    params["path"] = path;
    JsonObject result = co_await request("fs/read_text_file", std::move(params));
    const Json* content = result.if_contains("content");
    if (!content || !content->is_string())
        throw Error(ErrorCode::protocol, "the editor has not returned the text of " + path);
    co_return std::string(content->get_string());
}

Task<> AcpEditor::write_text_file(std::string session, std::string path, std::string text) {
    require(info().writes_files, "to write its files");
    JsonObject params;
    params["sessionId"] = std::move(session);
    params["path"] = std::move(path);
    params["content"] = std::move(text);
    (void)co_await request("fs/write_text_file", std::move(params));
}

Task<AcpCommandResult> AcpEditor::run_command(std::string session, AcpCommand command) {
    require(info().has_terminals, "terminals");
    JsonObject params;
    params["sessionId"] = session;
    params["command"] = std::move(command.program);
    JsonArray arguments;
    for (std::string& one : command.arguments) arguments.emplace_back(std::move(one));
    params["args"] = std::move(arguments);
    JsonArray environment;
    for (auto& [name, value] : command.environment) {
        JsonObject variable;
        variable["name"] = std::move(name);
        variable["value"] = std::move(value);
        environment.emplace_back(std::move(variable));
    }
    params["env"] = std::move(environment);
    if (!command.directory.empty()) params["cwd"] = std::move(command.directory);
    params["outputByteLimit"] = command.max_output_bytes;
    JsonObject created = co_await request("terminal/create", std::move(params));
    JsonObject terminal;
    terminal["sessionId"] = std::move(session);
    terminal["terminalId"] = detail::text_member(created, "terminalId");
    // Releasing a terminal kills what runs in it.
    JsonObject released = terminal;
    Task<AcpCommandResult> waiting = wait_in_terminal(this, std::move(terminal));
    co_return co_await with_cleanup(std::move(waiting), release(this, std::move(released)));
}

}  // namespace cubepi
