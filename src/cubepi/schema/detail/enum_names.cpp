#include <cubepi/schema/detail/enum_names.hpp>

namespace cubepi::detail {

std::vector<EnumEntry> parse_enum_spelling(std::string_view spelling, long long first) {
    std::vector<EnumEntry> entries;
    for_each_enum_name(spelling, [&](std::string_view name, long long index) {
        entries.push_back(EnumEntry{.name = name, .value = first + index});
    });
    return entries;
}

}  // namespace cubepi::detail
