#include "keys.hpp"

#include <array>
#include <utility>

#include "terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view paste_end = "\x1b[201~";

struct Sequence {
    std::string_view bytes;  // after the Esc
    KeyCode code;
};

constexpr std::array sequences{
    Sequence{"[A", KeyCode::up},
    Sequence{"OA", KeyCode::up},
    Sequence{"[B", KeyCode::down},
    Sequence{"OB", KeyCode::down},
    Sequence{"[C", KeyCode::right},
    Sequence{"OC", KeyCode::right},
    Sequence{"[D", KeyCode::left},
    Sequence{"OD", KeyCode::left},
    Sequence{"[H", KeyCode::home},
    Sequence{"OH", KeyCode::home},
    Sequence{"[F", KeyCode::end},
    Sequence{"OF", KeyCode::end},
    Sequence{"[1~", KeyCode::home},
    Sequence{"[7~", KeyCode::home},
    Sequence{"[4~", KeyCode::end},
    Sequence{"[8~", KeyCode::end},
    Sequence{"[3~", KeyCode::erase},
    Sequence{"[1;5C", KeyCode::word_right},
    Sequence{"[1;3C", KeyCode::word_right},
    Sequence{"[1;5D", KeyCode::word_left},
    Sequence{"[1;3D", KeyCode::word_left},
    Sequence{"f", KeyCode::word_right},
    Sequence{"b", KeyCode::word_left},
    Sequence{"\r", KeyCode::new_line},
    Sequence{"\n", KeyCode::new_line},
    Sequence{"[13;2u", KeyCode::new_line},
    Sequence{"[13;5u", KeyCode::new_line},
    Sequence{"[27;2;13~", KeyCode::new_line},
    Sequence{"[27;5;13~", KeyCode::new_line},
    Sequence{"\x7f", KeyCode::erase_word},
    Sequence{"\x08", KeyCode::erase_word},
    Sequence{"d", KeyCode::erase_next_word},
    Sequence{"[3;5~", KeyCode::erase_next_word},
    Sequence{"[3;3~", KeyCode::erase_next_word},
    Sequence{"[5C", KeyCode::word_right},
    Sequence{"[5D", KeyCode::word_left},
    Sequence{"Oc", KeyCode::word_right},
    Sequence{"Od", KeyCode::word_left},
};

std::string with_line_feeds(std::string_view pasted) {
    std::string text;
    for (std::size_t i = 0; i < pasted.size(); ++i) {
        if (pasted[i] == '\r') {
            if (i + 1 < pasted.size() && pasted[i + 1] == '\n') continue;
            text += '\n';
        } else {
            text += pasted[i];
        }
    }
    return text;
}

Key key(KeyCode code, std::string text = {}) {
    Key result;
    result.code = code;
    result.text = std::move(text);
    return result;
}

}  // namespace

std::vector<Key> KeyDecoder::feed(std::string_view bytes) {
    held_ += bytes;
    std::vector<Key> keys;
    while (!held_.empty() && take(keys)) {
    }
    return keys;
}

std::vector<Key> KeyDecoder::flush() {
    std::vector<Key> keys;
    if (!waiting()) return keys;
    held_.clear();
    keys.push_back(key(KeyCode::escape));
    return keys;
}

/// Takes the first key; returns false if more bytes are needed.
bool KeyDecoder::take(std::vector<Key>& keys) {
    if (pasting_) return take_paste(keys);
    const char first = held_.front();
    if (first == '\x1b') return take_escape(keys);
    const auto byte = static_cast<unsigned char>(first);
    if (byte < 0x20 || byte == 0x7F) {
        take_control(first, keys);
        held_.erase(0, 1);
        return true;
    }
    const std::size_t length = character_length(byte);
    if (held_.size() < length) return false;
    if (byte < 0x80 || byte >= 0xC0) keys.push_back(key(KeyCode::text, held_.substr(0, length)));
    held_.erase(0, length);
    return true;
}

bool KeyDecoder::take_paste(std::vector<Key>& keys) {
    const std::size_t end = held_.find(paste_end);
    if (end == std::string::npos) return false;
    keys.push_back(key(KeyCode::paste, with_line_feeds(std::string_view(held_).substr(0, end))));
    held_.erase(0, end + paste_end.size());
    pasting_ = false;
    return true;
}

bool KeyDecoder::take_escape(std::vector<Key>& keys) {
    const std::string_view rest = std::string_view(held_).substr(1);
    if (rest.empty()) return false;
    if (rest.starts_with("[200~")) {
        held_.erase(0, 6);
        pasting_ = true;
        return true;
    }
    for (const Sequence& sequence : sequences) {
        if (!rest.starts_with(sequence.bytes)) continue;
        keys.push_back(key(sequence.code));
        held_.erase(0, 1 + sequence.bytes.size());
        return true;
    }
    if (rest.front() == '[') {
        // An unknown sequence ends with a letter or '~'.
        std::size_t end = 1;
        while (end < rest.size() && (rest[end] < '@' || rest[end] > '~')) ++end;
        if (end == rest.size() && rest.size() <= 32) return false;
        if (end == rest.size()) --end;
        held_.erase(0, end + 2);
        return true;
    }
    if (rest.front() == 'O') {
        if (rest.size() < 2) return false;
        held_.erase(0, 3);
        return true;
    }
    if (static_cast<unsigned char>(rest.front()) < 0x20) {
        // Ctrl-C right after an Esc is still Ctrl-C; a second Esc may begin a sequence.
        keys.push_back(key(KeyCode::escape));
        held_.erase(0, 1);
        return true;
    }
    // Alt and an unknown key.
    const std::size_t length = character_length(static_cast<unsigned char>(rest.front()));
    if (rest.size() < length) return false;
    held_.erase(0, 1 + length);
    return true;
}

void KeyDecoder::take_control(char byte, std::vector<Key>& keys) {
    switch (byte) {
        case '\r': return keys.push_back(key(KeyCode::enter));
        case '\n': return keys.push_back(key(KeyCode::new_line));
        case '\t': return keys.push_back(key(KeyCode::tab));
        case '\x7f':
        case '\x08': return keys.push_back(key(KeyCode::backspace));
        case '\x01': return keys.push_back(key(KeyCode::home));
        case '\x02': return keys.push_back(key(KeyCode::left));
        case '\x03': return keys.push_back(key(KeyCode::interrupt));
        case '\x04': return keys.push_back(key(KeyCode::end_of_input));
        case '\x05': return keys.push_back(key(KeyCode::end));
        case '\x06': return keys.push_back(key(KeyCode::right));
        case '\x07': return keys.push_back(key(KeyCode::cancel));
        case '\x0b': return keys.push_back(key(KeyCode::erase_to_end));
        case '\x0c': return keys.push_back(key(KeyCode::clear_screen));
        case '\x0e': return keys.push_back(key(KeyCode::down));
        case '\x0f': return keys.push_back(key(KeyCode::unfold));
        case '\x10': return keys.push_back(key(KeyCode::up));
        case '\x12': return keys.push_back(key(KeyCode::search));
        case '\x15': return keys.push_back(key(KeyCode::erase_to_start));
        case '\x17': return keys.push_back(key(KeyCode::erase_word));
        case '\x19': return keys.push_back(key(KeyCode::yank));
        case '\x1f': return keys.push_back(key(KeyCode::undo));
        case '\x1a': return keys.push_back(key(KeyCode::suspend));
        default: return;
    }
}

}  // namespace cubepi::app
