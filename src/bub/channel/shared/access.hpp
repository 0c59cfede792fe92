#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub::shared {

/// The rules of access to a channel (B15): users in private chats, and all members of groups that are listed. Operators are users as
/// well. `Id` is the platform's id of a user or chat, which does not change its owner as a name may.
template <class Id>
class Access {
public:
    Access() = default;
    Access(std::set<Id> users, std::set<Id> groups, std::set<Id> operators,
           std::set<Id> approvers = {})
        : users_(std::move(users)),
          groups_(std::move(groups)),
          operators_(std::move(operators)),
          approvers_(std::move(approvers)) {
        approvers_.insert(operators_.begin(), operators_.end());
    }

    /// Returns the users who may answer questions about tool calls: operators and approvers.
    const std::set<Id>& approvers() const noexcept { return approvers_; }
    bool is_operator(const Id& user) const { return operators_.contains(user); }
    bool is_listed(const Id& user) const { return users_.contains(user) || is_operator(user); }
    /// Returns true if messages of the user in this chat are accepted.
    bool allows(const Id& user, const Id& chat, bool is_group) const {
        return is_group ? groups_.contains(chat) : is_listed(user);
    }
    bool is_empty() const { return users_.empty() && groups_.empty() && operators_.empty(); }

private:
    std::set<Id> users_;
    std::set<Id> groups_;
    std::set<Id> operators_;
    std::set<Id> approvers_;
};

/// The ids that were seen last, for example of strangers who were told once that they are not listed.
template <class Id>
class RecentIds {
public:
    /// Returns false if the id is known already.
    bool add(const Id& id) {
        if (!ids_.insert(id).second) return false;
        order_.push_back(id);
        if (order_.size() > max_ids) {
            ids_.erase(order_.front());
            order_.pop_front();
        }
        return true;
    }

private:
    static constexpr std::size_t max_ids = 1000;
    std::set<Id> ids_;
    std::deque<Id> order_;
};

/// A code that a user sends to the bot in a private chat, which makes the user its operator.
class PairingCode {
public:
    explicit PairingCode(std::string code) : code_(std::move(code)) {}

    /// Returns a new code of eight digits, from the system's source of randomness.
    static std::string make() {
        std::random_device device;
        std::uniform_int_distribution<int> digit(0, 9);
        std::string code;
        while (code.size() < code_size) code += static_cast<char>('0' + digit(device));
        return code;
    }
    /// Returns the code in a message: typed, or sent by a link that starts the bot. Nothing for any other text.
    static std::optional<std::string> find(std::string_view text) {
        text = cubepi::detail::trimmed(text);
        if (text.starts_with("/start ")) text = cubepi::detail::trimmed(text.substr(7));
        const bool is_code =
            text.size() == code_size && text.find_first_not_of("0123456789") == text.npos;
        return is_code ? std::optional<std::string>(text) : std::nullopt;
    }
    /// Throws Error(limit) for the tenth wrong code.
    bool accepts(std::string_view sent) {
        if (cubepi::equal_secrets(sent, code_)) return true;
        if (++wrong_ < max_wrong) return false;
        throw cubepi::Error(
            cubepi::ErrorCode::limit,
            "ten wrong codes were sent to the bot; run the command again for a new code");
    }

private:
    static constexpr std::size_t code_size = 8;
    static constexpr std::size_t max_wrong = 10;
    const std::string code_;
    std::size_t wrong_ = 0;
};

}  // namespace bub::shared
