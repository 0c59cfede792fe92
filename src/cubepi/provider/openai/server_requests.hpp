#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/openai/server_api.hpp>

// How the server's side reads members of requests. Each function throws OpenAIRequestError that names the member.

namespace cubepi::detail {

/// Parses the body of a request.
JsonObject read_client_body(std::string_view body);
/// Returns a text; empty if the member is absent or null.
std::string client_text(const JsonObject& object, std::string_view name, const std::string& path,
                        std::size_t limit);
bool client_flag(const JsonObject& object, std::string_view name, bool default_value);
/// Returns an object; null if the member is absent or null.
const JsonObject* client_object(const JsonObject& object, std::string_view name);
/// Refuses a member that has a value, other than null, false, an empty list or `accepted`.
void refuse_client_member(const JsonObject& body, std::string_view name, const Json& accepted = {});
/// Reads `model`, `user` (or `safety_identifier`), `metadata` and `stream`, and refuses what neither protocol supports.
OpenAIClientRequest read_client_settings(const JsonObject& body);
/// Reads a data URL. `name`: of the file.
OpenAIClientFile client_file(std::string_view url, std::string name, const std::string& path);
void add_instructions(OpenAIClientRequest& request, std::string_view text);
/// Refuses a conversation that does not end with a message of the user.
void check_last_message(const OpenAIClientRequest& request, const std::string& path);

}  // namespace cubepi::detail
