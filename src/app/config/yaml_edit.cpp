#include "config_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include <cubepi/core/error.hpp>

#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

Json json_of_scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return Json(text);  // it is quoted
    if (text == "true" || text == "false") return Json(text == "true");
    std::int64_t whole = 0;
    if (YAML::convert<std::int64_t>::decode(node, whole)) return Json(whole);
    double number = 0;
    if (YAML::convert<double>::decode(node, number)) return Json(number);
    return Json(text);
}

/// Counts nodes of a text whose aliases may be recursive or expand exponentially.
class Reader {
public:
    Json read(const YAML::Node& node, int depth = 0) {
        if (depth > deepest || ++nodes_ > most_nodes)
            throw YAML::Exception(node.Mark(), "aliases (*) make this endless or too large");
        switch (node.Type()) {
            case YAML::NodeType::Map: {
                JsonObject object;
                for (const auto& entry : node) {
                    const std::string key = entry.first.as<std::string>();
                    if (object.contains(key))
                        throw YAML::Exception(entry.first.Mark(),
                                              "the key '" + key + "' occurs twice");
                    object[key] = read(entry.second, depth + 1);
                }
                return object;
            }
            case YAML::NodeType::Sequence: {
                JsonArray array;
                for (const YAML::Node& item : node) array.push_back(read(item, depth + 1));
                return array;
            }
            case YAML::NodeType::Scalar: break;
            case YAML::NodeType::Null:
            case YAML::NodeType::Undefined: return nullptr;
        }
        return json_of_scalar(node);
    }

private:
    static constexpr int deepest = 100;
    static constexpr int most_nodes = 100'000;
    int nodes_ = 0;
};

Json json_of(const YAML::Node& node) { return Reader().read(node); }

YAML::Node load_map(const std::string& text) {
    YAML::Node node = YAML::Load(text);
    if (!node || node.IsNull()) return YAML::Node(YAML::NodeType::Map);
    if (!node.IsMap()) throw Error(ErrorCode::parse, "expected keys and values");
    return node;
}

bool may_stand_plain(const std::string& text) {
    return !text.empty() && text.find_first_of("\"'\\#&*!|>%@`{}[],") == std::string::npos &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20; });
}

/// Returns whether a file with that text has these values.
bool parses_as(const std::string& text, const JsonObject& wanted) {
    try {
        return yaml_values(text) == wanted;
    } catch (const YAML::Exception&) {
        return false;
    } catch (const Error&) {
        return false;  // no map
    }
}

/// A value as written after "key: "; quoted only where it would otherwise be misread.
std::string value_text(const Json& value) {
    std::string quoted = json_text(value);
    if (!value.is_string()) return quoted;
    const std::string text(value.get_string());
    return may_stand_plain(text) && parses_as("k: " + text, {{"k", text}}) ? text : quoted;
}

/// A key as written at the beginning of a line.
std::string key_text(const std::string& key) {
    std::string quoted = json_text(Json(key));
    return may_stand_plain(key) && parses_as(key + ": 1", {{key, 1}}) ? key : quoted;
}

void emit(std::vector<std::string>& lines, const std::string& key, const Json& value,
          std::size_t indent) {
    const std::string head = std::string(indent, ' ') + key_text(key) + ":";
    const JsonObject* object = value.if_object();
    if (object && !object->empty()) {
        lines.push_back(head);
        for (const auto& [name, member] : *object) emit(lines, name, member, indent + 2);
        return;
    }
    lines.push_back(head + " " + value_text(value));
}

using Lines = std::vector<std::string>;

Lines split(const std::string& text) {
    Lines lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
    return lines;
}

bool is_blank_or_comment(const std::string& line) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    return begin == std::string::npos || line[begin] == '#';
}

bool is_comment(const std::string& line) {
    const std::size_t begin = line.find_first_not_of(" \t");
    return begin != std::string::npos && line[begin] == '#';
}

/// Lines of the text that are replaced by others. Only for text with one key per line; `possible` becomes false
/// otherwise.
class LineEdits {
public:
    explicit LineEdits(Lines lines) : lines_(std::move(lines)) {}

    void change_map(const YAML::Node& node, const JsonObject& before, const JsonObject& wanted,
                    std::size_t end) {
        const std::vector<Place> places = places_of(node, end);
        if (!possible) return;
        for (const Place& place : places) {
            const Json* value = wanted.if_contains(place.key);
            if (!value) {
                replace(place.begin, place.end, comments_of(place, before.at(place.key)));
            } else if (*value != before.at(place.key)) {
                change_value(place, node[place.key], before.at(place.key), *value);
            }
        }
        Lines added;
        const std::size_t column = places.empty() ? 0 : places.front().column;
        for (const auto& [key, value] : wanted) {
            if (!before.contains(key)) emit(added, key, value, column);
        }
        const std::size_t last = places.empty() ? end : places.back().end;
        if (!added.empty()) replace(last, last, std::move(added));
    }

    std::string text() {
        // From the end; of two edits at one place the later one comes after the other.
        std::sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) {
            return a.begin != b.begin ? a.begin > b.begin : a.order > b.order;
        });
        for (Edit& edit : edits_) {
            const auto at = lines_.begin() + static_cast<std::ptrdiff_t>(edit.begin);
            const auto behind = lines_.begin() + static_cast<std::ptrdiff_t>(edit.end);
            lines_.insert(lines_.erase(at, behind), edit.lines.begin(), edit.lines.end());
        }
        std::string text;
        for (const std::string& line : lines_) text += line + "\n";
        return text;
    }

    bool possible = true;

