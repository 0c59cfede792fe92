#include <bub/builtin/plugin/command_line.hpp>

#include <algorithm>
#include <utility>

#include <bub/builtin/tools/tool_names.hpp>
#include <cubepi/core/error.hpp>

namespace bub::detail {

using cubepi::AgentTool;
using cubepi::ErrorCode;
using cubepi::Json;
using cubepi::JsonObject;

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    std::string word;
    bool open = false;
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote) {
            if (c == quote) {
                quote = 0;
            } else if (c == '\\' && quote == '"' && i + 1 < line.size()) {
                word += line[++i];
            } else {
                word += c;
            }
        } else if (c == '\'' || c == '"') {
            quote = c;
            open = true;
        } else if (c == '\\' && i + 1 < line.size()) {
            word += line[++i];
            open = true;
        } else if (c == ' ' || c == '\t' || c == '\n') {
            if (open) words.push_back(std::exchange(word, {}));
            open = false;
        } else {
            word += c;
            open = true;
        }
    }
    if (quote) {
        throw cubepi::Error(ErrorCode::invalid_argument,
                            std::string("a quote is not closed: ") + quote);
    }
    if (open) words.push_back(std::move(word));
    return words;
}

std::vector<std::string> parameters_of(const AgentTool& tool) {
    std::vector<std::string> names;
    const Json* properties = tool.parameters.source().as_object().if_contains("properties");
    if (!properties || !properties->is_object()) return names;
    for (const auto& [key, schema] : properties->get_object()) names.emplace_back(key);
    return names;
}

JsonObject arguments_of(const AgentTool& tool, const std::vector<std::string>& words) {
    std::vector<std::string> in_order = parameters_of(tool);
    std::vector<std::string> known = in_order;
    const BubTool* bubs = find_bub_tool(words[0]);
    if (bubs) {
        in_order.assign(bubs->parameters.begin(), bubs->parameters.end());
        known.insert(known.end(), in_order.begin(), in_order.end());
    }
    JsonObject arguments;
    auto place = in_order.begin();
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::size_t equals = words[i].find('=');
        const std::string key = words[i].substr(0, equals);
        if (equals != std::string::npos &&
            std::find(known.begin(), known.end(), key) != known.end()) {
            arguments[key] = words[i].substr(equals + 1);
            continue;
        }
        while (place != in_order.end() && arguments.contains(*place)) ++place;
        if (place == in_order.end()) {
            throw cubepi::Error(ErrorCode::invalid_argument,
                                words[0] + " takes no such argument: " + words[i]);
        }
        arguments[*place++] = words[i];
    }
    if (bubs) arguments = our_arguments(*bubs, std::move(arguments));
    return arguments;
}

}  // namespace bub::detail
