#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// A template of URIs with expressions of one variable (RFC 6570): "{name}" and "{+name}".
class UriTemplate {
public:
    /// Throws Error(invalid_argument) for other expressions, for two variables without a text between them, and for repeated names.
    explicit UriTemplate(std::string_view text);

    /// Returns the variables of a URI, decoded; nothing if it does not match. A variable followed by a text ends at the first
    /// occurrence of the text.
    std::optional<std::map<std::string, std::string>> match(std::string_view uri) const;
    const std::vector<std::string>& variables() const noexcept { return names_; }

private:
    struct Part {
        std::string text = {};  ///< before the variable
        std::string name = {};  ///< empty: the end of the template
        bool takes_slashes = false;
    };
    std::vector<Part> parts_;
    std::vector<std::string> names_;
};

}  // namespace cubepi::detail
