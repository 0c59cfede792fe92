#include <bub/turn_state.hpp>

#include <algorithm>

#include <cubepi/core/support/json_member.hpp>

namespace bub {

std::string TurnState::text(std::string_view key) const {
    return cubepi::detail::text_member(values, key);
}

TurnState TurnState::child() const {
    TurnState made;
    made.values = values;
    made.services_ = services_;
    return made;
}

std::shared_ptr<void> TurnState::find(TypeKey key) const noexcept {
    for (const auto& [type, object] : services_) {
        if (type == key) return object;
    }
    return nullptr;
}

void TurnState::erase(TypeKey key) noexcept {
    std::erase_if(services_, [key](const auto& service) { return service.first == key; });
}

}  // namespace bub
