#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <bub/tape/entry/json_text.hpp>
#include <bub/tape/tape_entry.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::detail {

inline JsonArray objects_at(const JsonObject& object, std::string_view key) {
    JsonArray found;
    const Json* value = object.if_contains(key);
    if (!value || !value->is_array()) return found;
    for (const Json& item : value->get_array()) {
        if (item.is_object()) found.push_back(item);
    }
    return found;
}

inline std::string result_text(const Json& result) {
    if (const auto* text = result.if_string()) return std::string(*text);
    std::string text;
    append_json_text(text, result);
    return text;
}

inline std::string call_name(const JsonObject& call) {
    const Json* function = call.if_contains("function");
    return function && function->is_object()
               ? cubepi::detail::text_member(function->get_object(), "name")
               : std::string();
}

/// Visits entries in order and passes what a model sees of each to a `To`: to its functions anchor(), message(), calls() and
/// result(). Tracks the calls that wait for results.
template <class To>
class EntryWalk {
public:
    explicit EntryWalk(To& to) : to_(to) {}

    void entry(const TapeEntry& entry) {
        if (entry.kind == entry_kind::anchor) {
            to_.anchor(entry);
        } else if (entry.kind == entry_kind::message) {
            to_.message(entry);
        } else if (entry.kind == entry_kind::tool_call) {
            pending_ = objects_at(entry.payload, "calls");
            if (!pending_.empty()) to_.calls(entry, pending_);
        } else if (entry.kind == entry_kind::tool_result) {
            results(entry);
        }
    }
    void forget_calls() { pending_.clear(); }

private:
    void results(const TapeEntry& entry) {
        const Json* list = entry.payload.if_contains("results");
        if (!list || !list->is_array()) return;
        static const JsonObject none;
        std::size_t position = 0;
        for (const Json& result : list->get_array()) {
            const JsonObject& call =
                position < pending_.size() ? pending_[position].get_object() : none;
            to_.result(entry, result_text(result), cubepi::detail::text_member(call, "id"),
                       call_name(call));
            ++position;
        }
        pending_.clear();
    }

    To& to_;
    JsonArray pending_;
};

}  // namespace bub::detail
