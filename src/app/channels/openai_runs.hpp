#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/http_channel.hpp>
#include <cubepi/provider/openai/server_api.hpp>

#include "openai_answer.hpp"

namespace cubepi::app {

/// The contents of the id of a response.
struct OpenAIResponseName {
    std::string message = {};  ///< its Idempotency-Key
    std::string session = {};
    std::int64_t created = 0;  ///< Unix seconds
};

/// Makes and reads the ids of responses. They are authenticated by the token (HMAC-SHA256), so that a client can neither make one nor use
/// one that another token has made, and need no records (D193).
class OpenAIResponseNames {
public:
    explicit OpenAIResponseNames(std::string token) : token_(std::move(token)) {}
    std::string id_of(const OpenAIResponseName& name) const;
    /// Returns nothing if the id is not one of these.
    std::optional<OpenAIResponseName> read(std::string_view id) const;

private:
    std::string code_of(std::string_view text) const;

    std::string token_;
};

/// A response while it is made, with its events, which any number of clients may read from any position.
class OpenAIRun final : private OpenAIAnswerSink {
public:
    OpenAIRun(std::shared_ptr<bub::HttpReply> reply, detail::OpenAIAnswerHead head,
              JsonObject request);

    /// Takes what is new of the reply.
    void advance();
    /// Takes a whole reply.
    void complete(const JsonObject& reply) { answer_.take_reply(reply, *this); }
    /// The answer has ended, or will not end in this process.
    bool ended() const noexcept { return answer_.ended(); }
    bool is_postponed() const noexcept { return is_postponed_; }
    const std::vector<std::string>& events() const noexcept { return events_; }
    std::size_t bytes() const noexcept { return bytes_; }
    JsonObject response() const { return writer_.response(); }
    /// An event with the response as it is now.
    std::string state_event(std::int64_t sequence) const { return writer_.state_event(sequence); }
    void set_status(detail::OpenAIResponseStatus status) { writer_.set_status(status); }
    const std::shared_ptr<bub::HttpReply>& reply() const noexcept { return reply_; }

private:
    void text(std::string_view text) override;
    void end_message() override;
    bool approval(std::string_view id, std::string_view tool, const JsonObject& arguments) override;
    void end(const OpenAIAnswerEnd& end) override;
    void postponed() override;

    std::shared_ptr<bub::HttpReply> reply_;
    OpenAIAnswer answer_;
    detail::OpenAIResponsesWriter writer_;
    std::vector<std::string> events_;
    std::size_t counted_ = 0;  // events in bytes_
    std::size_t bytes_ = 0;
    bool is_postponed_ = false;
};

/// The latest responses in the background, for clients that read their streams again. The oldest are forgotten first.
class OpenAIRuns {
public:
    void add(const std::string& message, std::shared_ptr<OpenAIRun> run);
    /// Returns null if there is none.
    std::shared_ptr<OpenAIRun> find(const std::string& message) const;

private:
    void shrink();

    std::map<std::string, std::shared_ptr<OpenAIRun>, std::less<>> runs_;
    std::deque<std::string> order_;
};

}  // namespace cubepi::app
