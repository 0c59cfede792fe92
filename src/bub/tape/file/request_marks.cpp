#include <bub/tape/file/request_marks.hpp>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/inbox/pending_requests.hpp>

namespace bub::detail {

namespace {

// The name of a mark: CREATED-EXPIRES-TAPE, with both times in hex digits.
constexpr std::size_t digits = 16;
constexpr std::size_t tape_start = 2 * (digits + 1);
constexpr std::string_view complete_name = "complete";

std::string hex_of(double time) {
    constexpr std::string_view hex = "0123456789abcdef";
    const auto bits = std::bit_cast<std::uint64_t>(time);
    std::string text(digits, '0');
    for (std::size_t i = 0; i < digits; ++i) text[i] = hex[bits >> (4 * (digits - 1 - i)) & 15U];
    return text;
}

std::optional<double> parse_hex(std::string_view text) {
    std::uint64_t bits = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
    const auto time = std::bit_cast<double>(bits);
    if (std::isnan(time)) return std::nullopt;
    return time;
}

std::optional<RequestMark> parse_name(std::string_view name) {
    if (name.size() <= tape_start || name[digits] != '-' || name[tape_start - 1] != '-')
        return std::nullopt;
    const std::optional<double> created_at = parse_hex(name.substr(0, digits));
    const std::optional<double> expires_at = parse_hex(name.substr(digits + 1, digits));
    if (!created_at || !expires_at || name[tape_start] == '.') return std::nullopt;
    return RequestMark{*created_at, *expires_at, std::string(name.substr(tape_start))};
}

struct CloseDirectory {
    void operator()(DIR* directory) const noexcept { (void)::closedir(directory); }
};

}  // namespace

RequestMarkSet marks_of(const std::string& tape, const JsonObject& state) {
    constexpr double never = std::numeric_limits<double>::infinity();
    RequestMarkSet marks;
    for (const cubepi::QuestionEntry& entry : pending_requests(tape, state))
        marks.insert(RequestMark{entry.created_at, entry.expires_at.value_or(never), tape});
    return marks;
}

RequestMarks::RequestMarks(std::filesystem::path directory, bool sync)
    : directory_(std::move(directory)), sync_(sync) {}

std::filesystem::path RequestMarks::path_of(const RequestMark& mark) const {
    return directory_ / (hex_of(mark.created_at) + "-" + hex_of(mark.expires_at) + "-" + mark.tape);
}

bool RequestMarks::is_complete() const {
    return ::access((directory_ / complete_name).c_str(), F_OK) == 0;
}

std::vector<RequestMark> RequestMarks::read() const {
    std::vector<RequestMark> marks;
    // Much faster than std::filesystem::directory_iterator, which allocates a path for each entry.
    const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(directory_.c_str()));
    if (!directory) return marks;
    while (const dirent* entry = ::readdir(directory.get())) {
        std::optional<RequestMark> mark = parse_name(&entry->d_name[0]);
        if (mark) marks.push_back(std::move(*mark));
    }
    return marks;
}

void RequestMarks::add(const RequestMarkSet& marks, const RequestMarkSet& present) const {
    bool added = false;
    for (const RequestMark& mark : marks) {
        if (present.contains(mark)) continue;
        if (!added) make_private_directory(directory_);
        added = true;
        (void)Descriptor::open(path_of(mark), O_WRONLY | O_CREAT);
    }
    if (added && sync_) sync_directory_of(directory_ / complete_name);
}

void RequestMarks::remove(const RequestMarkSet& marks,
                          const RequestMarkSet& wanted) const noexcept {
    for (const RequestMark& mark : marks) {
        if (!wanted.contains(mark)) (void)::unlink(path_of(mark).c_str());
    }
}

void RequestMarks::set_complete() const {
    make_private_directory(directory_);
    (void)Descriptor::open(directory_ / complete_name, O_WRONLY | O_CREAT);
}

}  // namespace bub::detail
