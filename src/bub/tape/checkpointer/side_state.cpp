#include <bub/tape/checkpointer/side_state.hpp>

#include <set>
#include <utility>

#include <bub/tape/tape_session.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
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

/// Returns true for a note of a call (D176), or of sub-agents, which earlier versions have stored. They remain if a run is killed.
bool is_note(const Json& answer) {
    const std::string_view id = cubepi::detail::string_member(answer.get_object(), "question_id");
    return id.ends_with(cubepi::detail::call_note_end) || id.ends_with(".subagents");
}

}  // namespace

bool has_suspended_run(const JsonObject& side_state) {
    using cubepi::detail::list_of;
    const auto is_answer = [](const Json& one) { return one.is_object() && !is_note(one); };
    const JsonArray& answers = list_of(side_state, "answers");
    return !list_of(side_state, "pending").empty() ||
           std::any_of(answers.begin(), answers.end(), is_answer);
}

namespace detail {

using cubepi::detail::edit_list;
using cubepi::detail::erase_where;
using cubepi::detail::integer_member;
using cubepi::detail::is_of_run;
using cubepi::detail::list_of;
using cubepi::detail::string_member;
using cubepi::detail::text_member;
using cubepi::detail::tidy_lists;

namespace {

cubepi::HeldClaim read_claim(const JsonObject& json) {
    cubepi::HeldClaim claim;
    claim.run_id = text_member(json, "run_id");
    claim.owner.owner_id = text_member(json, "owner_id");
    claim.owner.host = text_member(json, "host");
    claim.owner.boot_id = text_member(json, "boot_id");
    claim.owner.pid = integer_member(json, "pid").value_or(0);
    claim.owner.process_start = integer_member(json, "process_start").value_or(0);
    claim.owner.description = text_member(json, "description");
    const Json* const lease_until = json.if_contains("lease_until");
    if (lease_until && lease_until->is_number())
        claim.lease_until = lease_until->to_number<double>();
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

bool SideState::is_open(const std::string& run_id) const {
    const JsonArray& open = list_of(state_, "open_runs");
    return std::find(open.begin(), open.end(), Json(run_id)) != open.end();
}

bool SideState::holds(const std::string& run_id, const std::string& owner_id) const {
    for (const Json& json : list_of(state_, "claims")) {
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

cubepi::RunState SideStateClaims::run_state(const std::string& run_id) const {
    return SideState(state_).is_open(run_id) ? cubepi::RunState::open : cubepi::RunState::unknown;
}

std::vector<cubepi::HeldClaim> SideStateClaims::claims() const {
    std::vector<cubepi::HeldClaim> claims;
    for (const Json& json : list_of(state_, "claims")) {
        if (json.is_object()) claims.push_back(read_claim(json.get_object()));
    }
    return claims;
}

void SideStateClaims::open_run(const std::string& run_id) {
    edit_list(state_, "open_runs").emplace_back(run_id);
}

void SideStateClaims::complete_run(const std::string& run_id) {
    erase_where(edit_list(state_, "open_runs"),
                [&](const Json& json) { return json == Json(run_id); });
    tidy_lists(state_);
}

void SideStateClaims::put_claim(const cubepi::HeldClaim& claim) {
    remove_claim(claim.run_id);
    edit_list(state_, "claims").emplace_back(claim_json(claim));
}

void SideStateClaims::remove_claim(const std::string& run_id) {
    erase_where(edit_list(state_, "claims"),
                [&](const Json& json) { return !json.is_object() || is_of_run(json, run_id); });
    tidy_lists(state_);
}

void check_claim(const JsonObject& state, const std::string& tape, const std::string& run_id,
                 const std::string& owner_id) {
    if (!SideState(state).holds(run_id, owner_id)) cubepi::detail::throw_claim_lost(tape, run_id);
}

void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims) {
    for (const TapeClaim& claim : claims) check_claim(state, tape, claim.run_id, claim.owner_id);
}

Json edit_under_lease(JsonObject& state, const TurnLease& lease,
                      const std::function<Json(JsonObject& state)>& edit) {
    JsonObject mark;
    mark["session"] = lease.session;
    mark["fence"] = lease.fence;
    // Claims without a mark are those of processes that have no lease.
    std::set<std::string> unmarked;
    JsonArray before = list_of(state, "claims");
    for (Json& json : before) {
        JsonObject* const claim = json.if_object();
        if (!claim) continue;
        const JsonObject* const of = cubepi::detail::object_member(*claim, "lease");
        if (!of) unmarked.insert(text_member(*claim, "owner_id"));
        if (of && string_member(*of, "session") == lease.session &&
            integer_member(*of, "fence") != lease.fence)
            (*claim)["lease_until"] = 0.0;
    }
    if (!before.empty()) state["claims"] = std::move(before);
    Json result = edit(state);
    JsonArray after = list_of(state, "claims");
    for (Json& json : after) {
        JsonObject* const claim = json.if_object();
        if (claim && !claim->contains("lease") &&
            !unmarked.contains(text_member(*claim, "owner_id")))
            (*claim)["lease"] = mark;
    }
    if (!after.empty()) state["claims"] = std::move(after);
    return result;
}

}  // namespace detail

}  // namespace bub
