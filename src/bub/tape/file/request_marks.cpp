#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/parsed_number.hpp>

// The marks of pending requests, and the inbox of all tapes, which is read by them.

namespace bub::detail {

namespace fs = std::filesystem;

using cubepi::QuestionEntry;
using cubepi::QuestionOrder;
using cubepi::QuestionPage;
using cubepi::QuestionQuery;

namespace {

// The name of a mark: CREATED-EXPIRES-TAPE, with both times in hex digits.
constexpr std::size_t digits = 16;
constexpr std::size_t tape_start = 2 * (digits + 1);
constexpr std::string_view complete_name = "complete";
constexpr double infinite = std::numeric_limits<double>::infinity();

std::string hex_of(double time) {
    constexpr std::string_view hex = "0123456789abcdef";
    const auto bits = std::bit_cast<std::uint64_t>(time);
    std::string text(digits, '0');
    for (std::size_t i = 0; i < digits; ++i) text[i] = hex[bits >> (4 * (digits - 1 - i)) & 15U];
    return text;
}

std::optional<double> parse_hex(std::string_view text) {
    const auto bits = cubepi::detail::parsed_number<std::uint64_t>(text, 16);
    if (!bits) return std::nullopt;
    const auto time = std::bit_cast<double>(*bits);
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
    RequestMarkSet marks;
    for (const cubepi::QuestionEntry& entry : pending_requests(tape, state))
        marks.insert(RequestMark{entry.created_at, entry.expires_at.value_or(infinite), tape});
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
    if (!directory && errno != ENOENT) throw_system("read the directory", directory_, errno);
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

namespace {

constexpr std::string_view state_suffix = ".jsonl.state";

/// A tape at the time of one of its requests, in the order of the inbox.
using Place = std::pair<double, std::string>;

/// The places of the marks, without those before the first one of the page.
class Places {
public:
    Places(std::vector<RequestMark> marks, const QuestionQuery& query) {
        const auto [time, tape, run_id, question_id] = cubepi::detail::read_inbox_cursor(query);
        const Place first(time, tape);
        const bool by_age = query.order() == QuestionOrder::age;
        std::vector<Place> found;
        found.reserve(marks.size());
        for (RequestMark& mark : marks) {
            Place place(by_age ? mark.created_at : mark.expires_at, std::move(mark.tape));
            if (first <= place) found.push_back(std::move(place));
        }
        rest_ = Queue(std::greater<>(), std::move(found));
    }
    std::optional<Place> next() {
        if (rest_.empty()) return std::nullopt;
        Place place = rest_.top();
        while (!rest_.empty() && rest_.top() == place) rest_.pop();
        return place;
    }

private:
    using Queue = std::priority_queue<Place, std::vector<Place>, std::greater<>>;
    Queue rest_;
};

/// The requests of a tape that were asked or expire at this time.
std::vector<QuestionEntry> entries_at(const std::vector<QuestionEntry>& entries, double time,
                                      QuestionOrder order) {
    std::vector<QuestionEntry> found;
    for (const QuestionEntry& entry : entries) {
        if (std::get<0>(cubepi::detail::inbox_key(entry, order)) == time) found.push_back(entry);
    }
    return found;
}

/// Stands for the requests of a tape whose side state cannot be read.
QuestionEntry unreadable(const Place& place, QuestionOrder order, const cubepi::Error& error) {
    QuestionEntry entry;
    entry.thread_id = place.second;
    if (order == QuestionOrder::age) entry.created_at = place.first;
    if (order == QuestionOrder::deadline && place.first != infinite) entry.expires_at = place.first;
    entry.damage = error.what();
    return entry;
}

/// One pass over the marks, until the page is full.
class RequestWalk {
public:
    using ReadState = std::function<JsonObject(const std::string& tape)>;

    RequestWalk(const QuestionQuery& query, ReadState read_state)
        : query_(query),
          after_(cubepi::detail::read_inbox_cursor(query)),
          read_state_(std::move(read_state)) {}

    void run(std::vector<RequestMark> marks) {
        Places places(std::move(marks), query_);
        while (entries_.size() <= query_.limit()) {
            const std::optional<Place> place = places.next();
            if (!place) return;
            visit(*place);
        }
    }
    /// The tapes that have a mark without a request.
    const std::set<std::string>& outdated() const noexcept { return outdated_; }
    QuestionPage page() const { return cubepi::detail::inbox_page(entries_, query_); }

private:
    void visit(const Place& place) {
        try {
            const std::vector<QuestionEntry> found =
                entries_at(requests_of(place.second), place.first, query_.order());
            if (found.empty()) outdated_.insert(place.second);
            for (const QuestionEntry& entry : found) add(entry);
        } catch (const cubepi::Error& error) {
            add(unreadable(place, query_.order(), error));
        }
    }
    const std::vector<QuestionEntry>& requests_of(const std::string& tape) {
        const auto known = read_.find(tape);
        if (known != read_.end()) return known->second;
        return read_.emplace(tape, pending_requests(tape, read_state_(tape))).first->second;
    }
    void add(QuestionEntry entry) {
        if (after_ < cubepi::detail::inbox_key(entry, query_.order()))
            entries_.push_back(std::move(entry));
    }

    const QuestionQuery& query_;
    const cubepi::detail::InboxKey after_;
    ReadState read_state_;
    std::map<std::string, std::vector<QuestionEntry>> read_;
    std::vector<QuestionEntry> entries_;
    std::set<std::string> outdated_;
};

/// Returns the tapes that have a side state.
std::vector<std::string> tapes_with_state(const fs::path& directory) {
    std::vector<std::string> tapes;
    for (const fs::path& file : files_in(directory)) {
        std::string name = file.filename().string();
        if (!name.ends_with(state_suffix)) continue;
        name.resize(name.size() - state_suffix.size());
        if (!name.empty()) tapes.push_back(std::move(name));
    }
    return tapes;
}

}  // namespace

/// Corrects the marks of tapes that have one without a request: a killed process has left it, or another program has edited
/// the side state, whose requests may then have other times. Hence the next pass.
QuestionPage TapeDirectory::list_requests(const QuestionQuery& query) {
    constexpr int most_passes = 3;
    for (int pass = 1;; ++pass) {
        RequestWalk walk(query, [this](const std::string& tape) { return read_state(tape); });
        walk.run(marks_.is_complete() ? marks_.read() : build_marks());
        if (walk.outdated().empty() || pass == most_passes) return walk.page();
        const std::vector<RequestMark> known = marks_.read();
        for (const std::string& tape : walk.outdated()) correct_marks(tape, known);
    }
}

/// Creates the index from all side states, without their locks: a request that is stored meanwhile gets its mark from its
/// writer, and the mark of one that is removed meanwhile is harmless.
std::vector<RequestMark> TapeDirectory::build_marks() {
    const std::vector<RequestMark> present = marks_.read();
    RequestMarkSet marks(present.begin(), present.end());
    for (const std::string& tape : tapes_with_state(options_.directory)) {
        try {
            marks.merge(marks_of(tape, read_state(tape)));
        } catch (const cubepi::Error&) {
            const bool known =
                std::any_of(present.begin(), present.end(),
                            [&](const RequestMark& one) { return one.tape == tape; });
            if (!known) marks.insert(RequestMark{0, infinite, tape});
        }
    }
    std::error_code unknown;
    if (!fs::exists(options_.directory, unknown)) return {};
    try {
        marks_.add(marks, {});
        marks_.set_complete();
    } catch (const cubepi::Error&) {
        // On a full disk, or without the permission to write: the index is built again the next time.
    }
    return {marks.begin(), marks.end()};
}

void TapeDirectory::correct_marks(const std::string& name, const std::vector<RequestMark>& known) {
    RequestMarkSet old_marks;
    for (const RequestMark& mark : known) {
        if (mark.tape == name) old_marks.insert(mark);
    }
    try {
        const Writing writing = lock(name);
        const RequestMarkSet marks = marks_of(name, read_state(name));
        marks_.add(marks, old_marks);
        marks_.remove(old_marks, marks);
        const bool removed = ::access(writing.paths.tape.c_str(), F_OK) != 0 &&
                             ::access(writing.paths.state.c_str(), F_OK) != 0;
        if (removed) remove_file(writing.paths.lock);
    } catch (const cubepi::Error&) {
        // Without the permission to write the mark stays; the page does not depend on it.
    }
}

}  // namespace bub::detail
