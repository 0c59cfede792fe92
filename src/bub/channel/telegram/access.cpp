#include <bub/channel/telegram/access.hpp>

#include <charconv>

#include <cubepi/core/error.hpp>

namespace bub::telegram {

namespace {

void add_ids(const std::vector<std::string>& texts, const char* list, std::set<std::int64_t>& ids) {
    for (const std::string& text : texts) {
        std::int64_t id = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, failed] = std::from_chars(text.data(), end, id);
        if (failed != std::errc() || stop != end || id == 0) {
            throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                                "the channel telegram needs numbers in '" + std::string(list) +
                                    "', not '" + text +
                                    "'; the bot tells a user who is not listed his id");
        }
        ids.insert(id);
    }
}

}  // namespace

Access::Access(const std::vector<std::string>& users, const std::vector<std::string>& chats,
               const std::vector<std::string>& operators) {
    add_ids(users, "users", users_);
    add_ids(chats, "chats", chats_);
    add_ids(operators, "operators", operators_);
}

bool RecentIds::add(std::int64_t id) {
    if (!ids_.insert(id).second) return false;
    order_.push_back(id);
    if (order_.size() > max_ids) {
        ids_.erase(order_.front());
        order_.pop_front();
    }
    return true;
}

}  // namespace bub::telegram
