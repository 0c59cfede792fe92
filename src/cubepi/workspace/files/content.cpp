#include <cubepi/workspace/files/content.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/utf8.hpp>

namespace cubepi::detail {

namespace {

bool is_space(char c) noexcept {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}
bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

template <std::size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::pair<std::string_view, std::uint32_t>, 30> named = {{
    {"amp", '&'},      {"lt", '<'},        {"gt", '>'},       {"quot", '"'},     {"apos", '\''},
    {"nbsp", ' '},     {"copy", 0xA9},     {"reg", 0xAE},     {"deg", 0xB0},     {"middot", 0xB7},
    {"laquo", 0xAB},   {"raquo", 0xBB},    {"times", 0xD7},   {"auml", 0xE4},    {"ouml", 0xF6},
    {"uuml", 0xFC},    {"szlig", 0xDF},    {"eacute", 0xE9},  {"egrave", 0xE8},  {"ndash", 0x2013},
    {"mdash", 0x2014}, {"lsquo", 0x2018},  {"rsquo", 0x2019}, {"ldquo", 0x201C}, {"rdquo", 0x201D},
    {"bull", 0x2022},  {"hellip", 0x2026}, {"euro", 0x20AC},  {"trade", 0x2122}, {"rarr", 0x2192},
}};

/// Returns the character of the entity `name` (without & and ;), or 0 if the name is unknown.
std::uint32_t entity(std::string_view name) {
    if (!name.starts_with('#')) {
        const auto found = std::find_if(named.begin(), named.end(),
                                        [&](const auto& pair) { return pair.first == name; });
        return found == named.end() ? 0 : found->second;
    }
    name.remove_prefix(1);
    const bool hex = name.starts_with('x') || name.starts_with('X');
    if (hex) name.remove_prefix(1);
    std::uint32_t code = 0;
    if (name.empty() || name.size() > 8) return 0;
    for (const char c : name) {
        unsigned digit = 99;
        if (c >= '0' && c <= '9')
            digit = static_cast<unsigned>(c - '0');
        else if (hex && is_letter(c))
            digit = static_cast<unsigned>((c | 32) - 'a') + 10;
        if (digit >= (hex ? 16u : 10u)) return 0;
        code = std::min<std::uint32_t>(code * (hex ? 16 : 10) + digit, 0x110000);
    }
    const bool is_valid = code != 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    return is_valid ? code : 0xFFFD;
}

struct Tag {
    std::string name;
    bool closing = false;
    std::string href;
};

/// Collects text with normalized white space: runs of white space become one space, blocks start on new lines.
class Writer {
public:
    void text(std::string_view piece) {
        for (const char c : piece) {
            if (pre > 0) {
                if (c == '\r') continue;
                flush(0);
                out_ += c;
            } else if (is_space(c)) {
                space_ = true;
            } else {
                flush(space_ ? 1 : 0);
                out_ += c;
            }
        }
    }
    void mark(std::string_view piece) {
        flush(space_ ? 1 : 0);
        out_ += piece;
    }
    void lines(int count) { lines_ = std::max(lines_, count); }
    std::string take() {
        while (!out_.empty() && is_space(out_.back())) out_.pop_back();
        return std::move(out_);
    }
    std::size_t size() const noexcept { return out_.size(); }
    int pre = 0;

private:
    void flush(int spaces) {
        if (lines_ > 0) {
            while (!out_.empty() && out_.back() == ' ') out_.pop_back();
            if (!out_.empty()) out_.append(static_cast<std::size_t>(lines_), '\n');
        } else if (spaces > 0 && !out_.empty() && !is_space(out_.back())) {
            out_ += ' ';
        }
        lines_ = 0;
        space_ = false;
    }

    std::string out_;
    bool space_ = false;
    int lines_ = 0;
};

class Page {
public:
    Page(std::string_view html, std::string& title) : html_(html), title_(title) {}

    std::string read() {
        while (at_ < html_.size()) {
            const auto open = html_.find('<', at_);
            writer_.text(decode_entities(html_.substr(at_, open - at_)));
            if (open == std::string_view::npos) break;
            at_ = open;
            if (!skip_special() && !read_tag()) {
                writer_.text("<");
                ++at_;
            }
        }
        return writer_.take();
    }

private:
    bool skip_special() {
        if (html_.substr(at_, 4) == "<!--") {
            go_behind("-->");
            return true;
        }
        if (html_.substr(at_, 2) == "<!" || html_.substr(at_, 2) == "<?") {
            go_behind(">");
            return true;
        }
        return false;
    }

    void go_behind(std::string_view end) {
        const auto found = html_.find(end, at_);
        at_ = found == std::string_view::npos ? html_.size() : found + end.size();
    }

