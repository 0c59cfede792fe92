#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/tracing/otel_environment.hpp>

namespace cubepi {

/// Reads variables from a map.
inline OtelEnvironment otel_environment(std::map<std::string, std::string, std::less<>> variables) {
    return read_otel_environment([&](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    });
}

inline std::vector<std::string> texts(const std::vector<Notice>& notices) {
    std::vector<std::string> all;
    for (const Notice& notice : notices) all.push_back(notice.text);
    return all;
}

using Texts = std::vector<std::string>;

}  // namespace cubepi
