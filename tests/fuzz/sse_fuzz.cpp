// The same bytes produce the same events for every split, and only Error(too_large) is thrown.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/net/sse_decoder.hpp>

#include "fuzz_check.hpp"

namespace {

using namespace cubepi;

struct Event {
    std::string event;
    std::string data;
    std::string id;
    std::optional<std::chrono::milliseconds> retry;
    friend bool operator==(const Event&, const Event&) = default;
};

struct Outcome {
    std::vector<Event> events;
    bool too_large = false;
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Decodes `bytes` in pieces of `piece` bytes, or of varying sizes if it is zero.
Outcome decode(std::string_view bytes, std::size_t piece) {
    SseLimits limits;
    limits.max_line = 256;
    limits.max_event = 1024;
    SseDecoder decoder(limits);
    Outcome outcome;
    SseEvent event;
    const auto keep = [&] {
        outcome.events.push_back({std::string(event.event), std::string(event.data),
                                  std::string(event.id), event.retry});
    };
    try {
        for (std::size_t at = 0, turn = 1; at < bytes.size(); ++turn) {
            const std::size_t size = std::min(piece ? piece : turn % 7 + 1, bytes.size() - at);
            decoder.feed(bytes.substr(at, size));
            at += size;
            while (decoder.next(event)) keep();
        }
        if (decoder.finish(event)) keep();
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::too_large);
        outcome.too_large = true;
    }
    return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const Outcome whole = decode(bytes, std::max<std::size_t>(size, 1));
    CUBEPI_FUZZ_CHECK(decode(bytes, 1) == whole);
    CUBEPI_FUZZ_CHECK(decode(bytes, 0) == whole);
    for (const Event& event : whole.events) CUBEPI_FUZZ_CHECK(event.data.size() <= 1024);
    return 0;
}
