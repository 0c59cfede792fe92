#include <bub/tape/database_map.hpp>

#include <algorithm>
#include <iterator>
#include <optional>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/parsed_number.hpp>

namespace bub {

namespace {

constexpr std::size_t digits = 4;
constexpr std::uint32_t last_position = 0xffff;
constexpr std::size_t longest_name = 32;

struct Part {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::size_t database = 0;
};

cubepi::Error invalid(const std::string& what) {
    return cubepi::Error(cubepi::ErrorCode::invalid_argument, what);
}

std::optional<std::uint32_t> position_in(std::string_view text) {
    if (text.size() < digits) return std::nullopt;
    return cubepi::detail::parsed_number<std::uint32_t>(text.substr(0, digits), 16);
}

std::string text_of(std::uint32_t position) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string text;
    for (int shift = 12; shift >= 0; shift -= 4) text += hex[(position >> shift) & 15U];
    return text;
}

bool is_name(std::string_view name) {
    if (name.empty() || name.size() > longest_name) return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-';
    });
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

void read_ranges(const DatabaseShare& share, std::size_t database, std::vector<Part>& parts) {
    std::string_view left = share.ranges;
    if (trimmed(left) == "none") return;
    for (bool more = true; more;) {
        const std::size_t comma = left.find(',');
        const std::string_view one = trimmed(left.substr(0, comma));
        more = comma != std::string_view::npos;
        if (more) left.remove_prefix(comma + 1);
        const std::optional<std::uint32_t> first = position_in(one);
        const bool has_form = one.size() == digits + 1 + digits && one[digits] == '-';
        const std::optional<std::uint32_t> last =
            has_form ? position_in(one.substr(digits + 1)) : std::nullopt;
        if (!first || !last || *first > *last)
            throw invalid("the sessions of the database '" + share.name +
                          "' must be ranges of four hexadecimal digits, such as 0000-7fff, or "
                          "none");
        parts.push_back({*first, *last, database});
    }
}

}  // namespace

std::uint16_t session_position(std::string_view session_id) {
    const std::string bytes = cubepi::detail::sha256_bytes(session_id);
    const auto high = static_cast<unsigned char>(bytes[0]);
    const auto low = static_cast<unsigned char>(bytes[1]);
    return static_cast<std::uint16_t>((high << 8U) | low);
}

DatabaseMap::DatabaseMap(const std::vector<DatabaseShare>& shares) {
    std::vector<Part> parts;
    for (const DatabaseShare& share : shares) {
        if (!is_name(share.name))
            throw invalid("the name of a database must be 1 to 32 letters, digits and '-'");
        if (named(share.name) < size())
            throw invalid("two databases have the name '" + share.name + "'");
        shares_.push_back({share.name, {}});
        read_ranges(share, size() - 1, parts);
    }
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.first < b.first; });
    std::uint32_t next = 0;
    for (const Part& part : parts) {
        if (part.first < next)
            throw invalid("the position " + text_of(part.first) +
                          " of sessions is in two ranges, that of the database '" +
                          shares_[part.database].name + "' is one of them");
        if (part.first > next) break;
        const bool continues = !ranges_.empty() && ranges_.back().database == part.database;
        if (!continues) ranges_.push_back({static_cast<std::uint16_t>(part.first), part.database});
        next = part.last + 1;
    }
    if (next <= last_position)
        throw invalid("no database has the sessions at " + text_of(next) +
                      "; the ranges must reach from 0000 to ffff without gaps");
    for (std::size_t at = 0; at < ranges_.size(); ++at) {
        const std::uint32_t last =
            at + 1 < ranges_.size() ? ranges_[at + 1].first - 1U : last_position;
        std::string& text = shares_[ranges_[at].database].ranges;
        text += (text.empty() ? "" : ", ") + text_of(ranges_[at].first) + "-" + text_of(last);
    }
    for (DatabaseShare& share : shares_)
        if (share.ranges.empty()) share.ranges = "none";
}

std::size_t DatabaseMap::named(std::string_view name) const {
    const auto found = std::find_if(shares_.begin(), shares_.end(),
                                    [&](const DatabaseShare& one) { return one.name == name; });
    return static_cast<std::size_t>(found - shares_.begin());
}

std::size_t DatabaseMap::at_position(std::uint16_t position) const {
    const auto next = std::upper_bound(
        ranges_.begin(), ranges_.end(), position,
        [](std::uint16_t wanted, const Range& range) { return wanted < range.first; });
    return std::prev(next)->database;
}

std::size_t DatabaseMap::of_tape(std::string_view tape) const {
    const std::size_t mark = tape.find("__");
    if (mark == std::string_view::npos) return of_session(tape);
    const std::optional<std::uint32_t> position = position_in(tape.substr(mark + 2));
    if (position) return at_position(static_cast<std::uint16_t>(*position));
    // Another name: a sidecar, NAME__X, is with its tape.
    return of_session(tape.substr(0, tape.find("__", mark + 2)));
}

std::string DatabaseMap::record(std::size_t database) const {
    std::string text = name(database) + " of ";
    for (std::size_t at = 0; at < size(); ++at)
        text += (at > 0 ? "; " : "") + name(at) + ": " + ranges(at);
    return text;
}

}  // namespace bub
