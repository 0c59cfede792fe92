#include <cubepi/mcp/server/uri_template.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/percent_decoded.hpp>

namespace cubepi::detail {

namespace {

bool is_name(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    });
}

}  // namespace

UriTemplate::UriTemplate(std::string_view text) {
    const std::string quoted = "'" + std::string(text) + "'";
    std::size_t position = 0;
    while (true) {
        const std::size_t open = text.find('{', position);
        Part part;
        part.text = text.substr(position, open - position);
        if (part.text.find('}') != std::string::npos)
            throw Error(ErrorCode::invalid_argument, quoted + " has a '}' without a '{'");
        if (open == std::string_view::npos) {
            parts_.push_back(std::move(part));
            return;
        }
        const std::size_t close = text.find('}', open);
        std::string_view name = text.substr(open + 1, close - open - 1);
        part.takes_slashes = name.starts_with('+');
        if (part.takes_slashes) name.remove_prefix(1);
        if (close == std::string_view::npos || !is_name(name))
            throw Error(ErrorCode::invalid_argument,
                        quoted + " is not a template with variables such as {name} or {+name}");
        if (std::ranges::find(names_, name) != names_.end())
            throw Error(ErrorCode::invalid_argument, quoted + " has a variable twice");
        if (part.text.empty() && !parts_.empty())
            throw Error(ErrorCode::invalid_argument,
                        quoted + " needs a text between two variables");
        part.name = name;
        names_.push_back(part.name);
        parts_.push_back(std::move(part));
        position = close + 1;
    }
}

std::optional<std::map<std::string, std::string>> UriTemplate::match(std::string_view uri) const {
    std::map<std::string, std::string> variables;
    if (!uri.starts_with(parts_.front().text)) return std::nullopt;
    uri.remove_prefix(parts_.front().text.size());
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
        const Part& part = parts_[i];
        const std::string& next = parts_[i + 1].text;
        const bool is_last = i + 2 == parts_.size();
        std::size_t size = 0;
        if (is_last) {
            // The text at the end of the template is the end of the URI.
            if (!uri.ends_with(next)) return std::nullopt;
            size = uri.size() - next.size();
        } else {
            size = uri.find(next, 1);
            if (size == std::string_view::npos) return std::nullopt;
        }
        const std::string_view value = uri.substr(0, size);
        if (value.empty()) return std::nullopt;
        if (!part.takes_slashes && value.find('/') != std::string_view::npos) return std::nullopt;
        std::optional<std::string> decoded = percent_decoded(value);
        if (!decoded) return std::nullopt;
        variables.emplace(part.name, std::move(*decoded));
        uri.remove_prefix(size + next.size());
    }
    if (!uri.empty()) return std::nullopt;
    return variables;
}

}  // namespace cubepi::detail
