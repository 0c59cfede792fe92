#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi {

// Each of these types has an `extra`: keys of this library or of a newer writer, which are stored and read unchanged.

/// One choice of a question.
struct HitlOption {
    std::string label = {};
    std::string value = {};
    std::optional<std::string> description = {};
    bool allow_input = false;
    JsonObject extra = {};
};

struct HitlQuestion {
    std::string key = {};
    std::string prompt = {};
    std::optional<std::vector<HitlOption>> options = {};
    bool multi_select = false;
    bool required = true;
    JsonObject extra = {};
};

struct ConfirmRequest {
    std::string prompt = {};
    Json details = {};
    JsonObject extra = {};
};

struct ApproveRequest {
    std::string tool_name = {};
    std::string tool_call_id = {};
    JsonObject args = {};
    Json details = {};
    JsonObject extra = {};
};

struct AskRequest {
    std::vector<HitlQuestion> questions = {};
    JsonObject extra = {};
};

/// A question to the user, as stored while it is pending.
struct HitlRequest {
    std::string question_id = {};
    /// Names this request and no other one: random, and never chosen by a model's endpoint, which may repeat the ids of its
    /// calls and thereby `question_id` (D83). A host answers by it. Empty in requests of CubePi and of older versions.
    std::string request_id = {};
    std::optional<std::string> thread_id = {};
    std::variant<ConfirmRequest, ApproveRequest, AskRequest> payload = {};
    double created_at = 0;  ///< Unix seconds
    std::optional<double> timeout_seconds = {};
    JsonObject extra = {};
};

/// Returns the request that a host names: the one with this `request_id`, or else the only one with this `question_id`. Null
/// if there is none, or several have the same `question_id`.
const HitlRequest* find_request(const std::vector<HitlRequest>& requests, std::string_view name);

JsonObject to_json(const HitlRequest& request);
/// Throws Error(validation) naming the key.
HitlRequest hitl_request_from_json(const Json& json);

}  // namespace cubepi
