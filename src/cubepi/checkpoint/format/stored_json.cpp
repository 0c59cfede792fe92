#include <cubepi/checkpoint/format/stored_json.hpp>

#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

[[noreturn]] void throw_too_deep(const std::string& thread_id, const char* what) {
    throw CheckpointerError(ErrorCode::invalid_argument,
                            std::string(what) + " of thread '" + thread_id +
                                "' is nested deeper than " + std::to_string(max_stored_json_depth) +
                                " levels and could not be read again; nothing was stored",
                            thread_id);
}

}  // namespace

void refuse_too_deep(const std::string& thread_id, const char* what, const Json& json) {
    if (is_nested_deeper(json, max_stored_json_depth)) throw_too_deep(thread_id, what);
}

void refuse_too_deep(const std::string& thread_id, const char* what, const JsonObject& json) {
    if (is_nested_deeper(json, max_stored_json_depth)) throw_too_deep(thread_id, what);
}

ExtraChange change_extra(JsonObject stored, const JsonObject& changes) {
    ExtraChange change;
    for (const auto& [key, value] : changes) {
        const Json* old = stored.if_contains(key);
        if (old ? *old == value : value.is_null()) continue;
        if (value.is_null()) {
            change.removed.emplace_back(key);
            stored.stable_erase(key);
        } else {
            change.changed[key] = value;
            stored[key] = value;
        }
    }
    change.merged = std::move(stored);
    return change;
}

}  // namespace cubepi::detail
