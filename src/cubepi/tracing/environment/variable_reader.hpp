#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/tracing/otel_environment.hpp>

namespace cubepi::detail {

/// The type of a variable: how a value is read and shown, and what is used if no variable has a valid one.
template <class T>
struct VariableType {
    std::string expected;  ///< completes "'x' is not ..."
    std::function<std::optional<T>(std::string_view text)> parse;
    std::function<std::string(const T& value)> show;
    T default_value;
};

/// Reads environment variables by the rules of OpenTelemetry and collects the notices about them.
class VariableReader {
public:
    VariableReader(const EnvironmentLookup& lookup, std::vector<Notice>& notices)
        : lookup_(lookup), notices_(notices) {}

    /// Returns the value without blanks at its ends; nothing if it is empty or not set.
    std::optional<std::string> text(std::string_view name) const;

    /// Returns the value of the first of the variables that has a valid one.
    template <class T>
    T read(std::initializer_list<std::string> names, const VariableType<T>& type) {
        std::vector<std::pair<std::string, std::string>> invalid;
        T used = type.default_value;
        for (const std::string& name : names) {
            const std::optional<std::string> value = text(name);
            if (!value) continue;
            if (std::optional<T> parsed = type.parse(*value)) {
                used = std::move(*parsed);
                break;
            }
            invalid.emplace_back(name, *value);
        }
        for (const auto& [name, value] : invalid) {
            warn(name,
                 quoted(value) + " is not " + type.expected + "; " + type.show(used) + " is used.");
        }
        return used;
    }

    /// Adds a notice, once: a variable of all signals is read for each of them.
    void warn(std::string_view name, std::string text);

    /// Returns a value as it is shown: in quotes, without control characters, at most 60 bytes of it.
    static std::string quoted(std::string_view value);

private:
    const EnvironmentLookup& lookup_;
    std::vector<Notice>& notices_;
};

/// "true" or "false", in any case; the default is false.
VariableType<bool> boolean_variable();
/// A positive integer below 2^31.
VariableType<std::size_t> size_variable(std::size_t default_value);
/// Milliseconds, from `least` to 2^31 - 1.
VariableType<std::chrono::milliseconds> duration_variable(std::chrono::milliseconds default_value,
                                                          std::int64_t least = 0);
/// As duration_variable(), but zero is without a limit: a duration of weeks.
VariableType<std::chrono::milliseconds> timeout_variable(std::chrono::milliseconds default_value);

/// One of several words, in any case.
template <class T>
VariableType<T> word_variable(std::vector<std::pair<std::string, T>> words, T default_value);

/// Returns the text in lower case (ASCII).
std::string lower_case(std::string_view text);

template <class T>
VariableType<T> word_variable(std::vector<std::pair<std::string, T>> words, T default_value) {
    VariableType<T> type;
    type.default_value = default_value;
    type.expected = "one of";
    for (std::size_t i = 0; i < words.size(); ++i)
        type.expected += (i == 0 ? " " : ", ") + words[i].first;
    type.show = [words](const T& value) {
        for (const auto& [word, of_word] : words) {
            if (of_word == value) return "'" + word + "'";
        }
        return std::string("the default");
    };
    type.parse = [words](std::string_view text) -> std::optional<T> {
        const std::string lower = lower_case(text);
        for (const auto& [word, value] : words) {
            if (word == lower) return value;
        }
        return std::nullopt;
    };
    return type;
}

}  // namespace cubepi::detail
