#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <utility>

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
    bool is_listed_group(const Id& chat) const { return groups_.contains(chat); }
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

}  // namespace bub::shared
