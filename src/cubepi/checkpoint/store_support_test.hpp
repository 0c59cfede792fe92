// Helpers shared by the tests of the SQLite store.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <sqlite3.h>

#include <cubepi/checkpoint/store_values_test.hpp>

namespace cubepi {

/// A connection to the file that is not the store's.
class RawDatabase {
public:
    explicit RawDatabase(const std::string& path) {
        if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK)
            throw std::runtime_error("cannot open " + path);
        // A store that waits for its turn looks at the file now and then, and a commit waits for that.
        sqlite3_busy_timeout(handle_, 60000);
    }
    ~RawDatabase() { sqlite3_close(handle_); }
    RawDatabase(const RawDatabase&) = delete;
    RawDatabase& operator=(const RawDatabase&) = delete;

    /// All values of all rows, in order; NULL as "NULL".
    std::vector<std::string> query(const std::string& sql) {
        std::vector<std::string> values;
        char* error = nullptr;
        const auto collect = [](void* to, int columns, char** texts, char**) {
            for (int i = 0; i < columns; ++i) {
                static_cast<std::vector<std::string>*>(to)->emplace_back(texts[i] ? texts[i]
                                                                                  : "NULL");
            }
            return 0;
        };
        if (sqlite3_exec(handle_, sql.c_str(), collect, &values, &error) != SQLITE_OK) {
            const std::string text = error ? error : "?";
            sqlite3_free(error);
            throw std::runtime_error(text + ": " + sql);
        }
        return values;
    }

private:
    sqlite3* handle_ = nullptr;
};

}  // namespace cubepi
