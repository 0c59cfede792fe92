#include <bub/tape/file/line_reader.hpp>

#include <algorithm>

namespace bub::detail {

namespace {

constexpr std::size_t block = std::size_t{128} << 10U;

}  // namespace

LineReader::LineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to)
    : file_(file), at_(from), read_(from), to_(to) {}

bool LineReader::fill() {
    if (read_ >= to_) return false;
    if (start_ > 0) {
        buffer_.erase(0, start_);
        searched_ -= start_;
        start_ = 0;
    }
    const std::size_t had = buffer_.size();
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(block + had, to_ - read_));
    buffer_.resize(had + want);
    const std::size_t got = file_.read_at(read_, buffer_.data() + had, want);
    buffer_.resize(had + got);
    read_ += got;
    if (got < want) to_ = read_;  // the file was truncated meanwhile
    return got > 0;
}

bool LineReader::next(FileLine& line) {
    std::size_t feed = buffer_.find('\n', searched_);
    while (feed == buffer_.npos) {
        searched_ = buffer_.size();
        if (!fill()) break;
        feed = buffer_.find('\n', searched_);
    }
    line.ended = feed != buffer_.npos;
    const std::size_t end = line.ended ? feed : buffer_.size();
    if (!line.ended && end == start_) return false;
    line.text = std::string_view(buffer_).substr(start_, end - start_);
    line.offset = at_;
    const std::size_t behind = line.ended ? end + 1 : end;
    at_ += behind - start_;
    line.end = at_;
    start_ = behind;
    searched_ = behind;
    return true;
}

BackwardLineReader::BackwardLineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to)
    : file_(file), from_(from), start_(to), size_(0) {}

bool BackwardLineReader::fill() {
    if (start_ <= from_) return false;
    // A line that is longer than the buffered part doubles the block size, so that it is not moved too often.
    const std::uint64_t want =
        std::min<std::uint64_t>(std::max<std::uint64_t>(block, size_), start_ - from_);
    std::string grown(static_cast<std::size_t>(want + size_), '\0');
    const std::size_t got =
        file_.read_at(start_ - want, grown.data(), static_cast<std::size_t>(want));
    if (got < want) return false;  // the file was truncated meanwhile
    std::copy_n(buffer_.begin(), static_cast<std::ptrdiff_t>(size_),
                grown.begin() + static_cast<std::ptrdiff_t>(want));
    buffer_ = std::move(grown);
    start_ -= want;
    size_ += want;
    searched_ += want;
    return true;
}

bool BackwardLineReader::next(FileLine& line) {
    if (size_ == 0) {
        searched_ = 0;
        if (!fill()) return false;
        searched_ = size_;
    }
    const std::uint64_t end = size_;
    line.ended = buffer_[static_cast<std::size_t>(end - 1)] == '\n';
    const std::uint64_t text_end = line.ended ? end - 1 : end;
    searched_ = std::min(searched_, text_end);
    std::uint64_t begin = 0;
    std::uint64_t moved = start_;
    for (;;) {
        const std::size_t feed = searched_ == 0
                                     ? std::string::npos
                                     : buffer_.rfind('\n', static_cast<std::size_t>(searched_ - 1));
        if (feed != std::string::npos) {
            begin = feed + 1;
            break;
        }
        searched_ = 0;
        if (!fill()) {
            begin = 0;
            break;
        }
    }
    moved -= start_;  // distance by which the buffered bytes moved
    line_.assign(buffer_, static_cast<std::size_t>(begin),
                 static_cast<std::size_t>(text_end + moved - begin));
    line.text = line_;
    line.offset = start_ + begin;
    line.end = start_ + end + moved;
    size_ = begin;
    searched_ = begin;
    return true;
}

}  // namespace bub::detail
