#include <cubepi/hitl/channel/question_id.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/evp.h>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

/// Returns the value with the keys of all objects in ascending order.
Json sorted(const Json& value) {
    if (value.is_array()) {
        JsonArray items;
        for (const Json& item : value.get_array()) items.push_back(sorted(item));
        return items;
    }
    if (!value.is_object()) return value;
    std::vector<std::pair<std::string_view, const Json*>> members;
    for (const auto& [key, member] : value.get_object()) members.emplace_back(key, &member);
    std::sort(members.begin(), members.end());
    JsonObject object;
    for (const auto& [key, member] : members) object[key] = sorted(*member);
    return object;
}

/// Returns the first 32 hexadecimal digits of the SHA-256 digest.
std::string digest(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes = {};
    unsigned int size = 0;
    if (EVP_Digest(text.data(), text.size(), bytes.data(), &size, EVP_sha256(), nullptr) != 1)
        throw Error(ErrorCode::unsupported, "OpenSSL does not offer SHA-256");
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    for (std::size_t i = 0; i < 16; ++i) {
        hex += digits[bytes[i] >> 4U];
        hex += digits[bytes[i] & 15U];
    }
    return hex;
}

}  // namespace

std::string QuestionIds::next(const HitlPayload& payload, const HitlOptions& options) {
    if (const auto* approve = std::get_if<ApproveRequest>(&payload)) return approve->tool_call_id;
    const auto* confirm = std::get_if<ConfirmRequest>(&payload);
    if (confirm && options.tool_call_id) return *options.tool_call_id;
    HitlRequest request;
    request.payload = payload;
    JsonObject body = to_json(request)["payload"].get_object();
    Json content = confirm
                       ? Json(JsonObject{{"details", body["details"]}, {"prompt", body["prompt"]}})
                       : body["questions"];
    const JsonObject all{{"kind", body["kind"]}, {"payload", std::move(content)}};
    std::string id = digest(to_python_json(sorted(all)));
    const std::size_t count = asked_[id]++;
    return id + "." + std::to_string(count);
}

}  // namespace cubepi::detail
