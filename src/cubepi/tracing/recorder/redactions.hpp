#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Replaces a text or an object that was redacted and has no other form.
inline constexpr std::string_view redacted_text = "[redacted]";

/// The values that the `redact` function changed or dropped in a run, its nested runs and the spans around them. The same value
/// occurs in other attributes, too: in the body of a request, in the prompt of a sub-agent, in an answer that quotes it (D102). Thread-safe.
class Redactions {
public:
    static constexpr std::size_t max_bytes = std::size_t{32} << 20U;
    /// A shorter text is replaced only where it is the whole string.
    static constexpr std::size_t min_part = 4;
    /// A shorter text is not replaced inside of longer words.
    static constexpr std::size_t min_inside = 8;

    /// Notes the difference. `after`: null if the value was dropped. `is_data`: all of it is a value, also under keys such as "type" and
    /// "name", which are structure in messages.
    void note(const Json& before, const Json* after, bool is_data);
    /// Replaces what was noted so far. Returns false if that is impossible because too much was noted.
    bool apply(Json& value) const;

private:
    struct LongestFirst {
        bool operator()(const std::string& a, const std::string& b) const noexcept {
            return a.size() != b.size() ? a.size() > b.size() : a < b;
        }
    };
    using Texts = std::map<std::string, std::string, LongestFirst>;
    using Objects = std::vector<std::pair<Json, Json>>;

    void note_text(std::string_view before, std::string_view after);
    void note_object(const Json& before, const Json* after);
    void note_parts(const Json& before, const Json* after, bool is_data);
    bool replace(Json& value, bool is_data, std::size_t depth) const;
    bool replace_in(boost::json::string& text, std::size_t depth) const;

    mutable std::mutex mutex_;  // of the following
    Texts texts_;
    Objects objects_;
    std::size_t bytes_ = 0;
};

}  // namespace cubepi::detail
