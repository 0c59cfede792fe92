#include <bub/tape/file/side_state.hpp>

#include <algorithm>

namespace bub::detail {

namespace {

std::int64_t number_at(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_int64() ? value->get_int64() : 0;
}

}  // namespace

std::string state_text(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

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
        if (!json.is_object()) continue;
        const cubepi::detail::HeldClaim claim = read_claim(json.get_object());
        if (claim.run_id == run_id && claim.owner.owner_id == owner_id) return true;
    }
    return false;
}

cubepi::detail::HeldClaim SideState::read_claim(const JsonObject& json) {
    cubepi::detail::HeldClaim claim;
    claim.run_id = state_text(json, "run_id");
    claim.owner.owner_id = state_text(json, "owner_id");
    claim.owner.host = state_text(json, "host");
    claim.owner.boot_id = state_text(json, "boot_id");
    claim.owner.pid = number_at(json, "pid");
    claim.owner.process_start = number_at(json, "process_start");
    claim.owner.description = state_text(json, "description");
    const Json* until = json.if_contains("lease_until");
    if (until && until->is_number()) claim.lease_until = until->to_number<double>();
    return claim;
}

JsonObject SideState::claim_json(const cubepi::detail::HeldClaim& claim) {
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

JsonArray& SideState::edit(JsonObject& state, std::string_view name) {
    Json& value = state[name];
    if (!value.is_array()) value = JsonArray();
    return value.get_array();
}

void SideState::tidy(JsonObject& state) {
    for (const char* name : {"claims", "open_runs", "pending", "answers"}) {
        const Json* value = state.if_contains(name);
        if (value && value->is_array() && value->get_array().empty()) state.erase(name);
    }
}

void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims) {
    for (const TapeClaim& claim : claims) {
        if (!SideState(state).holds(claim.run_id, claim.owner_id))
            cubepi::detail::throw_claim_lost(tape, claim.run_id);
    }
}

}  // namespace bub::detail
