#include <cubepi/mcp/server/request_state.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/server/session.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t mac_digits = 64;

std::string mac_of(const std::string& key, std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> mac = {};
    unsigned size = 0;
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(),
              mac.data(), &size))
        throw std::bad_alloc();
    return hex_of(std::string_view(reinterpret_cast<const char*>(mac.data()), size));
}

[[noreturn]] void refuse_state() {
    throw Refusal(mcp_error::invalid_params,
                  "`requestState` is not valid (any more) for this request; send the request "
                  "without it.");
}

std::int64_t milliseconds_now(const Runtime& runtime) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               runtime.clock->wall().time_since_epoch())
        .count();
}

/// Appends the value with the members of its objects in order.
void append_sorted(std::string& out, const Json& value) {
    if (const JsonArray* array = value.if_array()) {
        out += '[';
        for (const Json& item : *array) {
            append_sorted(out, item);
            out += ',';
        }
        out += ']';
    } else if (const JsonObject* object = value.if_object()) {
        std::vector<std::pair<std::string_view, const Json*>> members;
        for (const auto& member : *object) members.emplace_back(member.key(), &member.value());
        std::ranges::sort(members, {}, &std::pair<std::string_view, const Json*>::first);
        out += '{';
        for (const auto& [key, member] : members) {
            out += json_text(Json(key)) + ":";
            append_sorted(out, *member);
            out += ',';
        }
        out += '}';
    } else {
        out += json_text(value);
    }
}

}  // namespace

McpRequestStates::McpRequestStates(std::string key, std::chrono::nanoseconds lifetime,
                                   std::size_t max_bytes, std::shared_ptr<const Runtime> runtime)
    : key_(key.empty() ? random_secret(32) : std::move(key)),
      lifetime_(lifetime),
      max_bytes_(max_bytes),
      runtime_(std::move(runtime)) {}

std::string McpRequestStates::seal(const McpRounds& rounds, std::string_view request) const {
    const auto lifetime = std::chrono::duration_cast<std::chrono::milliseconds>(lifetime_).count();
    JsonObject object;
    object["request"] = request;
    object["expires"] = milliseconds_now(*runtime_) + lifetime;
    object["rounds"] = rounds.rounds;
    object["answers"] = rounds.answers;
    const std::string text = json_text(Json(std::move(object)));
    if (mac_digits + 1 + text.size() > max_bytes_)
        throw Refusal(mcp_error::invalid_params, "The answers of the client are too large.");
    return mac_of(key_, text) + "." + text;
}

McpRounds McpRequestStates::open(std::string_view state, std::string_view request) const {
    if (state.size() > max_bytes_ || state.size() <= mac_digits || state[mac_digits] != '.')
        refuse_state();
    const std::string_view text = state.substr(mac_digits + 1);
    if (!equal_secrets(state.substr(0, mac_digits), mac_of(key_, text))) refuse_state();
    // seal() has written the rest.
    const Json json = parse_json(text);
    const JsonObject& object = json.as_object();
    if (string_member(object, "request") != request) refuse_state();
    const auto expires = integer_member(object, "expires");
    if (!expires || milliseconds_now(*runtime_) >= *expires) refuse_state();
    McpRounds rounds;
    rounds.answers = object.at("answers").as_object();
    rounds.rounds = static_cast<std::size_t>(object.at("rounds").to_number<std::uint64_t>());
    return rounds;
}

std::string mcp_request_digest(std::string_view method, std::string_view target,
                               const JsonObject& arguments) {
    std::string text(method);
    text += '\n';
    text += json_text(Json(target));
    text += '\n';
    append_sorted(text, Json(arguments));
    return sha256_hex(text);
}

std::string random_secret(std::size_t bytes) {
    std::string random(bytes, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes)) != 1)
        throw Error(ErrorCode::io, "the system has no random numbers");
    return hex_of(random);
}

}  // namespace cubepi::detail
