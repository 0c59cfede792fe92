#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "../wire/net/raw_server.hpp"
#include "model_server.hpp"

namespace cubepi::joint_tests {

/// A model server that answers by the last line of the last message of the user. "background TEXT": the sub-agent `helper` does TEXT in
/// the background. "inherit TEXT": a sub-agent does it that continues the conversation. "helper TEXT": a sub-agent with a conversation of its own
/// does it. "write FILE": writes the file. After the calls, and to all other texts: "re: TEXT". Texts that are held get their answer at
/// release(). All calls have the same id.
class TaskModel {
public:
    TaskModel()
        : server_([this](wire::Connection& connection) {
              for (;;) {
                  const std::string request = connection.read_request();
                  if (request.empty()) return;
                  // It has no list of models.
                  if (request.starts_with("GET ")) return;
                  const std::string answer =
                      answer_to(request.substr(request.find("\r\n\r\n") + 4));
                  if (!connection.send(wire::ok(answer, "Content-Type: text/event-stream\r\n")))
                      return;
              }
          }) {}
    ~TaskModel() { release(); }
    TaskModel(const TaskModel&) = delete;
    TaskModel& operator=(const TaskModel&) = delete;

    std::vector<std::string> flags() const {
        return {"--provider", "openai", "--base-url", server_.url("/v1"), "-m", "local"};
    }
    void hold(const std::string& text) {
        const std::lock_guard lock(mutex_);
        held_.insert(text);
    }
    void release() {
        const std::lock_guard lock(mutex_);
        held_.clear();
        changed_.notify_all();
    }
    /// Waits until the model was asked this that many times; returns the body of the last request.
    std::string wait_for(const std::string& text, std::size_t times = 1) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::seconds(60),
                               [&] { return requests_[text].size() >= times; }))
            throw std::runtime_error("the model was not asked '" + text + "'");
        return requests_[text].back();
    }
    std::size_t count(const std::string& text) {
        const std::lock_guard lock(mutex_);
        return requests_[text].size();
    }

private:
    std::string answer_to(const std::string& body) {
        std::string role;
        std::string text;
        const boost::json::value parsed = boost::json::parse(body);
        for (const boost::json::value& message : parsed.at("messages").as_array()) {
            role = message.at("role").as_string().c_str();
            if (role == "user") text = message.at("content").as_string().c_str();
        }
        text.erase(0, text.rfind('\n') + 1);
        std::unique_lock lock(mutex_);
        requests_[text].push_back(body);
        changed_.notify_all();
        changed_.wait(lock, [&] { return !held_.contains(text); });
        if (role == "user" && text.starts_with("background ")) {
            const boost::json::object arguments{
                {"prompt", text.substr(11)}, {"name", "helper"}, {"run_in_background", true}};
            return with_usage(chat_answer("", {{"subagent", boost::json::serialize(arguments)}}));
        }
        if (role == "user" && text.starts_with("inherit ")) {
            const boost::json::object arguments{{"prompt", text.substr(8)}, {"session", "inherit"}};
            return with_usage(chat_answer("", {{"subagent", boost::json::serialize(arguments)}}));
        }
        if (role == "user" && text.starts_with("helper ")) {
            const boost::json::object arguments{{"prompt", text.substr(7)}, {"session", "helper"}};
            return with_usage(chat_answer("", {{"subagent", boost::json::serialize(arguments)}}));
        }
        if (role == "user" && text.starts_with("write ")) {
            const boost::json::object arguments{{"path", text.substr(6)}, {"content", "hello"}};
            return with_usage(chat_answer("", {{"write", boost::json::serialize(arguments)}}));
        }
        return with_usage(chat_answer("re: " + text));
    }
    static std::string with_usage(std::string answer) {
        const std::string usage =
            R"(data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":10}})"
            "\n\n";
        return answer.insert(answer.find("data: [DONE]"), usage);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<std::string>> requests_;
    std::set<std::string> held_;
    wire::RawServer server_;  // last: its handlers use the others
};

}  // namespace cubepi::joint_tests