private:
    struct Place {
        std::string key;
        std::size_t begin;
        std::size_t end;  // after its last line
        std::size_t column;
    };
    struct Edit {
        std::size_t order;
        std::size_t begin;
        std::size_t end;
        Lines lines;
    };

    std::vector<Place> places_of(const YAML::Node& node, std::size_t end) {
        std::vector<Place> places;
        for (const auto& entry : node) {
            const YAML::Mark mark = entry.first.Mark();
            const auto line = static_cast<std::size_t>(mark.line);
            const auto column = static_cast<std::size_t>(mark.column);
            if (!places.empty()) {
                possible =
                    possible && line > places.back().begin && column == places.front().column;
                places.back().end = line;
            }
            places.push_back(Place{entry.first.as<std::string>(), line, end, column});
        }
        possible = possible && node.Style() != YAML::EmitterStyle::Flow;
        if (!possible) return places;
        // Comments before the next key belong to that key.
        for (Place& place : places) {
            while (place.end > place.begin + 1 && is_blank_or_comment(lines_.at(place.end - 1)))
                --place.end;
        }
        return places;
    }

    void change_value(const Place& place, const YAML::Node& node, const Json& before,
                      const Json& wanted) {
        const bool block = node.Style() == YAML::EmitterStyle::Block;
        if (block && before.is_object() && wanted.is_object() && !before.get_object().empty())
            return change_map(node, before.get_object(), wanted.get_object(), place.end);
        if (block && before.is_array() && wanted.is_array() &&
            append_items(place, node, before.get_array(), wanted.get_array()))
            return;
        Lines lines;
        emit(lines, place.key, wanted, place.column);
        if (lines.size() == 1 && place.end == place.begin + 1) {
            lines.front() += comment_behind(place, before);
        } else {
            const Lines comments = comments_of(place, before);
            lines.insert(lines.begin(), comments.begin(), comments.end());
        }
        replace(place.begin, place.end, std::move(lines));
    }

    bool append_items(const Place& place, const YAML::Node& node, const JsonArray& before,
                      const JsonArray& wanted) {
        if (before.empty() || wanted.size() < before.size()) return false;
        if (!std::equal(before.begin(), before.end(), wanted.begin())) return false;
        const std::string& first = lines_.at(static_cast<std::size_t>(node[0].Mark().line));
        const std::size_t dash = first.find_first_not_of(' ');
        if (dash == std::string::npos || first[dash] != '-') return false;
        Lines lines;
        for (std::size_t i = before.size(); i < wanted.size(); ++i)
            lines.push_back(std::string(dash, ' ') + "- " + value_text(wanted[i]));
        replace(place.end, place.end, std::move(lines));
        return true;
    }

    /// The comments in the lines of a value that is replaced or removed, a line each.
    Lines comments_of(const Place& place, const Json& before) const {
        Lines comments;
        if (place.end == place.begin + 1) {
            const std::string comment = comment_behind(place, before);
            const std::size_t sign = comment.find('#');
            if (sign != std::string::npos)
                comments.push_back(std::string(place.column, ' ') + comment.substr(sign));
        }
        if (before.is_string()) return comments;  // a block of text may contain '#'
        for (std::size_t i = place.begin; i < place.end; ++i) {
            if (is_comment(lines_.at(i))) comments.push_back(lines_.at(i));
        }
        return comments;
    }

    /// The comment at the end of a line that holds a key and its value.
    std::string comment_behind(const Place& place, const Json& before) const {
        const std::string& line = lines_.at(place.begin);
        for (std::size_t at = line.find(" #"); at != std::string::npos;
             at = line.find(" #", at + 1)) {
            const std::size_t end = line.find_last_not_of(' ', at);
            // Otherwise the character is inside quoted text.
            if (parses_as(line.substr(0, end + 1), {{place.key, before}}))
                return line.substr(end + 1);
        }
        return {};
    }

    void replace(std::size_t begin, std::size_t end, Lines lines) {
        edits_.push_back(Edit{edits_.size(), begin, end, std::move(lines)});
    }

    Lines lines_;
    std::vector<Edit> edits_;
};

std::optional<std::string> edit_lines(const std::string& text, const YAML::Node& node,
                                      const JsonObject& wanted) {
    Lines lines = split(text);
    const std::size_t count = lines.size();
    LineEdits edits(std::move(lines));
    try {
        edits.change_map(node, json_of(node).get_object(), wanted, count);
        if (!edits.possible) return std::nullopt;
        std::string edited = edits.text();
        if (parses_as(edited, wanted)) return edited;
    } catch (const YAML::Exception&) {
        return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace

JsonObject yaml_values(const std::string& text) { return json_of(load_map(text)).get_object(); }

std::string edit_yaml(const std::string& text, const JsonObject& wanted) {
    const YAML::Node node = load_map(text);
    if (json_of(node).get_object() == wanted) return text;
    if (std::optional<std::string> edited = edit_lines(text, node, wanted)) return *edited;
    Lines lines;
    for (const auto& [key, value] : wanted) emit(lines, key, value, 0);
    std::string fresh;
    for (const std::string& line : split(text)) {
        if (is_comment(line)) fresh += line + "\n";
    }
    for (const std::string& line : lines) fresh += line + "\n";
    if (!parses_as(fresh, wanted))
        throw Error(ErrorCode::parse,
                    "a key is longer than 1,000 characters, which YAML does not allow");
    return fresh;
}

}  // namespace cubepi::app
