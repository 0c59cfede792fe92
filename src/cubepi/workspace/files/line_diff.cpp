#include <cubepi/workspace/files/line_diff.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/workspace/files/content.hpp>

namespace cubepi::detail {

namespace {

/// A replacement of the `removed` lines starting at `old_line` by the `added` lines starting at `new_line`; counted from 0.
struct Block {
    std::size_t old_line = 0;
    std::size_t removed = 0;
    std::size_t new_line = 0;
    std::size_t added = 0;
};

/// A part of both sequences: [a, a_end) and [b, b_end).
struct Box {
    std::ptrdiff_t a = 0;
    std::ptrdiff_t a_end = 0;
    std::ptrdiff_t b = 0;
    std::ptrdiff_t b_end = 0;
};

using Ids = std::vector<std::uint32_t>;

/// Finds the blocks in which two sequences differ: first the middle of a shortest edit script, then both halves recursively.
class Comparison {
public:
    Comparison(const Ids& a, const Ids& b, std::size_t max_work)
        : a_(a),
          b_(b),
          work_(max_work),
          reach_(static_cast<std::ptrdiff_t>(a.size() + b.size()) / 2 + 2),
          forward_(static_cast<std::size_t>(2 * reach_ + 1)),
          backward_(forward_.size()) {}

    std::vector<Block> blocks() {
        compare(Box{0, static_cast<std::ptrdiff_t>(a_.size()), 0,
                    static_cast<std::ptrdiff_t>(b_.size())});
        return std::move(blocks_);
    }

private:
    bool same(std::ptrdiff_t a, std::ptrdiff_t b) const {
        return a_[static_cast<std::size_t>(a)] == b_[static_cast<std::size_t>(b)];
    }

    // The recursion depth is logarithmic: each half contains half of the differences.
    void compare(Box box) {
        while (box.a < box.a_end && box.b < box.b_end && same(box.a, box.b)) ++box.a, ++box.b;
        while (box.a < box.a_end && box.b < box.b_end && same(box.a_end - 1, box.b_end - 1))
            --box.a_end, --box.b_end;
        if (box.a == box.a_end && box.b == box.b_end) return;
        Box common;
        if (box.a == box.a_end || box.b == box.b_end || !find_middle(box, common)) return add(box);
        compare(Box{box.a, common.a, box.b, common.b});
        compare(Box{common.a_end, box.a_end, common.b_end, box.b_end});
    }

    /// Finds the common lines in the middle of a shortest script; returns false if the work limit is reached.
    bool find_middle(const Box& box, Box& common) {
        const std::ptrdiff_t n = box.a_end - box.a;
        const std::ptrdiff_t m = box.b_end - box.b;
        const std::ptrdiff_t furthest = (n + m + 1) / 2;
        const auto begin = static_cast<std::size_t>(reach_ - furthest - 1);
        const auto end = static_cast<std::size_t>(reach_ + furthest + 2);
        for (auto* reached : {&forward_, &backward_}) {
            std::fill(reached->begin() + static_cast<std::ptrdiff_t>(begin),
                      reached->begin() + static_cast<std::ptrdiff_t>(end), 0);
        }
        for (std::ptrdiff_t edits = 0; edits <= furthest; ++edits) {
            if (extend<true>(box, edits, common) || extend<false>(box, edits, common)) return true;
            if (work_ == 0) return false;
        }
        return false;
    }

