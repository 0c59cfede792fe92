#include <bub/tape/checkpointer/side_state.hpp>

#include <bub/tape/tape_session.hpp>
#include <cubepi/checkpoint/common/store_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

std::optional<TapeSession> session_of(const JsonObject& side_state) {
    const JsonObject* fields = cubepi::detail::object_member(side_state, "session");
    if (!fields) return std::nullopt;
    TapeSession session;
    session.id = cubepi::detail::text_member(*fields, "id");
    session.workspace = cubepi::detail::text_member(*fields, "workspace");
    session.copied_from = cubepi::detail::text_member(*fields, "copied_from");
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

namespace {

constexpr std::string_view call_note_end = ".mcp";
constexpr std::string_view subagent_note_end = ".subagents";

/// Returns true for a note of a call (D176) or of sub-agents (D134). They remain if a run is killed.
bool is_note(const Json& answer) {
    const std::string_view id = cubepi::detail::string_member(answer.get_object(), "question_id");
    return id.ends_with(call_note_end) || id.ends_with(subagent_note_end);
}

}  // namespace

bool has_suspended_run(const JsonObject& side_state) {
    const detail::SideState state(side_state);
    const auto is_answer = [](const Json& one) { return one.is_object() && !is_note(one); };
    const JsonArray& answers = state.list("answers");
    return !state.list("pending").empty() || std::any_of(answers.begin(), answers.end(), is_answer);
}

namespace detail {

using cubepi::detail::array_member;
using cubepi::detail::flag_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::string_member;
using cubepi::detail::text_member;

namespace {

std::optional<double> number_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (!value || !value->is_number()) return std::nullopt;
    return value->to_number<double>();
}

cubepi::HeldClaim read_claim(const JsonObject& json) {
    cubepi::HeldClaim claim;
    claim.run_id = text_member(json, "run_id");
    claim.owner.owner_id = text_member(json, "owner_id");
    claim.owner.host = text_member(json, "host");
    claim.owner.boot_id = text_member(json, "boot_id");
    claim.owner.pid = integer_member(json, "pid").value_or(0);
    claim.owner.process_start = integer_member(json, "process_start").value_or(0);
    claim.owner.description = text_member(json, "description");
    claim.lease_until = number_of(json, "lease_until").value_or(claim.lease_until);
    return claim;
}

JsonObject claim_json(const cubepi::HeldClaim& claim) {
    JsonObject json;
    json["run_id"] = claim.run_id;
    json["owner_id"] = claim.owner.owner_id;
    json["host"] = claim.owner.host;
    json["boot_id"] = claim.owner.boot_id;
    json["pid"] = claim.owner.pid;
    json["process_start"] = claim.owner.process_start;
    json["description"] = claim.owner.description;
    json["lease_until"] = claim.lease_until;
    return json;
}

}  // namespace

bool is_of_run(const Json& element, std::string_view run_id) {
    const JsonObject* one = element.if_object();
    return one && string_member(*one, "run_id") == run_id;
}

bool is_of_question(const Json& element, std::string_view run_id, std::string_view question_id) {
    return is_of_run(element, run_id) &&
           string_member(element.get_object(), "question_id") == question_id;
}

const JsonArray& SideState::list(std::string_view name) const {
    static const JsonArray none;
    const JsonArray* found = array_member(state_, name);
    return found ? *found : none;
}

bool SideState::is_open(const std::string& run_id) const {
    const JsonArray& open = list("open_runs");
    return std::find(open.begin(), open.end(), Json(run_id)) != open.end();
}

bool SideState::holds(const std::string& run_id, const std::string& owner_id) const {
    for (const Json& json : list("claims")) {
        if (is_of_run(json, run_id))
            return string_member(json.get_object(), "owner_id") == owner_id;
    }
    return false;
}

bool SideState::holds_all(const std::vector<TapeClaim>& claims) const {
    return std::all_of(claims.begin(), claims.end(), [this](const TapeClaim& claim) {
        return holds(claim.run_id, claim.owner_id);
    });
}

JsonArray& SideState::edit(JsonObject& state, std::string_view name) {
    Json& value = state[name];
    if (!value.is_array()) value = JsonArray();
    return value.get_array();
}

void SideState::remove_earlier_notes(JsonObject& state, const std::string& run_id,
                                     const std::string& note_id) {
    if (note_id.size() <= call_note_end.size() || !note_id.ends_with(call_note_end)) return;
    // "ANSWER.INDEX.mcp"
    const std::size_t index = note_id.rfind('.', note_id.size() - call_note_end.size() - 1);
    if (index == std::string::npos) return;
    const std::string_view of_answer = std::string_view(note_id).substr(0, index + 1);
    erase_where(edit(state, "answers"), [&](const Json& one) {
        if (!is_of_run(one, run_id)) return false;
        const std::string_view id = string_member(one.get_object(), "question_id");
        return id.ends_with(call_note_end) && !id.starts_with(of_answer);
    });
}

void SideState::remove_answers_of_run(JsonObject& state, const std::string& run_id) {
    for (const char* name : {"answers", "batches"}) {
        erase_where(edit(state, name), [&](const Json& json) { return is_of_run(json, run_id); });
    }
    tidy(state);
}

void SideState::tidy(JsonObject& state) {
    for (const char* name : {"claims", "open_runs", "pending", "answers", "batches", "answered"}) {
        const JsonArray* list = array_member(state, name);
        if (list && list->empty()) state.erase(name);
    }
}

cubepi::RunState SideStateClaims::run_state(const std::string& run_id) const {
    return SideState(state_).is_open(run_id) ? cubepi::RunState::open : cubepi::RunState::unknown;
}

std::vector<cubepi::HeldClaim> SideStateClaims::claims() const {
    std::vector<cubepi::HeldClaim> claims;
    for (const Json& json : SideState(state_).list("claims")) {
        if (json.is_object()) claims.push_back(read_claim(json.get_object()));
    }
    return claims;
}

void SideStateClaims::open_run(const std::string& run_id) {
    SideState::edit(state_, "open_runs").emplace_back(run_id);
}

void SideStateClaims::complete_run(const std::string& run_id) {
    erase_where(SideState::edit(state_, "open_runs"),
                [&](const Json& json) { return json == Json(run_id); });
    SideState::tidy(state_);
}

void SideStateClaims::put_claim(const cubepi::HeldClaim& claim) {
    remove_claim(claim.run_id);
    SideState::edit(state_, "claims").emplace_back(claim_json(claim));
}

void SideStateClaims::remove_claim(const std::string& run_id) {
    erase_where(SideState::edit(state_, "claims"),
                [&](const Json& json) { return !json.is_object() || is_of_run(json, run_id); });
    SideState::tidy(state_);
}

void check_claim(const JsonObject& state, const std::string& tape, const std::string& run_id,
                 const std::string& owner_id) {
    if (!SideState(state).holds(run_id, owner_id)) cubepi::detail::throw_claim_lost(tape, run_id);
}

void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims) {
    for (const TapeClaim& claim : claims) check_claim(state, tape, claim.run_id, claim.owner_id);
}

namespace {

const JsonObject* request_of(const Json& element) {
    const JsonObject* one = element.if_object();
    return one ? object_member(*one, "request") : nullptr;
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

bool is_nested(const Json& element) {
    const JsonObject* one = element.if_object();
    return one && flag_member(*one, "nested");
}

bool is_request(const Json& element, const std::string& run_id, const std::string& question_id) {
    const JsonObject* request = request_of(element);
    return request && is_of_run(element, run_id) &&
           string_member(*request, "question_id") == question_id;
}

std::vector<cubepi::QuestionEntry> pending_requests(const std::string& tape,
                                                    const JsonObject& state) {
    std::vector<cubepi::QuestionEntry> entries;
    for (const Json& element : SideState(state).list("pending")) {
        if (!is_expired(element) && !is_nested(element))
            entries.push_back(read_request(tape, element));
    }
    return entries;
}

}  // namespace detail

}  // namespace bub
