#include <cubepi/provider/wire/tool_call_name.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/core/support/trimmed.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t longest_name = 64;
constexpr std::string_view mark_of_cut = "_cut";
constexpr std::string_view no_name = "unnamed";

constexpr bool is_name_character(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

}  // namespace

SharedString tool_call_name(SharedString name) {
    const std::string_view given = name;
    const bool valid = !given.empty() && given.size() <= longest_name &&
                       std::all_of(given.begin(), given.end(), is_name_character);
    if (valid) return name;
    const std::string_view visible = trimmed(given);
    if (visible.empty()) return SharedString(no_name);
    std::string made;
    bool replaced = false;
    for (const char c : visible) {
        if (made.size() > longest_name) break;
        const bool ok = is_name_character(c);
        if (ok || !replaced) made += ok ? c : '_';
        replaced = !ok;
    }
    if (made.size() > longest_name) {
        made.resize(longest_name - mark_of_cut.size());
        made += mark_of_cut;
    }
    return SharedString(std::move(made));
}

}  // namespace cubepi::detail
