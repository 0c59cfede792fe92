#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "../wire/net/raw_server.hpp"

namespace cubepi::joint_tests {

/// One call of a tool in an answer, with the arguments as the server sends them.
struct SentCall {
    std::string name;
    std::string arguments;
    std::string id = "call_0";
    boost::json::object members = {};  ///< further members of the call
};

/// The body of an answer of the Chat Completions API.
inline std::string chat_answer(const std::string& text, const std::vector<SentCall>& calls = {},
                               std::string finish_reason = {}) {
    boost::json::object delta;
    if (!text.empty()) delta["content"] = text;
    boost::json::array sent;
    for (const SentCall& call : calls) {
        boost::json::object made = call.members;
        made["index"] = sent.size();
        made["id"] = call.id;
        made["type"] = "function";
        made["function"] = boost::json::object{{"name", call.name}, {"arguments", call.arguments}};
        sent.push_back(std::move(made));
    }
    if (!sent.empty()) delta["tool_calls"] = std::move(sent);
    if (finish_reason.empty()) finish_reason = calls.empty() ? "stop" : "tool_calls";
    const auto event = [](boost::json::object delta_of, boost::json::value reason) {
        const boost::json::object choice{
            {"index", 0}, {"delta", std::move(delta_of)}, {"finish_reason", std::move(reason)}};
        return "data: " +
               boost::json::serialize(
                   boost::json::object{{"choices", boost::json::array{choice}}}) +
               "\n\n";
    };
    return event(std::move(delta), nullptr) + event({}, boost::json::value(finish_reason)) +
           "data: [DONE]\n\n";
}

/// An answer that reports the tokens of its request.
inline std::string chat_answer_with_usage(const std::string& text, std::size_t prompt_tokens,
                                          const std::vector<SentCall>& calls = {}) {
    const boost::json::object usage{{"prompt_tokens", prompt_tokens}, {"completion_tokens", 10}};
    std::string body = chat_answer(text, calls);
    body.insert(body.rfind("data: [DONE]"),
                "data: " +
                    boost::json::serialize(
                        boost::json::object{{"choices", boost::json::array()}, {"usage", usage}}) +
                    "\n\n");
    return body;
}

/// A response with an error status.
inline std::string refusal(int status, const std::string& body, const std::string& headers = {}) {
    return "HTTP/1.1 " + std::to_string(status) + " Refused\r\nContent-Type: application/json\r\n" +
           headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// A model server on a port of 127.0.0.1: the N-th request gets the N-th answer, and the last one repeats. An answer is the body
/// of an event stream, or a whole response.
class ModelServer {
public:
    /// Makes the answer to a request from its body.
    using Answer = std::function<std::string(const boost::json::object& body)>;

    explicit ModelServer(std::vector<std::string> answers)
        : ModelServer(std::move(answers), nullptr) {}
    explicit ModelServer(Answer answer) : ModelServer({}, std::move(answer)) {}

private:
    ModelServer(std::vector<std::string> answers, Answer answer)
        : answers_(std::move(answers)),
          answer_(std::move(answer)),
          server_([this](wire::Connection& connection) {
              for (std::size_t served = 0;; ++served) {
                  const std::string request = connection.read_request();
                  if (request.empty()) return;
                  if (request.starts_with("GET ") && !answers_lists) {
                      // It has no list of models, and a request for one is not a call.
                      if (!connection.send(unknown_model())) return;
                      continue;
                  }
                  if (closes_reused && served > 0) {
                      (void)record(request);
                      return;
                  }
                  const std::string answer = record(request);
                  const bool known = requests().size() <= known_requests;
                  const bool whole = answer.starts_with("HTTP/");
                  if (!connection.send(
                          known ? (whole ? answer
                                         : wire::ok(answer, "Content-Type: text/event-stream\r\n"))
                                : unknown_model()))
                      return;
              }
          }) {}

public:
    std::string url() const { return server_.url("/v1"); }
    std::vector<std::string> requests() const {
        const std::lock_guard lock(mutex_);
        return requests_;
    }
    /// The bodies of the requests, from the first.
    std::vector<boost::json::value> bodies() const {
        std::vector<boost::json::value> parsed;
        for (const std::string& request : requests()) parsed.push_back(body_of(request));
        return parsed;
    }

    /// Closes each connection after it has read a second request on it, without an answer.
    std::atomic<bool> closes_reused = false;
    /// A request for a list of models gets an answer of the script, too.
    std::atomic<bool> answers_lists = false;
    /// After so many requests, the model is not known any more.
    std::atomic<std::size_t> known_requests = std::numeric_limits<std::size_t>::max();

private:
    static boost::json::value body_of(const std::string& request) {
        return boost::json::parse(request.substr(request.find("\r\n\r\n") + 4));
    }
    static std::string unknown_model() {
        const std::string body =
            R"({"error":{"code":"model_not_found","message":"The model does not exist"}})";
        return "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body;
    }
    std::string record(const std::string& request) {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        if (answer_) return answer_(body_of(request).as_object());
        return answers_[std::min(requests_.size(), answers_.size()) - 1];
    }

    const std::vector<std::string> answers_;
    const Answer answer_;
    mutable std::mutex mutex_;
    std::vector<std::string> requests_;
    wire::RawServer server_;  // last: its handlers use the others
};

}  // namespace cubepi::joint_tests
