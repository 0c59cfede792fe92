#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/anthropic/messages_api.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/openai/chat_api.hpp>
#include <cubepi/provider/openai/responses_api.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "streams.hpp"

// A long answer of each protocol, from the bytes on the wire to events and to the listener, and simdjson on the same
// payloads.

namespace cubepi::bench {
namespace {

constexpr int deltas = 2'000;

/// The minimum of a decoder: parses the payload, looks up the kind of the event and the text.
template <class Text>
void simdjson_reads(benchmark::State& state, Wire wire, Text text_of) {
    std::vector<simdjson::padded_string> all;
    for (const std::string& payload : payloads(wire, deltas)) all.emplace_back(payload);
    simdjson::ondemand::parser parser;
    for (auto _ : state) {
        std::size_t bytes = 0;
        for (const simdjson::padded_string& one : all) {
            simdjson::ondemand::document document = parser.iterate(one);
            std::string_view text;
            if (text_of(document).get(text) == simdjson::SUCCESS) bytes += text.size();
        }
        benchmark::DoNotOptimize(bytes);
    }
    report_deltas(state, static_cast<std::size_t>(state.iterations()) * deltas, 0, deltas);
}

/// Parses each payload completely: reads and checks all values.
void simdjson_parses(benchmark::State& state, Wire wire) {
    std::vector<simdjson::padded_string> all;
    for (const std::string& payload : payloads(wire, deltas)) all.emplace_back(payload);
    simdjson::dom::parser parser;
    for (auto _ : state) {
        std::size_t read = 0;
        for (const simdjson::padded_string& one : all) {
            simdjson::dom::element document;
            if (parser.parse(one).get(document) == simdjson::SUCCESS) ++read;
        }
        benchmark::DoNotOptimize(read);
    }
    report_deltas(state, static_cast<std::size_t>(state.iterations()) * deltas, 0, deltas);
}

void simdjson_parse_chat(benchmark::State& state) { simdjson_parses(state, Wire::chat); }
BENCHMARK(simdjson_parse_chat);
void simdjson_parse_responses(benchmark::State& state) { simdjson_parses(state, Wire::responses); }
BENCHMARK(simdjson_parse_responses);
void simdjson_parse_anthropic(benchmark::State& state) { simdjson_parses(state, Wire::anthropic); }
BENCHMARK(simdjson_parse_anthropic);

using Document = simdjson::ondemand::document;

void simdjson_chat(benchmark::State& state) {
    simdjson_reads(state, Wire::chat, [](Document& document) {
        return document["choices"].at(0)["delta"]["content"].get_string();
    });
}
BENCHMARK(simdjson_chat);

void simdjson_responses(benchmark::State& state) {
    simdjson_reads(state, Wire::responses, [](Document& document) {
        std::string_view type;
        (void)document["type"].get(type);
        return document["delta"].get_string();
    });
}
BENCHMARK(simdjson_responses);

void simdjson_anthropic(benchmark::State& state) {
    simdjson_reads(state, Wire::anthropic, [](Document& document) {
        std::string_view type;
        (void)document["type"].get(type);
        return document["delta"]["text"].get_string();
    });
}
BENCHMARK(simdjson_anthropic);

/// From bytes, in pieces as read from a socket, to stream events with their snapshots.
template <class Decoder>
void decode(benchmark::State& state, Wire wire) {
    const std::string body = body_of(wire, deltas);
    testing::SequentialIds ids;
    std::size_t seen = 0;
    std::size_t allocated = 0;
    for (auto _ : state) {
        const std::size_t before = allocations();
        MessageAssembler assembler{AssistantMessage()};
        Decoder decoder(assembler, ids);
        detail::EventQueue queue;
        SseDecoder sse;
        SseEvent event;
        for (std::size_t at = 0; at < body.size(); at += 4096) {
            sse.feed(std::string_view(body).substr(at, 4096));
            while (sse.next(event)) {
                decoder.decode(event.event, event.data, queue);
                while (!queue.empty()) {
                    const StreamEvent made = queue.pop();
                    seen += made.type == StreamEventType::text_delta ? 1 : 0;
                }
            }
        }
        if (decoder.complete()) decoder.finish(queue);
        allocated = allocations() - before;
    }
    report_deltas(state, seen, allocated, deltas);
}

void decode_chat(benchmark::State& state) { decode<detail::OpenAIChatDecoder>(state, Wire::chat); }
BENCHMARK(decode_chat);
void decode_responses(benchmark::State& state) {
    decode<detail::OpenAIResponsesDecoder>(state, Wire::responses);
}
BENCHMARK(decode_responses);
void decode_anthropic(benchmark::State& state) {
    decode<detail::AnthropicDecoder>(state, Wire::anthropic);
}
BENCHMARK(decode_anthropic);

/// From bytes to the listener, without a socket.
void wire_to_listener(benchmark::State& state, Wire wire, int count) {
    const std::string body = body_of(wire, count);
    auto transport = std::make_shared<testing::MemoryTransport>([&](const HttpRequest&) {
        return testing::MemoryResponse(200, body).with_header("content-type", "text/event-stream");
    });
    auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    deltas_to_listener(state, model_at(wire, "http://localhost"), runtime, count, [] {});
}

void wire_chat(benchmark::State& state) { wire_to_listener(state, Wire::chat, deltas); }
BENCHMARK(wire_chat);
void wire_responses(benchmark::State& state) { wire_to_listener(state, Wire::responses, deltas); }
BENCHMARK(wire_responses);
void wire_anthropic(benchmark::State& state) { wire_to_listener(state, Wire::anthropic, deltas); }
BENCHMARK(wire_anthropic);

/// Returns one event per read, and only after the reader has suspended: a slow answer.
class SleepyBody final : public HttpBody {
public:
    explicit SleepyBody(const std::vector<std::string>& events) : events_(events) {}

