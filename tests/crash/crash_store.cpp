#include "crash_store.hpp"

#include <utility>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

namespace cubepi::crash_tests {

std::shared_ptr<Checkpointer> open_crash_store(const std::filesystem::path& directory) {
    SQLiteOptions options;
    options.path = (directory / "t.db").string();
    options.synchronous = SQLiteSynchronous::off;
    return std::make_shared<SQLiteCheckpointer>(std::move(options));
}

}  // namespace cubepi::crash_tests
