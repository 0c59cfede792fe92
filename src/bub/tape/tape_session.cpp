#include <bub/tape/tape_session.hpp>

#include <string_view>

#include <cubepi/core/support/json_member.hpp>

namespace bub {

using cubepi::detail::text_member;

namespace {}  // namespace

std::optional<TapeSession> session_of(const JsonObject& side_state) {
    const Json* noted = side_state.if_contains("session");
    const JsonObject* fields = noted ? noted->if_object() : nullptr;
    if (!fields) return std::nullopt;
    TapeSession session;
    session.id = text_member(*fields, "id");
    session.workspace = text_member(*fields, "workspace");
    session.copied_from = text_member(*fields, "copied_from");
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
