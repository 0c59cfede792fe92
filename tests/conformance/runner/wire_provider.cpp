#include "wire_provider.hpp"

namespace conformance {

std::shared_ptr<cubepi::Provider> make_wire_provider(const std::string& name,
                                                     const JsonObject& constructor,
                                                     std::uint16_t port) {
    if (name == "anthropic") return make_anthropic_provider(constructor, port);
    if (name == "openai-chat") return make_chat_provider(constructor, port);
    if (name == "openai-responses") return make_responses_provider(constructor, port);
    throw Unsupported("provider " + name);
}

}  // namespace conformance