    bool read_ready(std::string&) override { return false; }

    bool interruptible() const noexcept override { return true; }

    Task<bool> read(std::string& out) override {
        co_await yield_now();
        if (at_ == events_.size()) co_return false;
        out += events_[at_++];
        co_return true;
    }

private:
    const std::vector<std::string>& events_;
    std::size_t at_ = 0;
};

class SleepyTransport final : public HttpTransport {
public:
    SleepyTransport(Wire wire, int count) {
        for (const std::string& payload : payloads(wire, count))
            events_.push_back(framed(wire, payload));
        if (wire == Wire::chat) events_.emplace_back("data: [DONE]\n\n");
    }

    Task<HttpResponse> send(HttpRequest) override {
        HttpResponse response;
        response.status = 200;
        response.headers.add("content-type", "text/event-stream");
        response.body = std::make_unique<SleepyBody>(events_);
        co_return response;
    }

private:
    std::vector<std::string> events_;
};

/// A single delta.
void wake_chat(benchmark::State& state) {
    auto runtime = std::make_shared<const Runtime>(
        Runtime().with_transport(std::make_shared<SleepyTransport>(Wire::chat, deltas)));
    deltas_to_listener(state, model_at(Wire::chat, "http://localhost"), runtime, deltas, [] {});
}
BENCHMARK(wake_chat);

/// The minimum cost of waiting: a coroutine that sleeps and wakes.
void bare_wake(benchmark::State& state) {
    const auto rounds = [&]() -> Task<void> {
        for (auto _ : state) co_await yield_now();
    };
    run(rounds());
}
BENCHMARK(bare_wake);

// One delta must cost the same however long its message is. Both are too long for the second-level cache.
void wire_short(benchmark::State& state) { wire_to_listener(state, Wire::chat, 10'000); }
BENCHMARK(wire_short);
void wire_long(benchmark::State& state) { wire_to_listener(state, Wire::chat, 100'000); }
BENCHMARK(wire_long);

/// One delta of a turn of 10,000 without a wire: in-process provider to listener.
void one_delta_of_many(benchmark::State& state) {
    FauxOptions options;
    options.token_size_min = options.token_size_max = 1;
    options.prompt_cache = false;
    FauxProvider faux(options);
    constexpr int count = 10'000;
    const AssistantMessage answer = faux_assistant_message(std::string(4 * count, 'x'));
    deltas_to_listener(state, faux.model("m"), nullptr, count,
                       [&] { faux.set_responses({FauxStep(answer)}); });
}
BENCHMARK(one_delta_of_many);

}  // namespace
}  // namespace cubepi::bench
