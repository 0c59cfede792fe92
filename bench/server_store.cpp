#include "server_store.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/format/message_row.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "stored_message.hpp"

namespace cubepi::bench {

namespace {

/// Decodes the payloads of a load, without a server.
void decode_payloads(benchmark::State& state) {
    const Message one = stored_message();
    const std::vector<detail::MessageRow> rows(many_messages, detail::to_message_row("t", one));
    for (auto _ : state) {
        MessageList messages;
        detail::MessageRowReader reader;
        for (const detail::MessageRow& row : rows)
            messages.push_back(reader.read(row.payload, row.metadata));
        benchmark::DoNotOptimize(messages);
        state.PauseTiming();
        messages = MessageList();
        state.ResumeTiming();
    }
}

BENCHMARK(decode_payloads)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

void measure_append(benchmark::State& state, SqlCheckpointer& store) {
    const Message one = stored_message();
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            MessageList list;
            list.push_back(one);
            AppendOptions options;
            co_await store.append("t", std::move(list), std::move(options));
        }
    };
    run(loop());
}

namespace {

Task<void> append_to_64_threads(SqlCheckpointer& store, Message one) {
    std::vector<Task<std::int64_t>> appends;
    for (int i = 0; i < 64; ++i) {
        MessageList list;
        list.push_back(one);
        AppendOptions options;
        appends.push_back(
            store.append("t" + std::to_string(i), std::move(list), std::move(options)));
    }
    co_await when_all(std::move(appends));
}

}  // namespace

void measure_append_of_64(benchmark::State& state, SqlCheckpointer& store) {
    const Message one = stored_message();
    const auto loop = [&]() -> Task<void> {
        // All connections of the pool are open, and their statements are prepared and planned.
        constexpr int rounds = 5;
        for (int i = 0; i < rounds; ++i) co_await append_to_64_threads(store, one);
        for (auto _ : state) co_await append_to_64_threads(store, one);
    };
    run(loop());
    state.counters["us_per_append"] =
        benchmark::Counter(static_cast<double>(state.iterations() * 64) / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void fill(SqlCheckpointer& store) {
    MessageList list;
    for (int i = 0; i < many_messages; ++i) list.push_back(stored_message());
    run(store.append("t", std::move(list), AppendOptions()));
}

void measure_load(benchmark::State& state, SqlCheckpointer& store) {
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            std::optional<CheckpointData> data = co_await store.load("t");
            benchmark::DoNotOptimize(data);
            // The floor creates no objects that must be released.
            state.PauseTiming();
            data.reset();
            state.ResumeTiming();
        }
    };
    run(loop());
}

void measure_claim(benchmark::State& state, SqlCheckpointer& store) {
    ClaimOwner owner;
    owner.owner_id = "bench";
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        std::int64_t number = 0;
        for (auto _ : state) {
            const std::string run_id = "r" + std::to_string(++number);
            co_await store.claim_run("t", run_id, owner, ClaimKind::new_run);
            co_await store.complete_run("t", run_id, owner.owner_id);
        }
    };
    run(loop());
}

}  // namespace cubepi::bench
