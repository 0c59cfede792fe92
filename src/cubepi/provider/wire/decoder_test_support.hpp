#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/test_streams.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// The result of decoding a body.
struct Decoded {
    std::vector<StreamEvent> events;
    AssistantMessage message;
    ResponseDetails details;
    std::string failure;  ///< the text of its exception

    std::string spelled() const { return cubepi::spelled(events); }
    /// Returns the content indexes of all block events.
    std::string indexes() const {
        std::string text;
        for (const StreamEvent& event : events) {
            if (event.is_block_event()) text += std::to_string(event.content_index);
        }
        return text;
    }
    template <class Block>
    const Block& block(std::size_t index) const {
        return std::get<Block>(message.content.at(index));
    }
};

/// Decodes a body that arrives in two reads, cut at `cut`. Failures end it as an error event.
template <class Decoder, class... Options>
Decoded decode_with(const std::string& body, std::size_t cut, Options... options) {
    MessageAssembler assembler{AssistantMessage()};
    testing::SequentialIds ids("id");
    Decoder decoder(assembler, ids, options...);
    SseDecoder sse;
    EventQueue queue;
    SseEvent event;
    Decoded result;
    try {
        for (const std::string& part : {body.substr(0, cut), body.substr(cut)}) {
            sse.feed(part);
            while (sse.next(event)) decoder.decode(event.event, event.data, queue);
        }
        if (sse.finish(event)) decoder.decode(event.event, event.data, queue);
        decoder.finish(queue);
    } catch (const Error& error) {
        result.failure = error.what();
        queue.push(assembler.error(error.what()));
    }
    result.details = assembler.details();
    while (!queue.empty()) result.events.push_back(queue.pop());
    result.message = result.events.back().partial.get();
    return result;
}

}  // namespace cubepi::detail
