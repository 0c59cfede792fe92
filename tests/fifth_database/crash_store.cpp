#include "../crash/crash_store.hpp"

#include <utility>

#include <cubepi/core/run.hpp>

#include "fifth_database.hpp"

namespace cubepi::crash_tests {

/// The memory of a killed process is lost, so the database is a file here.
std::shared_ptr<Checkpointer> open_crash_store(const std::filesystem::path& directory) {
    SqlOptions options;
    options.connection = (directory / "fifth.db").string();
    run(fifth::apply_fifth_schema(options));
    return std::make_shared<fifth::FifthCheckpointer>(std::move(options));
}

}  // namespace cubepi::crash_tests
