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

// Stored values as CubePi reads them: where it wants a number it takes a text that is one, and true and false; where it
// wants a flag it takes 0, 1 and the usual words. What it refuses is refused: one of the two would lose the thread.

/// Throws Error (validation): "message key 'KEY': expected ...".
[[noreturn]] void refuse_key(std::string_view key, std::string_view expected);

double stored_number(const Json& value, std::string_view key);
/// A number without fraction; the nearest one that fits when it is too large.
std::int64_t stored_integer(const Json& value, std::string_view key);
bool stored_flag(const Json& value, std::string_view key);

/// Walks an object's keys once; what no field takes becomes `extra`.
class ObjectReader {
public:
    ObjectReader(const Json& json, std::string_view what);

    bool has(std::string_view key) const { return object_->contains(key); }
    /// The value of `key`, null when it is absent or null. Marks the key as known.
    const Json* take(std::string_view key);
    /// As take, but null (written out) is refused: CubePi refuses it too.
    const Json* take_not_null(std::string_view key);
    /// Empty when it is absent or null, unless it is required.
    std::string text(std::string_view key, bool required = false);
    /// Empty when it is absent.
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
