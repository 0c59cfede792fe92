#include <cubepi/acp/editor.hpp>

#include <climits>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace cubepi {

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
