#include <cubepi/net/utf8.hpp>

#include <algorithm>
#include <cstring>

namespace cubepi {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// A sequence at the start of a text: how many of its bytes are valid, and its full length (0: no sequence starts with
/// this byte).
struct Sequence {
    std::size_t have;
    std::size_t want;
};

Sequence sequence_at(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return {1, 1};
    std::size_t want = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
        want = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        want = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        want = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return {1, 0};
    }
    std::size_t have = 1;
    while (have < want && have < text.size() && byte(have) >= low && byte(have) <= high) {
        ++have;
        low = 0x80;
        high = 0xBF;
    }
    return {have, want};
}

std::size_t ascii_run(std::string_view text) noexcept {
    std::size_t i = 0;
    for (; i + 8 <= text.size(); i += 8) {
        unsigned long long word = 0;
        std::memcpy(&word, text.data() + i, 8);
        if ((word & 0x8080808080808080ULL) != 0) break;
    }
    while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
    return i;
}

/// Appends well-formed text; stops at a sequence that is truncated by the end and returns its position.
std::size_t append_clean(std::string_view text, std::string& out) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t plain = ascii_run(text.substr(at));
        out.append(text, at, plain);
        at += plain;
        if (at == text.size()) break;
        const Sequence sequence = sequence_at(text.substr(at));
        if (sequence.have == sequence.want) {
            out.append(text, at, sequence.have);
        } else if (sequence.want != 0 && at + sequence.have == text.size()) {
            return at;
        } else {
            out.append(replacement);
        }
        at += sequence.have;
    }
    return at;
}

}  // namespace

std::size_t complete_utf8_prefix(std::string_view text) noexcept {
    const std::size_t look = std::min<std::size_t>(text.size(), 3);
    for (std::size_t back = 1; back <= look; ++back) {
        const std::size_t at = text.size() - back;
        const auto byte = static_cast<unsigned char>(text[at]);
        if ((byte & 0xC0) == 0x80) continue;
        const Sequence sequence = sequence_at(text.substr(at));
        return sequence.have < sequence.want && sequence.have == back ? at : text.size();
    }
    return text.size();
}

bool is_utf8(std::string_view text) noexcept {
    std::size_t at = 0;
    while (true) {
        at += ascii_run(text.substr(at));
        if (at == text.size()) return true;
        const Sequence sequence = sequence_at(text.substr(at));
        if (sequence.have != sequence.want) return false;
        at += sequence.have;
    }
}

std::string replace_broken_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    if (append_clean(text, out) < text.size()) out.append(replacement);
    return out;
}

void Utf8Splitter::push(std::string_view bytes, std::string& out) {
    if (held_.empty()) {
        held_.assign(bytes.substr(append_clean(bytes, out)));
        return;
    }
    held_.append(bytes);
    held_.erase(0, append_clean(held_, out));
}

void Utf8Splitter::finish(std::string& out) {
    if (!held_.empty()) out.append(replacement);
    held_.clear();
}

}  // namespace cubepi
