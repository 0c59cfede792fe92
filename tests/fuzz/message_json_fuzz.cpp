// A stored message is read or refused with a reason; a message that was read can be written and read again unchanged.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

#include "fuzz_check.hpp"

namespace {

using namespace cubepi;

void check_message(const Json& json) {
    Message message;
    try {
        message = message_from_json(json);
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::validation);
        return;
    }
    const JsonObject stored = to_json(message);
    CUBEPI_FUZZ_CHECK(message_from_json(Json(stored)) == message);
    const Json reloaded = parse_lenient(to_python_json(stored));
    CUBEPI_FUZZ_CHECK(to_json(message_from_json(reloaded)) == reloaded);
    // No key of the input is lost.
    for (const auto& [key, value] : json.get_object()) {
        if (!value.is_null() && key != "id") CUBEPI_FUZZ_CHECK(stored.contains(key));
    }
    if (message.role() == Role::assistant) {
        CUBEPI_FUZZ_CHECK(Message(assistant_message_from_json(json)) == message);
    }
}

void check_request(const Json& json) {
    try {
        const HitlRequest request = hitl_request_from_json(json);
        const JsonObject stored = to_json(request);
        CUBEPI_FUZZ_CHECK(to_json(hitl_request_from_json(Json(stored))) == stored);
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::validation);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    Json json;
    try {
        json = parse_lenient(text);
    } catch (const Error&) {
        return 0;
    }
    check_message(json);
    check_request(json);
    return 0;
}