    /// Extends all paths of one direction by one edit and the common lines after it. Returns true if one of them meets a path
    /// of the other direction.
    template <bool Forward>
    bool extend(const Box& box, std::ptrdiff_t edits, Box& common) {
        const std::ptrdiff_t n = box.a_end - box.a;
        const std::ptrdiff_t m = box.b_end - box.b;
        const bool odd = ((n + m) & 1) != 0;
        auto& own = Forward ? forward_ : backward_;
        const auto& other = Forward ? backward_ : forward_;
        const auto at = [this](std::ptrdiff_t diagonal) {
            return static_cast<std::size_t>(reach_ + diagonal);
        };
        const std::ptrdiff_t first = -(edits - 2 * std::max<std::ptrdiff_t>(0, edits - m));
        const std::ptrdiff_t last = edits - 2 * std::max<std::ptrdiff_t>(0, edits - n);
        for (std::ptrdiff_t k = first; k <= last; k += 2) {
            const bool down = k == -edits || (k != edits && own[at(k - 1)] < own[at(k + 1)]);
            std::ptrdiff_t x = down ? own[at(k + 1)] : own[at(k - 1)] + 1;
            std::ptrdiff_t y = x - k;
            const std::ptrdiff_t from_x = x;
            const std::ptrdiff_t from_y = y;
            while (x < n && y < m &&
                   (Forward ? same(box.a + x, box.b + y)
                            : same(box.a_end - 1 - x, box.b_end - 1 - y))) {
                ++x, ++y;
            }
            own[at(k)] = x;
            const auto steps = static_cast<std::size_t>(x - from_x + 1);
            work_ -= std::min(work_, steps);
            const std::ptrdiff_t facing = n - m - k;
            const std::ptrdiff_t limit = Forward ? edits - 1 : edits;
            if (odd != Forward || facing < -limit || facing > limit || x + other[at(facing)] < n) {
                continue;
            }
            common =
                Forward ? Box{box.a + from_x, box.a + x, box.b + from_y, box.b + y}
                        : Box{box.a_end - x, box.a_end - from_x, box.b_end - y, box.b_end - from_y};
            return true;
        }
        return false;
    }

    void add(const Box& box) {
        const Block block{
            static_cast<std::size_t>(box.a), static_cast<std::size_t>(box.a_end - box.a),
            static_cast<std::size_t>(box.b), static_cast<std::size_t>(box.b_end - box.b)};
        if (!blocks_.empty()) {
            Block& before = blocks_.back();
            if (before.old_line + before.removed == block.old_line &&
                before.new_line + before.added == block.new_line) {
                before.removed += block.removed;
                before.added += block.added;
                return;
            }
        }
        blocks_.push_back(block);
    }

    const Ids& a_;
    const Ids& b_;
    std::size_t work_;
    const std::ptrdiff_t reach_;  // index of diagonal 0
    std::vector<std::ptrdiff_t> forward_;
    std::vector<std::ptrdiff_t> backward_;
    std::vector<Block> blocks_;
};

/// Reads a text line by line.
class Lines {
public:
    explicit Lines(std::string_view text) : text_(text) {}

    /// Returns the next line with its '\n'; empty at the end.
    std::string_view next() {
        const auto end = text_.find('\n', at_);
        const auto line = text_.substr(at_, end == std::string_view::npos ? end : end + 1 - at_);
        at_ += line.size();
        if (!line.empty()) ++line_;
        return line;
    }
    void skip_to(std::size_t line) {
        while (line_ < line && !next().empty()) {
        }
    }
    std::size_t line() const noexcept { return line_; }

private:
    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t line_ = 0;
};

Ids number_lines(std::string_view text, std::unordered_map<std::string_view, std::uint32_t>& ids) {
    Ids numbers;
    Lines lines(text);
    for (auto line = lines.next(); !line.empty(); line = lines.next())
        numbers.push_back(ids.emplace(line, static_cast<std::uint32_t>(ids.size())).first->second);
    return numbers;
}

/// Returns the length of the common lines at the beginning, in bytes.
std::size_t common_head(std::string_view a, std::string_view b) {
    const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    const auto size = static_cast<std::size_t>(differ - a.begin());
    if (size == a.size() && size == b.size()) return size;
    const auto end = a.substr(0, size).rfind('\n');
    return end == std::string_view::npos ? 0 : end + 1;
}

/// Returns the length of the common lines at the end, in bytes.
std::size_t common_tail(std::string_view a, std::string_view b) {
    std::size_t size = 0;
    while (size < a.size() && size < b.size() && a[a.size() - 1 - size] == b[b.size() - 1 - size])
        ++size;
    // A common tail begins after a '\n' in both texts.
    const auto begins_line = [&](std::string_view text) {
        return size == text.size() || text[text.size() - 1 - size] == '\n';
    };
    if (begins_line(a) && begins_line(b)) return size;
    const auto end = a.substr(a.size() - size).find('\n');
    return end == std::string_view::npos ? 0 : size - end - 1;
}

std::vector<Block> find_blocks(std::string_view before, std::string_view after,
                               const DiffLimits& limits) {
    const std::size_t head = common_head(before, after);
    const std::size_t first = count_lines(before.substr(0, head));
    before.remove_prefix(head);
    after.remove_prefix(head);
    const std::size_t tail = common_tail(before, after);
    before.remove_suffix(tail);
    after.remove_suffix(tail);
    const std::size_t removed = count_lines(before);
    const std::size_t added = count_lines(after);
    std::vector<Block> blocks;
    if (removed + added > limits.max_compared_lines) {
        blocks.push_back(Block{0, removed, 0, added});
    } else {
        std::unordered_map<std::string_view, std::uint32_t> ids;
        const Ids old_ids = number_lines(before, ids);
        const Ids new_ids = number_lines(after, ids);
        blocks = Comparison(old_ids, new_ids, limits.max_work).blocks();
    }
    for (Block& block : blocks) {
        block.old_line += first;
        block.new_line += first;
    }
    return blocks;
}

/// Writes blocks as hunks.
class HunkWriter {
public:
    HunkWriter(std::string_view before, std::string_view after, const DiffLimits& limits,
               LineDiff& diff)
        : before_(before),
          after_(after),
          old_count_(count_lines(before)),
          limits_(limits),
          diff_(diff) {}

