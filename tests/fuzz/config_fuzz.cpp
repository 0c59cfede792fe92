// Any configuration file is read or refused with a reason, and an edit of any file has the requested effect.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <channels/channel_kinds.hpp>
#include <config/config_file.hpp>
#include <config/gateway_settings.hpp>
#include <cubepi/core/error.hpp>

#include "fuzz_check.hpp"

// In place of the channels of the program, whose other parts would be linked: keys of each type.
namespace cubepi::app {
namespace {

constexpr ChannelKey keys[] = {ChannelKey{"listen", KeyType::address, "127.0.0.1:8642"},
                               ChannelKey{"token_env", KeyType::variable, "TOKEN"},
                               ChannelKey{"token", KeyType::secret},
                               ChannelKey{"users", KeyType::list, "", "", "users"},
                               ChannelKey{"api_url", KeyType::text, "https://api.telegram.org"},
                               ChannelKey{"progress", KeyType::flag, "true"},
                               ChannelKey{"max_body_mb", KeyType::number, "1"},
                               ChannelKey{"certificate", KeyType::file},
                               ChannelKey{"webhook", KeyType::mapping},
                               ChannelKey{"webhook.listen", KeyType::address, "127.0.0.1:8643"},
                               ChannelKey{"webhook.secret_env", KeyType::variable, "SECRET"}};

}  // namespace

const ChannelKind http_kind{"http", "", keys, nullptr, nullptr, nullptr};
const ChannelKind telegram_kind{"telegram", "", keys, nullptr, nullptr, nullptr};

}  // namespace cubepi::app

namespace {

using namespace cubepi;

/// Whether a value cannot be represented in JSON.
bool has_odd_number(const Json& value) {
    if (value.is_double()) return !std::isfinite(value.get_double());
    if (const JsonArray* array = value.if_array()) {
        for (const Json& item : *array) {
            if (has_odd_number(item)) return true;
        }
    }
    if (const JsonObject* object = value.if_object()) {
        for (const auto& [key, item] : *object) {
            if (has_odd_number(item)) return true;
        }
    }
    return false;
}

/// YAML allows a key before a colon 1,024 characters, as it is written.
bool has_long_key(const Json& value) {
    if (const JsonArray* array = value.if_array())
        return std::any_of(array->begin(), array->end(), has_long_key);
    if (const JsonObject* object = value.if_object()) {
        return std::any_of(object->begin(), object->end(), [](const auto& member) {
            return boost::json::serialize(member.key()).size() > 1'000 ||
                   has_long_key(member.value());
        });
    }
    return false;
}

void check_edit(const std::string& text, const JsonObject& wanted) {
    std::string edited;
    try {
        edited = app::edit_yaml(text, wanted);
    } catch (const Error&) {
        CUBEPI_FUZZ_CHECK(has_long_key(Json(wanted)));
        return;
    }
    CUBEPI_FUZZ_CHECK(app::yaml_values(edited) == wanted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    static const int file = memfd_create("config", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(file);
    if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size))
        std::abort();
    JsonObject values;
    try {
        values = app::config_values(path);
        app::read_config(path);
        app::gateway_settings(values);
    } catch (const Error& error) {
        // Without a database of the time zones.
        const bool is_unsupported = error.code() == ErrorCode::unsupported;
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::parse || is_unsupported);
    }
    if (values.empty() || has_odd_number(Json(values))) return 0;
    CUBEPI_FUZZ_CHECK(app::edit_yaml(text, values) == text);
    JsonObject more = values;
    more["added"] = "a text: with # signs";
    check_edit(text, more);
    JsonObject less = values;
    less.erase(less.begin());
    check_edit(text, less);
    JsonObject other = values;
    other.begin()->value() = JsonArray{1, "two", nullptr};
    check_edit(text, other);
    return 0;
}
