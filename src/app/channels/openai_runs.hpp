#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/builtin/client_tools.hpp>
#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/provider/openai/server_api.hpp>

namespace cubepi::app {

/// How an answer has ended.
struct OpenAIReplyEnd {
    detail::OpenAIResponseStatus status = detail::OpenAIResponseStatus::completed;
    std::string reason = {};      ///< why it is incomplete, or the text of its failure
    std::string finish = "stop";  ///< the `finish_reason` of Chat Completions
    std::optional<detail::OpenAIReplyUsage> usage = {};
};

/// Receives an answer as a client of OpenAI's protocols is to see it.
class OpenAIReplySink {
public:
    virtual ~OpenAIReplySink() = default;
    /// A part of the text of the open message; begins one if there is none.
    virtual void text(std::string_view text) = 0;
    virtual void end_message() = 0;
    /// `request`: as cubepi::to_json() writes it. Returns false if the protocol has no form for the question: its text follows.
    virtual bool question(const JsonObject& request) = 0;
    /// A call of a tool of the client. `question`: the name of the question for its output.
    virtual void call(std::string_view question, const bub::ClientCall& call) = 0;
    virtual void end(const OpenAIReplyEnd& end) = 0;
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
class OpenAIReply {
public:
    void take(const bub::HttpReplyPart& part, OpenAIReplySink& sink);
    /// Takes a whole reply, as `GET /v1/messages/{id}` returns it.
    void take_reply(const JsonObject& reply, OpenAIReplySink& sink);
    /// There are no further parts.
    bool ended() const noexcept { return ended_; }

private:
    void take_output(const JsonObject& output, OpenAIReplySink& sink);
    bool take_question(const JsonObject& question, OpenAIReplySink& sink);
    void end_message(OpenAIReplySink& sink);
    void take_text(std::string_view text, OpenAIReplySink& sink);
    void take_end(const JsonObject& reply, OpenAIReplySink& sink);

    std::string open_;                   // text of the open message
    std::vector<std::string> problems_;  // outputs of kind `error`
    bool has_calls_ = false;             // of tools of the client
    bool ended_ = false;
};

/// The contents of the id of a response.
struct OpenAIResponseName {
    std::string message = {};  ///< its Idempotency-Key
    std::string session = {};
    std::int64_t created = 0;  ///< Unix seconds
};

/// The contents of the id of a call of a client's tool.
struct OpenAICallName {
    std::string session = {};
    std::string question = {};  ///< for the output of the call
};

/// Makes and reads the ids of responses and of calls. They are authenticated by the token (HMAC-SHA256), so that a client can neither make one nor use
/// one that another token has made, and need no records (D193).
class OpenAIResponseNames {
public:
    explicit OpenAIResponseNames(std::string token) : token_(std::move(token)) {}
    std::string id_of(const OpenAIResponseName& name) const;
    /// Returns nothing if the id is not one of these.
    std::optional<OpenAIResponseName> read(std::string_view id) const;
    std::string call_id_of(const OpenAICallName& name) const;
    std::optional<OpenAICallName> read_call(std::string_view id) const;

private:
    std::string code_of(std::string_view kind, std::string_view text) const;
    std::string signed_id(std::string_view prefix, const std::string& text) const;
    /// Returns the text of an id with this prefix; nothing if the id is not one of these.
    std::optional<std::string_view> text_of(std::string_view prefix, std::string_view id) const;

    std::string token_;
};

/// An answer while it is made, as the server-sent events of its protocol, which any number of clients may read from any position.
class OpenAIRun : protected OpenAIReplySink {
public:
    /// `reply` may be null: complete() has the whole reply. `call_id` returns the id of a call by the name of the question for its output.
    using CallId = std::function<std::string(std::string_view question)>;
    OpenAIRun(std::shared_ptr<bub::HttpReply> reply, CallId call_id)
        : reply_(std::move(reply)), call_id_(std::move(call_id)) {}

