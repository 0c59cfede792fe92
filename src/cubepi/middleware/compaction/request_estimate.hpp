#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <cubepi/core/message_list.hpp>

namespace cubepi::detail {

/// Returns the tokens of a message by its length: two bytes are one token, which is more than any text needs.
std::int64_t estimated_tokens(const Message& message);

/// An estimate of the next request of a growing history: what the server counted in the last call, and the messages since,
/// scaled by what it counted in the calls before. Following one more message costs the same for any length of the history.
class RequestEstimate {
public:
    /// Begins with messages from `first` on. Usage of calls before `valid_from` is of other requests, and only says how the server
    /// counts. `tokens`: of the request at that time; zero: the estimate of the messages before.
    void restart(const MessageList& history, std::size_t first, std::size_t valid_from,
                 std::int64_t tokens);
    /// Counts the messages that were added since. Returns the size at which the server cuts requests silently, if its newest
    /// count makes that apparent: it falls, or hardly grows, while the history grows. Calls from `alike_from` on had the same
    /// tools and system prompt; only they are compared.
    std::optional<std::int64_t> follow(const MessageList& history, std::size_t alike_from);
    /// Returns true if follow() was called with the beginning of this history.
    bool follows(const MessageList& history) const;

    std::int64_t tokens() const;
    /// Returns the newest count of the server; zero: there is none.
    std::int64_t reported() const { return reported_.value_or(0); }
    /// Returns the model that reported it.
    const SharedString& model() const noexcept { return model_; }
    /// Tokens of the server for one estimated token; 1 before the third call, which overestimates.
    double scale() const;

private:
    struct Growth {
        std::int64_t reported;
        std::int64_t estimated;
    };
    void count(const Message& message, std::size_t index, std::size_t alike_from);
    void note_call(std::int64_t reported, const SharedString& model, bool is_alike);
    bool may_be_cut(std::int64_t at) const;
    void forget_call();

    std::size_t seen_ = 0;
    Message last_;
    std::size_t valid_from_ = 0;
    std::int64_t base_ = 0;   ///< as reported, or of restart()
    std::int64_t since_ = 0;  ///< estimated, of the messages after that
    std::int64_t pictures_ =
        0;  ///< the part of it for pictures, which servers count in their own ways
    std::int64_t thinking_ = 0;  ///< estimated, which servers may drop
    std::optional<std::int64_t> reported_ = {};
    std::size_t reported_at_ = 0;  ///< index of the answer
    SharedString model_;
    // Of the calls that can be compared with the last one.
    std::int64_t lowest_ = 0;
    std::int64_t highest_ = 0;
    std::int64_t rise_ = 0;           ///< the most by which a count was larger than an earlier one
    std::deque<Growth> growth_ = {};  ///< of the last calls
    bool is_edited_ = false;          ///< the endpoint has left out a part of the last request
    std::size_t calls_ = 0;
    double missing_ = 0;  ///< tokens that the server should have counted in the last calls
    std::optional<std::int64_t> cut_at_ = {};
};

}  // namespace cubepi::detail
