#include <cubepi/schema/detail/enum_names.hpp>

namespace cubepi::detail {

// Both compilers end in the list of values: GCC "... E ...Values = {E::a, (E)1}; std::string_view = ...]",
// Clang "... Values = <E::a, (E)1>]". The names of enclosing scopes may hold any bracket ("(anonymous
// namespace)", "f()::Local", template arguments), so the list is split at ", " outside brackets.
std::vector<EnumEntry> parse_enum_spelling(std::string_view spelling, long long first) {
    std::vector<EnumEntry> entries;
    // By what is there, not by the compiler of this file: users may have the other one.
    constexpr std::string_view assignment = "Values = ";
    auto start = spelling.find(assignment);
    if (start == std::string_view::npos) return entries;
    start += assignment.size();
    const auto end = spelling.substr(start, 1) == "<" ? spelling.rfind(">]") : spelling.rfind("};");
    if (end == std::string_view::npos || end <= start) return entries;
    const auto list = spelling.substr(start + 1, end - start - 1);

    long long value = first;
    int depth = 0;
    std::size_t item = 0;
    for (std::size_t at = 0; at <= list.size(); ++at) {
        const char c = at < list.size() ? list[at] : ',';
        if (c == '(' || c == '<' || c == '{') ++depth;
        if (c == ')' || c == '>' || c == '}') --depth;
        if (c != ',' || depth != 0) continue;
        auto text = list.substr(item, at - item);
        while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
        const auto colon = text.rfind(':');
        const auto name = colon == std::string_view::npos ? text : text.substr(colon + 1);
        const bool named = !name.empty() && name.find(')') == std::string_view::npos &&
                           !(name.front() >= '0' && name.front() <= '9') && name.front() != '-';
        if (named) entries.push_back(EnumEntry{.name = name, .value = value});
        ++value;
        item = at + 1;
    }
    return entries;
}

}  // namespace cubepi::detail
