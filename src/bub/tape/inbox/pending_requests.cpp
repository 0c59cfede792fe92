#include <bub/tape/inbox/pending_requests.hpp>

#include <utility>

#include <bub/tape/file/side_state.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

namespace detail {

using cubepi::detail::flag_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;

namespace {

const JsonObject* request_of(const Json& element) {
    const JsonObject* one = element.if_object();
    return one ? object_member(*one, "request") : nullptr;
}

std::optional<double> number_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (!value || !value->is_number()) return std::nullopt;
    return value->to_number<double>();
}

}  // namespace

cubepi::QuestionEntry read_request(const std::string& tape, const Json& element) {
    cubepi::QuestionEntry entry;
    entry.thread_id = tape;
    if (const JsonObject* one = element.if_object()) entry.run_id = text_member(*one, "run_id");
    const JsonObject* request = request_of(element);
    if (!request) {
        entry.damage = "the stored request is not an object";
        return entry;
    }
    entry.question_id = text_member(*request, "question_id");
    entry.created_at = number_of(*request, "created_at").value_or(0);
    if (const std::optional<double> timeout = number_of(*request, "timeout_seconds"))
        entry.expires_at = entry.created_at + *timeout;
    try {
        entry.request = cubepi::hitl_request_from_json(*request);
    } catch (const cubepi::Error& error) {
        entry.damage = error.what();
    }
    return entry;
}

void throw_damaged_request(const cubepi::QuestionEntry& entry, const std::string& file) {
    const std::string place = file.empty() ? "the side state of the tape" : file;
    throw cubepi::CheckpointCorruptionError(
        "a pending request of tape '" + entry.thread_id + "' is damaged (" + entry.damage +
            "); repair it in " + place +
            ", or discard the requests of the tape: `cubepi inbox cancel`, or "
            "QuestionStore::discard_requests() in a program",
        entry.thread_id, "tape", "pending request '" + entry.question_id + "'", file);
}

bool is_expired(const Json& element) {
    const JsonObject* one = element.if_object();
    return one && flag_member(*one, "expired");
}

bool is_request(const Json& element, const std::string& run_id, const std::string& question_id) {
    const JsonObject* request = request_of(element);
    return request && text_member(element.get_object(), "run_id") == run_id &&
           text_member(*request, "question_id") == question_id;
}

std::vector<cubepi::QuestionEntry> pending_requests(const std::string& tape,
                                                    const JsonObject& state) {
    std::vector<cubepi::QuestionEntry> entries;
    for (const Json& element : SideState(state).list("pending")) {
        if (!is_expired(element)) entries.push_back(read_request(tape, element));
    }
    return entries;
}

}  // namespace detail

InboxBuilder::InboxBuilder(cubepi::QuestionQuery query) : query_(std::move(query)) {
    (void)cubepi::detail::read_inbox_cursor(query_);
}

void InboxBuilder::add(const std::string& tape, const JsonObject& state) {
    for (cubepi::QuestionEntry& entry : detail::pending_requests(tape, state))
        add(std::move(entry));
}

void InboxBuilder::add(cubepi::QuestionEntry entry) { entries_.push_back(std::move(entry)); }

cubepi::QuestionPage InboxBuilder::page() const {
    return cubepi::detail::inbox_page(entries_, query_);
}

}  // namespace bub
