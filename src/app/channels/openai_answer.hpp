#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/client_tools.hpp>
#include <bub/channel/http_channel.hpp>
#include <cubepi/provider/openai/server_api.hpp>

namespace cubepi::app {

/// How an answer has ended.
struct OpenAIAnswerEnd {
    detail::OpenAIResponseStatus status = detail::OpenAIResponseStatus::completed;
    std::string reason = {};      ///< why it is incomplete, or the text of its failure
    std::string finish = "stop";  ///< the `finish_reason` of Chat Completions
    std::optional<detail::OpenAIAnswerUsage> usage = {};
};

/// Receives an answer as a client of OpenAI's protocols is to see it.
class OpenAIAnswerSink {
public:
    virtual ~OpenAIAnswerSink() = default;
    /// A part of the text of the open message; begins one if there is none.
    virtual void text(std::string_view text) = 0;
    virtual void end_message() = 0;
    /// `request`: as cubepi::to_json() writes it. Returns false if the protocol has no form for the question: its text follows.
    virtual bool question(const JsonObject& request) = 0;
    /// A call of a tool of the client. `question`: the name of the question for its output.
    virtual void call(std::string_view question, const bub::ClientCall& call) = 0;
    virtual void end(const OpenAIAnswerEnd& end) = 0;
    /// The turn will not end in this process.
    virtual void postponed() = 0;

    // Of replies with the detail HttpReplyDetail::events.
    virtual void reasoning(std::string_view) {}
    /// About a call of a tool: its start, its end, or the progress of a sub-agent.
    virtual void event(const AgentEvent&) {}
    /// The turn is tried again: its calls are made from the beginning.
    virtual void restarted() {}
};

/// Converts the reply of the channel http to an answer: the text that was streamed is completed by the outputs, which may repeat it.
class OpenAIAnswer {
public:
    void take(const bub::HttpReplyPart& part, OpenAIAnswerSink& sink);
    /// Takes a whole reply, as `GET /v1/messages/{id}` returns it.
    void take_reply(const JsonObject& reply, OpenAIAnswerSink& sink);
    /// There are no further parts.
    bool ended() const noexcept { return ended_; }

private:
    void take_output(const JsonObject& output, OpenAIAnswerSink& sink);
    bool take_question(const JsonObject& question, OpenAIAnswerSink& sink);
    void end_message(OpenAIAnswerSink& sink);
    void take_text(std::string_view text, OpenAIAnswerSink& sink);
    void take_end(const JsonObject& reply, OpenAIAnswerSink& sink);

    std::string open_;                   // text of the open message
    std::vector<std::string> problems_;  // outputs of kind `error`
    bool has_calls_ = false;             // of tools of the client
    bool ended_ = false;
};

}  // namespace cubepi::app