    bool read_tag() {
        std::size_t i = at_ + 1;
        Tag tag;
        if (i < html_.size() && html_[i] == '/') {
            tag.closing = true;
            ++i;
        }
        if (i >= html_.size() || !is_letter(html_[i])) return false;
        const std::size_t begin = i;
        while (i < html_.size() && !is_space(html_[i]) && html_[i] != '>' && html_[i] != '/') ++i;
        tag.name = lower_case(html_.substr(begin, i - begin));
        at_ = i;
        read_attributes(tag);
        apply(tag);
        return true;
    }

    void read_attributes(Tag& tag) {
        while (at_ < html_.size() && html_[at_] != '>') {
            if (is_space(html_[at_]) || html_[at_] == '/') {
                ++at_;
                continue;
            }
            const std::size_t begin = at_;
            while (at_ < html_.size() && !is_space(html_[at_]) && html_[at_] != '=' &&
                   html_[at_] != '>')
                ++at_;
            const auto name = html_.substr(begin, at_ - begin);
            while (at_ < html_.size() && is_space(html_[at_])) ++at_;
            if (at_ >= html_.size() || html_[at_] != '=') {
                if (name.empty()) ++at_;
                continue;
            }
            ++at_;
            while (at_ < html_.size() && is_space(html_[at_])) ++at_;
            const auto value = read_value();
            if (lower_case(name) == "href") tag.href = decode_entities(value);
        }
        if (at_ < html_.size()) ++at_;
    }

    std::string_view read_value() {
        if (at_ >= html_.size()) return {};
        const char quote = html_[at_];
        if (quote == '"' || quote == '\'') {
            const auto end = std::min(html_.find(quote, at_ + 1), html_.size());
            const auto value = html_.substr(at_ + 1, end - at_ - 1);
            at_ = std::min(end + 1, html_.size());
            return value;
        }
        const std::size_t begin = at_;
        while (at_ < html_.size() && !is_space(html_[at_]) && html_[at_] != '>') ++at_;
        return html_.substr(begin, at_ - begin);
    }

    /// Returns the raw content up to the closing tag, and moves past that tag.
    std::string_view skip_element(const std::string& name) {
        const std::size_t begin = at_;
        for (;;) {
            const auto close = html_.find("</", at_);
            if (close == std::string_view::npos) {
                at_ = html_.size();
                return html_.substr(begin);
            }
            at_ = close + 2;
            if (lower_case(html_.substr(at_, name.size())) != name) continue;
            go_behind(">");
            return html_.substr(begin, close - begin);
        }
    }

    void apply(const Tag& tag) {
        static constexpr std::array<std::string_view, 7> silent = {
            "script", "style", "noscript", "svg", "template", "iframe", "textarea"};
        static constexpr std::array<std::string_view, 22> blocks = {
            "p",     "div",  "section",  "article", "header",  "footer", "main",       "nav",
            "aside", "ul",   "ol",       "dl",      "table",   "form",   "blockquote", "figure",
            "body",  "html", "fieldset", "hr",      "details", "address"};
        static constexpr std::array<std::string_view, 6> rows = {"tr",     "dt",         "dd",
                                                                 "option", "figcaption", "summary"};
        const std::string& name = tag.name;
        if (!tag.closing && is_one_of(name, silent)) {
            skip_element(name);
        } else if (!tag.closing && name == "title") {
            Writer words;
            words.text(decode_entities(skip_element(name)));
            if (title_.empty()) title_ = words.take();
        } else if (is_one_of(name, blocks)) {
            writer_.lines(name == "div" ? 1 : 2);
        } else if (name == "br" || is_one_of(name, rows)) {
            writer_.lines(1);
        } else if (name.size() == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6') {
            writer_.lines(2);
            if (!tag.closing)
                writer_.mark(std::string(static_cast<std::size_t>(name[1] - '0'), '#') + " ");
        } else if (name == "li") {
            writer_.lines(1);
            if (!tag.closing) writer_.mark("- ");
        } else if ((name == "td" || name == "th") && tag.closing) {
            writer_.mark(" | ");
        } else if (name == "pre") {
            writer_.lines(2);
            writer_.pre = std::max(0, writer_.pre + (tag.closing ? -1 : 1));
        } else if (name == "a") {
            apply_link(tag);
        }
    }

    void apply_link(const Tag& tag) {
        if (!tag.closing) {
            link_ = tag.href.starts_with("http://") || tag.href.starts_with("https://")
                        ? tag.href
                        : std::string();
            link_begin_ = writer_.size();
        } else if (!link_.empty()) {
            if (writer_.size() > link_begin_) writer_.mark(" (" + link_ + ")");
            link_.clear();
        }
    }

    const std::string_view html_;
    std::string& title_;
    std::size_t at_ = 0;
    Writer writer_;
    std::string link_;
    std::size_t link_begin_ = 0;
};

}  // namespace

using namespace std::string_view_literals;

std::string_view image_type(std::string_view bytes) noexcept {
    if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv)) return "image/png";
    if (bytes.starts_with("\xff\xd8\xff"sv)) return "image/jpeg";
    if (bytes.starts_with("GIF87a"sv) || bytes.starts_with("GIF89a"sv)) return "image/gif";
    if (bytes.starts_with("RIFF"sv) && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP"sv)
        return "image/webp";
    return {};
}

