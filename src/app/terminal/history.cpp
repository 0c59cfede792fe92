#include "history.hpp"

#include <fstream>

#include <sys/stat.h>

#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::app {

namespace {

constexpr std::string_view header = "_HiStOrY_V2_";
constexpr std::size_t max_entries = 1000;

/// libedit's form: blanks, backslashes and control characters as three octal digits.
std::string encoded(std::string_view text) {
    std::string line;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > 0x20 && byte != 0x7F && c != '\\') {
            line += c;
            continue;
        }
        line += '\\';
        line += static_cast<char>('0' + (byte >> 6));
        line += static_cast<char>('0' + ((byte >> 3) & 7));
        line += static_cast<char>('0' + (byte & 7));
    }
    return line;
}

bool octal(char c) { return c >= '0' && c <= '7'; }

std::string decoded(std::string_view line) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && i + 3 < line.size() && octal(line[i + 1]) && octal(line[i + 2]) &&
            octal(line[i + 3])) {
            text += static_cast<char>(((line[i + 1] - '0') << 6) | ((line[i + 2] - '0') << 3) |
                                      (line[i + 3] - '0'));
            i += 3;
        } else {
            text += line[i];
        }
    }
    return text;
}

}  // namespace

History::History(std::filesystem::path file) : file_(std::move(file)) {
    load();
    rewind();
}

void History::load() {
    // Without a history one can still talk; a pipe of its name would be waited for.
    if (!cubepi::detail::kind_if_not_regular(file_).empty()) file_.clear();
    if (file_.empty()) return;
    std::ifstream file(file_, std::ios::binary);
    std::string line;
    while (std::getline(file, line)) {
        if (line == header || line.empty()) continue;
        entries_.push_back(decoded(line));
    }
    if (entries_.size() <= max_entries) return;
    const bool long_file = entries_.size() > 2 * max_entries;
    entries_.erase(entries_.begin(), entries_.end() - static_cast<std::ptrdiff_t>(max_entries));
    if (long_file) shorten();
}

/// One write at the end of the file, so that several chats can share it.
void History::append(const std::string& entry) const {
    if (file_.empty()) return;
    const detail::UniqueFd file = detail::open_file(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT);
    if (!file) return;  // the chat also works without a history
    struct stat status = {};
    const bool fresh = fstat(file.get(), &status) == 0 && status.st_size == 0;
    const std::string text = (fresh ? std::string(header) + "\n" : "") + encoded(entry) + "\n";
    fchmod(file.get(), S_IRUSR | S_IWUSR);
    (void)detail::write_all(file.get(), text);
}

/// Replaces the file by one that has only the retained entries.
void History::shorten() const {
    std::filesystem::path fresh = file_;
    fresh += ".new";
    std::string text = std::string(header) + "\n";
    for (const std::string& entry : entries_) text += encoded(entry) + "\n";
    detail::UniqueFd fd = detail::open_file(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    detail::ReplacementFile file(std::move(fd), fresh);
    if (file && detail::write_all(file.get(), text)) (void)file.replace(file_);
}

void History::add(const std::string& entry) {
    const bool again = !entries_.empty() && entries_.back() == entry;
    if (!entry.empty() && !again) {
        entries_.push_back(entry);
        if (entries_.size() > max_entries) entries_.erase(entries_.begin());
        append(entry);
    }
    rewind();
}

const std::string* History::older(const std::string& current) {
    if (at_ == 0) return nullptr;
    if (at_ == entries_.size()) draft_ = current;
    return &entries_[--at_];
}

const std::string* History::newer() {
    if (at_ >= entries_.size()) return nullptr;
    return ++at_ == entries_.size() ? &draft_ : &entries_[at_];
}

const std::string* History::find_older(std::string_view part) {
    for (std::size_t i = at_; i > 0; --i) {
        if (entries_[i - 1].find(part) == std::string::npos) continue;
        at_ = i - 1;
        return &entries_[at_];
    }
    return nullptr;
}

}  // namespace cubepi::app
