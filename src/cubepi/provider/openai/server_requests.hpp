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
/// Reads the content of a message from a member: a text, or a list of parts in the form of either protocol. An absent one is empty.
void read_client_content(const JsonObject& from, std::string_view name, const std::string& path,
                         OpenAIClientMessage& message);
/// Adds a message of the role to the conversation, or its text to the instructions.
void add_client_message(OpenAIClientRequest& request, std::string_view role,
                        OpenAIClientMessage message, const std::string& path);
/// Reads an item of the lists `tools` and `tool_calls`, or the choice of a tool: the function that it describes, which Chat Completions
/// have in a member of its own.
const JsonObject& client_function(const JsonObject& item, const std::string& path);
/// Reads the name and the arguments of a call. The caller sets its id.
OpenAIClientCall read_client_call(const JsonObject& function, const std::string& path);
/// Returns the id of a call; it must not be empty.
std::string client_call_id(const JsonObject& object, std::string_view name,
                           const std::string& path);
void add_instructions(OpenAIClientRequest& request, std::string_view text);
/// Refuses a conversation that ends neither with a message of the user nor with the output of a call, and two outputs of one call.
void check_last_message(const OpenAIClientRequest& request, const std::string& path);

}  // namespace cubepi::detail