    /// Takes what is new of the reply.
    void advance();
    void take(const bub::HttpReplyPart& part) { answer_.take(part, *this); }
    /// Takes a whole reply.
    void complete(const JsonObject& reply) { answer_.take_reply(reply, *this); }
    /// The answer has ended, or will not end in this process.
    bool ended() const noexcept { return answer_.ended(); }
    bool is_postponed() const noexcept { return is_postponed_; }
    const std::vector<std::string>& events() const noexcept { return events_; }
    std::size_t bytes() const noexcept { return bytes_; }
    /// Returns the answer as it is now, or as it has ended.
    virtual HttpServerResponse response() const = 0;
    /// Returns the event that follows those of a postponed answer; empty: none.
    virtual std::string last_event(std::int64_t sequence) const = 0;
    /// Returns null if the answer has ended.
    const std::shared_ptr<bub::HttpReply>& reply() const noexcept { return reply_; }

    std::string request = {};  ///< a digest of the request; empty: its key is enough

protected:
    void postponed() override { is_postponed_ = true; }
    detail::OpenAIClientCall client_call(std::string_view question,
                                         const bub::ClientCall& call) const;

    std::vector<std::string> events_;

private:
    std::shared_ptr<bub::HttpReply> reply_;
    CallId call_id_;
    OpenAIReply answer_;
    std::size_t counted_ = 0;  // events in bytes_
    std::size_t bytes_ = 0;
    bool is_postponed_ = false;
};

/// An answer of the protocol Responses.
class OpenAIResponseRun final : public OpenAIRun {
public:
    OpenAIResponseRun(std::shared_ptr<bub::HttpReply> reply, CallId call_id,
                      detail::OpenAIReplyHead head, JsonObject request);

    HttpServerResponse response() const override;
    /// An event with the response as it is now.
    std::string last_event(std::int64_t sequence) const override {
        return writer_.state_event(sequence);
    }
    void set_status(detail::OpenAIResponseStatus status) { writer_.set_status(status); }

private:
    void text(std::string_view text) override { writer_.add_text(text, events_); }
    void end_message() override { writer_.end_message(events_); }
    bool question(const JsonObject& request) override;
    void call(std::string_view question, const bub::ClientCall& call) override;
    void end(const OpenAIReplyEnd& end) override;
    void postponed() override;

    detail::OpenAIResponsesWriter writer_;
};

/// An answer of Chat Completions.
class OpenAIChatRun final : public OpenAIRun {
public:
    OpenAIChatRun(std::shared_ptr<bub::HttpReply> reply, CallId call_id,
                  detail::OpenAIReplyHead head, bool includes_usage);

    HttpServerResponse response() const override;
    std::string last_event(std::int64_t) const override { return {}; }

private:
    void text(std::string_view text) override;
    void end_message() override { is_after_message_ = !whole_.empty(); }
    bool question(const JsonObject&) override { return false; }
    void call(std::string_view question, const bub::ClientCall& call) override;
    void end(const OpenAIReplyEnd& end) override;
    void postponed() override;
    bool is_failure() const;

    detail::OpenAIChatWriter writer_;
    OpenAIReplyEnd end_;
    std::string whole_;
    bool is_after_message_ = false;
};

/// Returns a response with an error of the protocols. The SDKs repeat requests with a status from 500 on, as new messages; this one asks
/// them not to.
HttpServerResponse openai_failure(unsigned status, std::string_view message,
                                  std::string_view code = {}, std::string_view member = {});

/// The answers that are made, for clients that repeat a request, and the latest in the background, for clients that read their streams again.
/// The oldest of the latter are forgotten first.
class OpenAIRuns {
public:
    /// `keeps`: also after the last client has gone.
    void add(const std::string& message, const std::shared_ptr<OpenAIRun>& run, bool keeps);
    /// Returns null if there is none.
    std::shared_ptr<OpenAIRun> find(const std::string& message) const;
    /// Returns the number of answers that are being made.
    std::size_t in_progress() const;

private:
    void shrink();

    std::map<std::string, std::shared_ptr<OpenAIRun>, std::less<>> held_;
    std::map<std::string, std::shared_ptr<OpenAIRun>, std::less<>> made_;
    std::deque<std::string> order_;  // of held_
};

}  // namespace cubepi::app
