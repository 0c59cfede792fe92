// The measurements that the stores on a server have in common. The message is that of stored_message().
#pragma once

#include <benchmark/benchmark.h>

#include <cubepi/checkpoint/server_checkpointer.hpp>

namespace cubepi::bench {

/// The number of messages of a thread that is loaded.
inline constexpr int many_messages = 10'000;

/// Appends a message to a thread.
void measure_append(benchmark::State& state, SqlCheckpointer& store);

/// 64 sessions append at once, over the connections of one pool. The counter us_per_append has the time of one append.
void measure_append_of_64(benchmark::State& state, SqlCheckpointer& store);

/// Stores many_messages in the thread "t".
void fill(SqlCheckpointer& store);

/// Loads the thread "t", until the caller has its messages.
void measure_load(benchmark::State& state, SqlCheckpointer& store);

/// A claim of a run and its completion.
void measure_claim(benchmark::State& state, SqlCheckpointer& store);

}  // namespace cubepi::bench
