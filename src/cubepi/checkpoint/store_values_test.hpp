// Helpers shared by the tests of all stores.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi {

/// A directory in memory that is removed after the test: a store waits for the disk several times in each transaction.
class TempDirectory : public ScopedTestDirectory {
public:
    TempDirectory() : ScopedTestDirectory(memory_directory()) {}

    std::string file(const std::string& name) const { return (path() / name).string(); }
};

inline Message user(std::string text, std::string run_id = {}, std::string id = {}) {
    return user_message(std::move(text), std::move(id))
        .with_run_id(SharedString(std::move(run_id)));
}

inline MessageList one(Message message) {
    MessageList list;
    list.push_back(std::move(message));
    return list;
}

/// The error that `task` ends with; fails the test when it has none.
template <class E = Error, class T>
E error_of(Task<T> task) {
    try {
        run(std::move(task));
    } catch (const E& error) {
        return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    throw std::runtime_error("nothing was thrown");
}

/// The form for a terminal: one line that ends with the remedy.
inline void expect_one_line(const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_GT(text.size(), 20U) << text;
}

}  // namespace cubepi
