#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/core/lazy_object.hpp>

namespace cubepi::detail {

// Reads stored values like CubePi does: numeric strings, true and false are accepted as numbers; 0, 1 and the common
// words as flags. Values that CubePi rejects are rejected, because otherwise one of the two could not read the thread.

/// Throws Error (validation): "message key 'KEY': expected ...".
[[noreturn]] void refuse_key(std::string_view key, std::string_view expected);

double stored_number(const Json& value, std::string_view key);
/// Reads a number without fraction; clamps it if it is too large.
std::int64_t stored_integer(const Json& value, std::string_view key);
bool stored_flag(const Json& value, std::string_view key);

/// A reader of an object's keys; unknown keys become `extra`.
class ObjectReader {
public:
    ObjectReader(const Json& json, std::string_view what);

    bool has(std::string_view key) const { return object_->contains(key); }
    /// Returns the value of `key`; null if absent or null. Marks the key as known.
    const Json* take(std::string_view key);
    /// Like take(), but rejects an explicit null, as CubePi does.
    const Json* take_not_null(std::string_view key);
    /// Returns an empty string if the key is absent or null, unless it is required.
    std::string text(std::string_view key, bool required = false);
    /// Returns an empty string if the key is absent.
    std::string text_not_null(std::string_view key);
    std::optional<double> number(std::string_view key);
    std::optional<std::int64_t> integer(std::string_view key);
    LazyObject object(std::string_view key);
    LazyObject rest() const;

private:
    bool is_known(std::string_view key) const;

    const JsonObject* object_ = nullptr;
    std::array<std::string_view, 24> known_{};
    std::size_t count_ = 0;
};

}  // namespace cubepi::detail
