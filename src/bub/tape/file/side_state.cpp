#include <bub/tape/file/side_state.hpp>

#include <algorithm>

#include <cubepi/checkpoint/common/store_errors.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::detail {

using cubepi::detail::integer_member;
using cubepi::detail::string_member;
using cubepi::detail::text_member;

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
    const Json* until = json.if_contains("lease_until");
    if (until && until->is_number()) claim.lease_until = until->to_number<double>();
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

const JsonArray& SideState::list(std::string_view name) const {
    static const JsonArray none;
    const Json* value = state_.if_contains(name);
    return value && value->is_array() ? value->get_array() : none;
}

bool SideState::is_open(const std::string& run_id) const {
    const JsonArray& open = list("open_runs");
    return std::find(open.begin(), open.end(), Json(run_id)) != open.end();
}

bool SideState::holds(const std::string& run_id, const std::string& owner_id) const {
    for (const Json& json : list("claims")) {
        const JsonObject* claim = json.if_object();
        if (claim && string_member(*claim, "run_id") == run_id)
            return string_member(*claim, "owner_id") == owner_id;
    }
    return false;
}

JsonArray& SideState::edit(JsonObject& state, std::string_view name) {
    Json& value = state[name];
    if (!value.is_array()) value = JsonArray();
    return value.get_array();
}

void SideState::remove_answers_of_run(JsonObject& state, const std::string& run_id) {
    for (const char* name : {"answers", "batches"}) {
        JsonArray& list = edit(state, name);
        const auto of_run = [&](const Json& json) {
            const JsonObject* one = json.if_object();
            return one && string_member(*one, "run_id") == run_id;
        };
        list.erase(std::remove_if(list.begin(), list.end(), of_run), list.end());
    }
    tidy(state);
}

void SideState::tidy(JsonObject& state) {
    for (const char* name : {"claims", "open_runs", "pending", "answers", "batches", "answered"}) {
        const Json* value = state.if_contains(name);
        if (value && value->is_array() && value->get_array().empty()) state.erase(name);
    }
}

cubepi::RunState SideStateClaims::run_state(const std::string& run_id) const {
    if (!completed_.empty() && run_id == completed_) return cubepi::RunState::complete;
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
    JsonArray& open = SideState::edit(state_, "open_runs");
    open.erase(std::remove(open.begin(), open.end(), Json(run_id)), open.end());
    SideState::tidy(state_);
}

void SideStateClaims::put_claim(const cubepi::HeldClaim& claim) {
    remove_claim(claim.run_id);
    SideState::edit(state_, "claims").emplace_back(claim_json(claim));
}

void SideStateClaims::remove_claim(const std::string& run_id) {
    JsonArray& claims = SideState::edit(state_, "claims");
    const auto of_run = [&](const Json& json) {
        const JsonObject* claim = json.if_object();
        return !claim || string_member(*claim, "run_id") == run_id;
    };
    claims.erase(std::remove_if(claims.begin(), claims.end(), of_run), claims.end());
    SideState::tidy(state_);
}

void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims) {
    for (const TapeClaim& claim : claims) {
        if (!SideState(state).holds(claim.run_id, claim.owner_id))
            cubepi::detail::throw_claim_lost(tape, claim.run_id);
    }
}

}  // namespace bub::detail