namespace {

struct ImageSize {
    std::uint64_t width = 0;
    std::uint64_t height = 0;
};

/// Returns the number at `at`; 0 beyond the end.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t count,
                        bool big_endian) {
    if (at > bytes.size() || bytes.size() - at < count) return 0;
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t next = big_endian ? at + i : at + count - 1 - i;
        number = number << 8 | static_cast<unsigned char>(bytes[next]);
    }
    return number;
}

/// Returns the size in the first frame header, which follows segments with their lengths.
ImageSize jpeg_size(std::string_view bytes) {
    for (std::size_t at = 2; at + 9 <= bytes.size();) {
        const std::uint64_t marker = number_at(bytes, at, 2, true);
        const bool frame = marker >= 0xffc0 && marker <= 0xffcf && marker != 0xffc4 &&
                           marker != 0xffc8 && marker != 0xffcc;
        if (frame) return {number_at(bytes, at + 7, 2, true), number_at(bytes, at + 5, 2, true)};
        if (marker < 0xff01) return {};
        at += marker == 0xffff ? 1 : 2 + number_at(bytes, at + 2, 2, true);
    }
    return {};
}

/// developers.google.com/speed/webp/docs/riff_container
ImageSize webp_size(std::string_view bytes) {
    const std::string_view form = bytes.substr(0, 16).substr(12);
    if (form == "VP8X"sv)
        return {number_at(bytes, 24, 3, false) + 1, number_at(bytes, 27, 3, false) + 1};
    if (form == "VP8 "sv)
        return {number_at(bytes, 26, 2, false) & 0x3fff, number_at(bytes, 28, 2, false) & 0x3fff};
    const std::uint64_t bits = number_at(bytes, 21, 4, false);
    return {(bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1};
}

/// Returns the size of an image that image_type() detects; zero if its first bytes do not contain it.
ImageSize image_size(std::string_view bytes) {
    const std::string_view type = image_type(bytes);
    if (type == "image/png") return {number_at(bytes, 16, 4, true), number_at(bytes, 20, 4, true)};
    if (type == "image/gif") return {number_at(bytes, 6, 2, false), number_at(bytes, 8, 2, false)};
    return type == "image/jpeg" ? jpeg_size(bytes) : webp_size(bytes);
}

}  // namespace

std::string image_problem(std::string_view bytes, std::uint64_t size, std::uint64_t limit) {
    constexpr std::uint64_t max_pixels = 8000;
    if (size > limit) {
        return "The image has " + std::to_string(size) +
               " bytes, which is too large to show (the limit is " + std::to_string(limit) +
               "). Create a smaller copy first.";
    }
    const ImageSize pixels = image_size(bytes);
    if (pixels.width <= max_pixels && pixels.height <= max_pixels) return {};
    return "The image has " + std::to_string(pixels.width) + " x " + std::to_string(pixels.height) +
           " pixels, which is too large to show (the limit is " + std::to_string(max_pixels) +
           " in each dimension). Create a smaller copy first.";
}

bool looks_binary(std::string_view bytes) noexcept {
    bytes = bytes.substr(0, 8192);
    return bytes.find('\0') != std::string_view::npos || bytes.starts_with("%PDF-"sv);
}

std::string one_line_path(std::string_view path) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string line = "\"";
    bool is_plain = true;
    for (std::size_t i = 0; i < path.size(); ++i) {
        const auto byte = static_cast<unsigned char>(path[i]);
        const std::string_view rest = path.substr(i);
        const auto next = static_cast<unsigned char>(rest.size() > 1 ? rest[1] : 0);
        const bool is_c1 = byte == 0xC2 && next >= 0x80 && next <= 0x9F;
        if (byte < 0x20 || byte == 0x7F || is_c1) {
            const unsigned code = is_c1 ? next : byte;
            line += std::string("\\u00") + digits[code >> 4] + digits[code & 15];
            i += is_c1 ? 1 : 0;
            is_plain = false;
        } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
            line += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
            i += 2;
            is_plain = false;
        } else {
            if (byte == '"' || byte == '\\') line += '\\';
            line += path[i];
        }
    }
    return is_plain ? std::string(path) : line + "\"";
}

std::string_view cut_text(std::string_view text, std::size_t bytes) noexcept {
    text = text.substr(0, bytes);
    return text.substr(0, complete_utf8_prefix(text));
}

std::string decode_entities(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '&') {
            const auto end = text.substr(i, 12).find(';');
            const std::uint32_t code =
                end == std::string_view::npos ? 0 : entity(text.substr(i + 1, end - 1));
            if (code != 0) {
                append_utf8(out, code);
                i += end;
                continue;
            }
        }
        out += text[i];
    }
    return out;
}

std::string html_to_text(std::string_view html, std::string& title) {
    return Page(html, title).read();
}

}  // namespace cubepi::detail
