#include <cubepi/checkpoint/memory_checkpointer.hpp>

#include <utility>

#include <cubepi/checkpoint/memory/state.hpp>

// The functions of the interfaces are in memory/, by subject.

namespace cubepi {

MemoryCheckpointer::MemoryCheckpointer() : MemoryCheckpointer(MemoryOptions()) {}
MemoryCheckpointer::MemoryCheckpointer(MemoryOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
MemoryCheckpointer::~MemoryCheckpointer() = default;

}  // namespace cubepi
