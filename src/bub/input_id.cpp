#include <bub/input_id.hpp>

namespace bub {

std::string input_id_of(const Envelope& message) {
    if (!message.inbound_id || message.inbound_id->empty()) return {};
    return message.channel.value_or("default") + ":" + *message.inbound_id;
}

}  // namespace bub
