#include <bub/tape/tape_session.hpp>

#include <string_view>

namespace bub {

namespace {

std::string text_at(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace

std::optional<TapeSession> session_of(const JsonObject& side_state) {
    const Json* noted = side_state.if_contains("session");
    const JsonObject* fields = noted ? noted->if_object() : nullptr;
    if (!fields) return std::nullopt;
    TapeSession session;
    session.id = text_at(*fields, "id");
    session.workspace = text_at(*fields, "workspace");
    session.copied_from = text_at(*fields, "copied_from");
    if (session.id.empty()) return std::nullopt;
    return session;
}

void note_session(JsonObject& side_state, const TapeSession& session) {
    if (session.id.empty()) return;
    std::string source = session.copied_from;
    if (source.empty()) {
        if (const auto before = session_of(side_state)) source = before->copied_from;
    }
    JsonObject fields;
    fields["id"] = session.id;
    fields["workspace"] = session.workspace;
    if (!source.empty()) fields["copied_from"] = std::move(source);
    side_state["session"] = std::move(fields);
}

}  // namespace bub
