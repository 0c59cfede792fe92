#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <bub/channel/telegram/update.hpp>

// Parts that messages and buttons have in common.

namespace bub::telegram {

/// Returns the id of the user or chat in the member `key`; 0 if there is none.
std::int64_t id_in(const JsonObject& object, std::string_view key);

/// Sets the origin of the envelope; returns the facts about it that are stored.
JsonObject origin_facts(Incoming& incoming, const Access& access, const std::string& name);

/// Reads a `callback_query`.
Incoming read_button(const JsonObject& query, const Access& access);

}  // namespace bub::telegram
