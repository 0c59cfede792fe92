#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace bub::telegram {

/// The rules of access to the bot (B15): users in private chats, and all members of groups that are listed. Operators are users as well.
class Access {
public:
    Access() = default;
    /// Ids as text. Throws Error(invalid_argument) for what is not one: user names may change their owner.
    Access(const std::vector<std::string>& users, const std::vector<std::string>& chats,
           const std::vector<std::string>& operators);

    bool is_operator(std::int64_t user) const { return operators_.contains(user); }
    bool is_listed(std::int64_t user) const { return users_.contains(user) || is_operator(user); }
    /// Returns true if messages of the user in this chat are accepted. Groups have negative ids.
    bool allows(std::int64_t user, std::int64_t chat) const {
        return chat < 0 ? chats_.contains(chat) : is_listed(user);
    }
    bool is_empty() const { return users_.empty() && chats_.empty() && operators_.empty(); }

private:
    std::set<std::int64_t> users_;
    std::set<std::int64_t> chats_;
    std::set<std::int64_t> operators_;
};

/// The ids that were notified last, so that they are not notified again.
class RecentIds {
public:
    /// Returns false if the id is known already.
    bool add(std::int64_t id);

private:
    static constexpr std::size_t max_ids = 1000;
    std::set<std::int64_t> ids_;
    std::deque<std::int64_t> order_;
};

}  // namespace bub::telegram