    void write(const std::vector<Block>& blocks) {
        for (std::size_t first = 0; first < blocks.size();) {
            std::size_t last = first;
            while (last + 1 < blocks.size() &&
                   blocks[last + 1].old_line - (blocks[last].old_line + blocks[last].removed) <=
                       2 * limits_.context) {
                ++last;
            }
            write_hunk(blocks, first, last);
            first = last + 1;
        }
    }

private:
    bool full() const {
        return lines_ >= limits_.max_lines || diff_.text.size() >= limits_.max_bytes;
    }

    void write_hunk(const std::vector<Block>& blocks, std::size_t first, std::size_t last) {
        const Block& end = blocks[last];
        const std::size_t before = std::min(limits_.context, blocks[first].old_line);
        const std::size_t after =
            std::min(limits_.context, old_count_ - (end.old_line + end.removed));
        const std::size_t old_begin = blocks[first].old_line - before;
        const std::size_t new_begin = blocks[first].new_line - before;
        if (!full()) {
            diff_.text += "@@ -" + range(old_begin, end.old_line + end.removed + after) + " +" +
                          range(new_begin, end.new_line + end.added + after) + " @@\n";
            ++lines_;
            before_.skip_to(old_begin);
            after_.skip_to(new_begin);
        }
        for (std::size_t i = first; i <= last; ++i) {
            write_context(blocks[i].old_line);
            write_lines(before_, '-', blocks[i].removed);
            write_lines(after_, '+', blocks[i].added);
        }
        write_context(end.old_line + end.removed + after);
    }

    /// Returns the range of a hunk, e.g. "5,3": the first line, counted from 1, and the number of lines.
    static std::string range(std::size_t begin, std::size_t end) {
        const std::size_t count = end - begin;
        return std::to_string(count == 0 ? begin : begin + 1) + "," + std::to_string(count);
    }

    void write_context(std::size_t until) {
        while (!full() && before_.line() < until) {
            add(' ', before_.next());
            after_.next();
        }
    }

    void write_lines(Lines& from, char sign, std::size_t count) {
        (sign == '-' ? diff_.removed : diff_.added) += count;
        for (std::size_t i = 0; i < count; ++i) {
            if (full()) {
                diff_.hidden += count - i;
                return;
            }
            add(sign, from.next());
        }
    }

    void add(char sign, std::string_view line) {
        const bool whole = line.ends_with('\n');
        if (whole) line.remove_suffix(1);
        const std::string_view shown = cut_text(line, limits_.max_line_bytes);
        diff_.text += sign;
        diff_.text += shown;
        if (shown.size() < line.size()) {
            diff_.text += "…";
            diff_.cut_lines = true;
        }
        diff_.text += '\n';
        if (!whole) diff_.text += "\\ No newline at end of file\n";
        ++lines_;
    }

    Lines before_;
    Lines after_;
    const std::size_t old_count_;
    const DiffLimits& limits_;
    LineDiff& diff_;
    std::size_t lines_ = 0;
};

}  // namespace

std::size_t count_lines(std::string_view text) {
    auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    return !text.empty() && text.back() != '\n' ? lines + 1 : lines;
}

LineDiff diff_lines(std::string_view before, std::string_view after, const DiffLimits& limits) {
    LineDiff diff;
    HunkWriter(before, after, limits, diff).write(find_blocks(before, after, limits));
    return diff;
}

}  // namespace cubepi::detail
