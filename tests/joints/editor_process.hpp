#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "../terminal/terminal.hpp"
#include "source_tree.hpp"

namespace cubepi::joint_tests {

/// An editor that has started `cubepi acp`, and the session that it has opened.
class EditorProcess {
public:
    EditorProcess(const terminal_tests::Home& home, std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "acp");
        const std::string program = testing::built_program("cubepi");
        std::vector<char*> words{const_cast<char*>(program.c_str())};
        for (std::string& argument : arguments) words.push_back(argument.data());
        words.push_back(nullptr);
        std::vector<std::string> variables = home.environment;
        std::vector<char*> environment;
        for (std::string& variable : variables) environment.push_back(variable.data());
        environment.push_back(nullptr);
        const std::string work = home.work().string();
        const std::string log = (home.root() / "acp.log").string();
        int input[2];
        int output[2];
        if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
            throw std::runtime_error("no pipe");
        pid_ = fork();
        if (pid_ < 0) throw std::runtime_error("no process");
        if (pid_ == 0) {
            dup2(input[0], STDIN_FILENO);
            dup2(output[1], STDOUT_FILENO);
            dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
            setsid();
            if (chdir("/") == 0) execve(program.c_str(), words.data(), environment.data());
            _exit(127);
        }
        close(input[0]);
        close(output[1]);
        input_ = input[1];
        output_ = output[0];
        work_ = work;
    }
    ~EditorProcess() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            (void)wait();
        }
        leave();
        close(output_);
    }
    EditorProcess(const EditorProcess&) = delete;
    EditorProcess& operator=(const EditorProcess&) = delete;

    void send_line(const std::string& line) const {
        const std::string bytes = line + "\n";
        if (write(input_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
            throw std::runtime_error("the agent does not read");
    }
    void send(const boost::json::object& message) const {
        boost::json::object whole = message;
        whole["jsonrpc"] = "2.0";
        send_line(boost::json::serialize(whole));
    }
    std::int64_t start(const std::string& method, boost::json::object params) {
        send({{"id", ++id_}, {"method", method}, {"params", std::move(params)}});
        return id_;
    }
    /// The next message that is not an update; updates are collected.
    boost::json::object next() {
        for (;;) {
            const std::size_t end = buffer_.find('\n');
            if (end == std::string::npos) {
                read_more();
                continue;
            }
            boost::json::object message = boost::json::parse(buffer_.substr(0, end)).as_object();
            buffer_.erase(0, end + 1);
            const auto* method = message.if_contains("method");
            if (!method || *method != "session/update") return message;
            updates.push_back(message["params"].as_object()["update"].as_object());
        }
    }
    boost::json::object call(const std::string& method, boost::json::object params) {
        start(method, std::move(params));
        return next();
    }
    boost::json::object initialize() { return call("initialize", {{"protocolVersion", 1}}); }
    /// Opens a session in the directory of the home.
    std::string open() {
        initialize();
        boost::json::object made =
            call("session/new", {{"cwd", work_}, {"mcpServers", boost::json::array()}});
        if (made.contains("error")) throw std::runtime_error(boost::json::serialize(made));
        session = made["result"].as_object()["sessionId"].as_string().c_str();
        return session;
    }
    boost::json::object prompt(const std::string& text) {
        return call("session/prompt", prompt_params(text));
    }
    boost::json::object prompt_params(const std::string& text) const {
        return {{"sessionId", session},
                {"prompt", boost::json::array{{{"type", "text"}, {"text", text}}}}};
    }
    /// Answers a request for permission.
    void choose(const boost::json::object& question, const std::string& option) const {
        boost::json::object outcome{{"outcome", "selected"}, {"optionId", option}};
        send({{"id", question.at("id")}, {"result", {{"outcome", std::move(outcome)}}}});
    }
    /// Ends the agent's standard input.
    void leave() {
        if (input_ >= 0) close(input_);
        input_ = -1;
    }
    int wait() {
        int status = 0;
        if (pid_ > 0) waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    std::string text_of(const std::string& kind) const {
        std::string text;
        for (const boost::json::object& update : updates) {
            if (update.at("sessionUpdate") == boost::json::value(kind))
                text += update.at("content").as_object().at("text").as_string().c_str();
        }
        return text;
    }
    /// The last state of a tool call.
    std::string last_status() const {
        std::string status;
        for (const boost::json::object& update : updates) {
            if (const auto* found = update.if_contains("status"))
                status = found->as_string().c_str();
        }
        return status;
    }

    std::string session;
    std::vector<boost::json::object> updates;

private:
    void read_more() {
        pollfd ready = {output_, POLLIN, 0};
        if (poll(&ready, 1, 120'000) <= 0) throw std::runtime_error("the agent is silent");
        char bytes[65536];
        const ssize_t count = read(output_, bytes, sizeof bytes);
        if (count <= 0) throw std::runtime_error("the agent has ended");
        buffer_.append(bytes, static_cast<std::size_t>(count));
    }

    pid_t pid_ = -1;
    int input_ = -1;
    int output_ = -1;
    std::int64_t id_ = 0;
    std::string work_;
    std::string buffer_;
};

}  // namespace cubepi::joint_tests
