#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/provider.hpp>

#include "loopback.hpp"
#include "reading.hpp"
#include "scenario.hpp"

namespace conformance {

/// The provider that a wire case names ("openai-chat", ...), asking a server on a loopback port. `constructor` is the
/// case's options.constructor. Throws Unsupported for an unknown provider.
std::shared_ptr<cubepi::Provider> make_wire_provider(const std::string& name,
                                                     const JsonObject& constructor,
                                                     std::uint16_t port);

/// `form` is options.model of a case.
cubepi::Model parse_wire_model(std::string id, const JsonObject& form);

/// The answers of the server: `answers`, `response` or `response_sse` of a case. A stride of 0 sends each in one piece.
std::vector<HttpAnswer> parse_answers(const JsonObject& file, std::size_t stride);

/// Applies `constructor.capability`, if there is one, to the existing values.
void read_capability(const JsonObject& constructor, cubepi::CapabilityDescriptor& into);

/// Additions of a case to the requests of every provider.
template <class Options>
void read_extras(const JsonObject& constructor, Options& options) {
    if (const Json* body = constructor.if_contains("extra_body")) {
        options.extra_body = as_object(*body, "extra_body");
    }
    if (const Json* headers = constructor.if_contains("extra_headers")) {
        for (const auto& [name, value] : as_object(*headers, "extra_headers")) {
            options.extra_headers.emplace_back(name, as_text(value, name));
        }
    }
}

// One per provider, each in a file of its own.
std::shared_ptr<cubepi::Provider> make_anthropic_provider(const JsonObject& constructor,
                                                          std::uint16_t port);
std::shared_ptr<cubepi::Provider> make_chat_provider(const JsonObject& constructor,
                                                     std::uint16_t port);
std::shared_ptr<cubepi::Provider> make_responses_provider(const JsonObject& constructor,
                                                          std::uint16_t port);

}  // namespace conformance
