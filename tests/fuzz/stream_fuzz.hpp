#pragma once

// Any stream of an endpoint: the answer is one legal sequence of events and a message, or a typed error, and the work is
// proportional to the number of bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/ids.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "counted_memory.hpp"
#include "fuzz_check.hpp"

namespace cubepi::fuzz {

/// Follows the grammar of StreamEvent.
class Grammar {
public:
    void take(const StreamEvent& event) {
        CUBEPI_FUZZ_CHECK(!ended_);
        if (event.type == StreamEventType::notice) return;
        if (event.is_terminal()) {
            if (event.type == StreamEventType::done) {
                CUBEPI_FUZZ_CHECK(started_);
                for (const Block& block : blocks_) CUBEPI_FUZZ_CHECK(!block.open);
            }
            ended_ = true;
            return;
        }
        if (event.type == StreamEventType::start) {
            CUBEPI_FUZZ_CHECK(!started_);
            started_ = true;
            return;
        }
        CUBEPI_FUZZ_CHECK(started_);
        block(event);
    }
    bool ended() const { return ended_; }

private:
    struct Block {
        int kind = 0;
        bool open = true;
    };

    void block(const StreamEvent& event) {
        const int step =
            static_cast<int>(event.type) - static_cast<int>(StreamEventType::text_start);
        const int kind = step / 3;
        CUBEPI_FUZZ_CHECK(event.content_index >= 0);
        const auto index = static_cast<std::size_t>(event.content_index);
        if (step % 3 == 0) {
            CUBEPI_FUZZ_CHECK(index == blocks_.size());
            blocks_.push_back({kind, true});
            return;
        }
        CUBEPI_FUZZ_CHECK(index < blocks_.size());
        CUBEPI_FUZZ_CHECK(blocks_[index].kind == kind && blocks_[index].open);
        if (step % 3 == 2) blocks_[index].open = false;
    }

    std::vector<Block> blocks_;
    bool started_ = false;
    bool ended_ = false;
};

/// The limits of allocations and of output of a decoder for `size` bytes. They are linear: a decoder that copies an answer for each
/// of its pieces exceeds them.
inline void check_work(std::size_t size, std::size_t allocated, std::size_t events,
                       std::size_t delta_bytes) {
    constexpr std::size_t fixed = std::size_t{256} << 10U;
    constexpr std::size_t per_byte = 512;
    CUBEPI_FUZZ_CHECK(allocated <= fixed + per_byte * size);
    CUBEPI_FUZZ_CHECK(events <= 16 + size);
    // A last event may repeat what was streamed.
    CUBEPI_FUZZ_CHECK(delta_bytes <= 1024 + 4 * size);
}

/// Passes the bytes to the decoder created by `make(assembler, ids)`.
template <class Make>
void check_decoder(std::string_view bytes, const Make& make) {
    AssistantMessage head;
    head.id = "m";
    MessageAssembler assembler(head);
    cubepi::testing::SequentialIds ids;
    const std::unique_ptr<detail::WireDecoder> decoder = make(assembler, ids);
    detail::EventQueue queue;
    const std::size_t allocated_before = allocated_bytes();
    try {
        // Text that is not an event stream is treated as payloads, one per line.
        SseDecoder sse;
        sse.feed(bytes);
        SseEvent event;
        bool any = false;
        while (!decoder->over() && sse.next(event)) {
            any = true;
            decoder->decode(event.event, event.data, queue);
        }
        for (std::size_t at = 0; !any && !decoder->over() && at < bytes.size();) {
            const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
            decoder->decode("message", bytes.substr(at, end - at), queue);
            at = end + 1;
        }
        decoder->finish(queue);
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() != ErrorCode::unknown);
        queue.push(assembler.error(error.what()));
    }
    const std::size_t allocated = allocated_bytes() - allocated_before;
    const std::size_t events = queue.size();
    std::size_t delta_bytes = 0;
    Grammar grammar;
    std::vector<PartialMessage> snapshots;
    while (!queue.empty()) {
        const StreamEvent event = queue.pop();
        delta_bytes += event.delta.size();
        grammar.take(event);
        if (event.type != StreamEventType::notice) snapshots.push_back(event.partial);
    }
    CUBEPI_FUZZ_CHECK(grammar.ended());
    check_work(bytes.size(), allocated, events, delta_bytes);
    for (std::size_t i = 0; i < snapshots.size(); i += snapshots.size() / 8 + 1)
        (void)snapshots[i].get();
    // The received text is valid and can be stored.
    const Message message = snapshots.back().message();
    const JsonObject stored = to_json(message);
    const Json loaded = parse_json(boost::json::serialize(stored));
    CUBEPI_FUZZ_CHECK(message_from_json(loaded).text() == message.text());
}

}  // namespace cubepi::fuzz
